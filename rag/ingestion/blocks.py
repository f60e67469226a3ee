"""What every format is read into: sections of whole blocks, as plain readable Markdown."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Block:
    """A piece of a page that stays whole where it fits; else its parts stand on their own.

    What is cut off its parts is put between `head` and `tail` again, so that a long listing
    becomes several listings and each part of a long table has the header row. `opening` names the
    block and stands above its first part only.
    """

    text: str
    parts: tuple["Block", ...] = ()
    joiner: str = "\n\n"
    head: str = ""
    tail: str = ""
    opening: str = ""


@dataclass(frozen=True)
class Heading:
    """A heading of the page, with its own anchor still in `raw` (`Title {#anchor}`)."""

    level: int
    text: str
    raw: str
    leads: bool = False
    """Whether it stands above everything else on the page."""


@dataclass(frozen=True)
class RawSection:
    """What stands under one heading, or above the first."""

    heading: Heading | None
    blocks: list[Block] = field(default_factory=list["Block"])


def listing(code: str, language: str = "") -> Block:
    """A fenced listing; nothing where there is no code."""
    code = code.strip("\n")
    if not code.strip():
        return Block("")
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`{3,}", code)), 3)
    head, tail = f"{fence}{language}\n", f"\n{fence}"
    lines = tuple(Block(line) for line in code.split("\n"))
    return Block(f"{head}{code}{tail}", lines, joiner="\n", head=head, tail=tail)


def framed(children: Sequence[Block], marker: str, joiner: str = "\n\n") -> Block:
    """Blocks under a list marker, or each line behind a quotation mark."""
    text = joiner.join(child.text for child in children)
    rest = "> " if marker == "> " else " " * len(marker)
    indented = text.replace("\n", f"\n{rest}")
    whole = re.sub(r"(?m)[ \t]+$", "", marker + indented)
    parts = tuple(children) if len(children) > 1 or (children and children[0].parts) else ()
    return Block(whole, parts)


def item_list(items: Sequence[Block]) -> Block:
    return Block("\n".join(item.text for item in items), tuple(items), joiner="\n")


def titled(title: str, children: Sequence[Block]) -> Block:
    """An admonition, a tab or a term: its name in bold stays with the first thing it holds."""
    if not title or not children:
        blocks = (*([Block(f"**{title}**")] if title else []), *children)
    else:
        name, first = f"**{title}**\n\n", children[0]
        text, opening = name + first.text, name + first.opening
        blocks = (replace(first, text=text, opening=opening), *children[1:])
    return Block("\n\n".join(block.text for block in blocks), tuple(blocks))


def table(rows: Sequence[Sequence[str]]) -> Block:
    """The first row is the header, which each part of a long table repeats."""
    lines = [_row(row) for row in rows]
    head = lines[0] + "\n" + "|" + "---|" * len(rows[0]) + "\n"
    body = tuple(Block(line) for line in lines[1:])
    return Block(head + "\n".join(lines[1:]), body, joiner="\n", head=head)


def _row(cells: Sequence[str]) -> str:
    texts = (" ".join(cell.split()).replace("|", r"\|") for cell in cells)
    return "| " + " | ".join(texts) + " |"
