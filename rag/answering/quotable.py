"""What can be quoted of a passage: its sentences, lists, tables and code. No I/O here."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from rag.sentences import LIST_ITEM, blocks_of, is_fence, is_prose, sentences_of
from rag.types import SearchResult

_HEADING = re.compile(r"^\*\*[^*]+\*\*:?$|^#{1,6}\s|^:::|^<[^>]+>$|^!\[[^\]]*\]\([^)]*\)$")
# What a figure or listing shows says nothing without it.
_CAPTION = re.compile(r"^[*_]*(?:listing|figure|fig\.|table) [\dA-Z][\w.-]*:", re.IGNORECASE)
# What leads on or back instead of saying something, or asks: poor as a quotation.
_ASIDE = re.compile(
    r"^(?:(?:\w+, )?(?:let['’]s|we['’]ll|we will)|next,|now,? |as discussed|as you|recall|see the|"
    r"you can use these|for more|first, let|in listing|the listing|in other words|remember)\b|"
    r"\b(?:quiz(?:zes)?|inventory)\b|\?[\"”')*_]*(?:\s*\S)?$",
    re.IGNORECASE,
)
# What tells what will be told: no better with the list of topics below it.
_ANNOUNCEMENT = re.compile(
    r"^(?:in )?(?:this|the (?:next|last|previous|following)) (?:chapter|lesson|section)\b|"
    r"^here are the topics\b",
    re.IGNORECASE,
)
_ENUMERATION = re.compile(r":\s[^.]+,[^.]+\b(?:and|or)\b")
_LEANS_BACK = re.compile(
    r"^(?:this|that|these|those|it|its|they|such|then|however|instead|otherwise|here|both|"
    r"the (?:first|second|last|former|latter|command|code|output|result))\b",
    re.IGNORECASE,
)
LED_TO = 3
"""How many paragraphs belong to a "consisting of:" that no list follows."""


@dataclass(frozen=True)
class Unit:
    """The smallest thing that may be quoted: a sentence, or a whole list, table or code block."""

    text: str
    passage: int
    position: int
    paragraph: int
    is_block: bool
    heading: str = ""
    """What its passage is about, in the book's own words."""

    @property
    def enumerates(self) -> bool:
        return self.is_block or bool(_ENUMERATION.search(self.text))

    @property
    def opens(self) -> bool:
        return self.position == 0 and not self.is_block

    @property
    def is_aside(self) -> bool:
        return bool(
            _ANNOUNCEMENT.match(self.text) or (not self.is_block and _ASIDE.search(self.text))
        )

    @property
    def is_code(self) -> bool:
        return self.is_block and any(is_fence(line) for line in self.text.splitlines())

    @property
    def is_table(self) -> bool:
        return self.is_block and any(line.startswith("|") for line in self.text.splitlines())

    @property
    def leads_on(self) -> bool:
        return not self.is_block and self.text.endswith(":")

    @property
    def items(self) -> list[str]:
        """The items of a list, each with all that is indented below it."""
        lines = self.text.splitlines()
        starts = [n for n, line in enumerate(lines) if LIST_ITEM.match(line) and line[0] != " "]
        return ["\n".join(lines[a:b]).strip() for a, b in pairwise([*starts, len(lines)])]


def units_of(passages: Sequence[SearchResult]) -> list[Unit]:
    """Every quotable unit of the passages, each text once."""
    units: list[Unit] = []
    seen: set[str] = set()
    for number, passage in enumerate(passages):
        split = split_units(passage.context or passage.text)
        for position, (text, paragraph, is_block) in enumerate(split):
            if text not in seen:
                seen.add(text)
                units.append(Unit(text, number, position, paragraph, is_block, passage.section))
    return units


def split_units(text: str) -> list[tuple[str, int, bool]]:
    """Sentences of paragraphs; lists, tables and code whole, together with what leads into them."""
    units: list[tuple[str, int, bool]] = []
    for paragraph, block in enumerate(blocks_of(text)):
        if not is_prose(block):
            lead = units.pop()[0] + "\n\n" if units and units[-1][0].endswith(":") else ""
            units.append((lead + block, paragraph, True))
        elif not (_HEADING.match(block.strip()) or _CAPTION.match(block.strip())):
            units += [(sentence, paragraph, False) for sentence in sentences_of(block)]
    return units


def with_what_it_leans_on(unit: Unit, units: Sequence[Unit]) -> list[Unit]:
    """A sentence that begins with "This" or "The command" is quoted with what stands before it,
    one that ends in a colon with what it leads to."""
    if unit.leads_on:
        return [unit, *following(unit, units)[:LED_TO]]
    if unit.is_block or not _LEANS_BACK.match(unit.text):
        return [unit]
    above = (u for u in units if (u.passage, u.position) == (unit.passage, unit.position - 1))
    before = [u for u in above if u.is_block or u.paragraph == unit.paragraph]
    return [*before, unit]


def following(unit: Unit, units: Sequence[Unit]) -> list[Unit]:
    return [u for u in units if u.passage == unit.passage and u.position > unit.position]


def composed(units: Sequence[Unit]) -> list[str]:
    """Quotations as Markdown: neighbouring sentences joined, blocks apart, each run cited once."""
    pieces: list[str] = []
    for place, unit in enumerate(units):
        following = units[place + 1] if place + 1 < len(units) else None
        goes_on = following is not None and following.passage == unit.passage
        in_run = goes_on and not unit.is_block and following is not None and not following.is_block
        text = unit.text if goes_on else with_marker(unit)
        gap = " " if in_run and following and following.paragraph == unit.paragraph else "\n\n"
        pieces.append(text + (gap if following else ""))
    return pieces


def with_marker(unit: Unit) -> str:
    separator = "\n\n" if unit.is_block else " "
    return f"{unit.text}{separator}[{unit.passage + 1}]"
