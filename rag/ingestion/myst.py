"""Turns MyST, the Markdown of Sphinx and Jupyter Book, into plain Markdown.

Its directives are those of reStructuredText in fences of backticks or colons. What they show stays.
"""

import re
from collections.abc import Callable, Sequence

from rag.ingestion.includes import MAX_DEPTH
from rag.ingestion.markdown import LAYOUT
from rag.ingestion.sphinx_markup import (
    BARE,
    CHANGES,
    CODE,
    DROPPED,
    chosen_lines,
    is_code_role,
    role_text,
)

ReadIncluded = Callable[[str], str | None]

_MARK = re.compile(
    r"^[ \t>]*(?:`{3,}|~{3,}|:{3,})\{[\w:.+-]+\}|\{[\w:+.-]+\}`|^\([\w:. -]+\)=[ \t]*$", re.M
)
_OPENING = re.compile(
    r"(?P<indent>[ \t>]*)(?P<fence>`{3,}|~{3,}|:{3,})"
    r"(?:\{(?P<name>[\w:.+-]+)\}[ \t]*(?P<argument>.*)|[^`]*)"
)
_CODE_SPAN = re.compile(r"(?:\{(?P<role>[\w:+.-]+)\})?(?P<ticks>`+)(?P<text>[^`]+)(?P=ticks)")
_NO_TEXT = re.compile(r"\([\w:. -]+\)=\s*|%(?: .*|)|\+\+\+(?: .*|)")
_OPTION = re.compile(r":([\w-]+):(?:[ \t]+(.*))?")
_CODE = {*CODE.split(), "code-cell"}
_DROPPED = {*DROPPED.split(), "tableofcontents", "iframe", "eval-rst"}
_LAYOUT = {*BARE.split(), "margin", "epigraph", "pull-quote", "list-table", "csv-table", "div"}
_ADMONITION = re.compile(
    r"attention|caution|danger|error|hint|important|note|tip|warning|seealso|todo|solution"
)
_TITLED = re.compile(
    r"admonition|tab-item|card|grid-item-card|dropdown|topic|sidebar|exercise|prf:.*"
)


def from_myst(text: str, read_included: ReadIncluded = lambda target: None, depth: int = 0) -> str:
    """A page that has no mark of MyST stays as it is."""
    if not _MARK.search(text):
        return text
    lines = text.split("\n")
    kept: list[str] = []
    at = 0
    while at < len(lines):
        match = _OPENING.fullmatch(lines[at])
        if match is None:
            kept += [] if _NO_TEXT.fullmatch(lines[at]) else [_without_roles(lines[at])]
            at += 1
            continue
        end = _end(lines, at, match)
        if match["name"]:
            indent = match["indent"]
            directive = _Directive(match, [ln.removeprefix(indent) for ln in lines[at + 1 : end]])
            shown = directive.shown(read_included, depth)
            kept += ["", *(indent + line for line in shown.split("\n")), ""]
        else:
            kept += lines[at : end + 1]
        at = end + 1
    return "\n".join(kept)


def _end(lines: Sequence[str], start: int, opening: re.Match[str]) -> int:
    """The line that closes this fence; colons without a name may only close."""
    fence = opening["fence"]
    if fence[0] == ":" and not opening["name"]:
        return start
    closing = re.compile(rf"[ \t>]*{re.escape(fence[0])}{{{len(fence)},}}[ \t]*")
    later = range(start + 1, len(lines))
    return next((at for at in later if closing.fullmatch(lines[at])), len(lines))


def _without_roles(line: str) -> str:
    return _CODE_SPAN.sub(_shown_role, line) if "{" in line else line


def _shown_role(match: re.Match[str]) -> str:
    role = match["role"]
    if not role:
        return match[0]
    if role == "math":
        return f"${match['text']}$"
    shown = role_text(role, match["text"])
    return f"`{shown}`" if is_code_role(role) else shown


class _Directive:
    """One directive with what it was given."""

    def __init__(self, opening: re.Match[str], lines: Sequence[str]) -> None:
        self.name, self.argument = opening["name"].lower(), opening["argument"].strip()
        self.colons = opening["fence"].startswith(":")
        self.options, body = _options(lines)
        self.body = "\n".join(body).strip("\n")

    def shown(self, read_included: ReadIncluded, depth: int) -> str:
        if self.name in ("include", "literalinclude"):
            return self._included(read_included, depth)
        if self.name in _DROPPED:
            return ""
        if self.name in _CODE:
            caption = self.options.get("caption", "")
            return f"{caption}\n\n{_fenced(self.body, self.argument)}".lstrip()
        if self.name == "math":
            return f"$$\n{self.argument or self.body}\n$$"
        inner = from_myst(self.body, read_included, depth + 1) if depth < MAX_DEPTH else self.body
        return self._with(inner, ":" * (3 + MAX_DEPTH - min(depth, MAX_DEPTH)))

    def _with(self, inner: str, fence: str) -> str:
        """Its text as a container, whose fence is longer than those inside."""
        if self.name in ("figure", "image"):
            return f"{self.options.get('alt', '')}\n\n{inner}".strip()
        if self.name in CHANGES:
            return f"{CHANGES[self.name]} {self.argument}\n\n{inner}"
        if _TITLED.fullmatch(self.name):
            return f"{fence}{self.name.rpartition(':')[2]} {self.argument}\n{inner}\n{fence}"
        if _ADMONITION.fullmatch(self.name):
            return f"{fence}{self.name}\n{self.argument}\n\n{inner}\n{fence}"
        if self.name in _LAYOUT or self.colons:
            return f"{fence}{LAYOUT}\n{inner}\n{fence}"
        return _fenced(self.body, self.name.lstrip("."))  # a language, as R Markdown has it

    def _included(self, read_included: ReadIncluded, depth: int) -> str:
        text = read_included(self.argument) if self.argument and depth < MAX_DEPTH else None
        if text is None:
            return self.options.get("caption", "")
        chosen = chosen_lines(text, self.options)
        if self.name == "literalinclude":
            return _fenced(chosen, self.options.get("language", ""))
        return from_myst(chosen, read_included, depth + 1)


def _options(lines: Sequence[str]) -> tuple[dict[str, str], Sequence[str]]:
    """`:name: value` lines, or the same between two rules as YAML."""
    found: dict[str, str] = {}
    for at, line in enumerate(lines):
        match = _OPTION.fullmatch(line.strip())
        if match is None:
            return (found, lines[at:]) if found or line.strip() != "---" else _yaml_options(lines)
        found[match[1]] = (match[2] or "").strip()
    return found, []


def _yaml_options(lines: Sequence[str]) -> tuple[dict[str, str], Sequence[str]]:
    end = next((at for at, line in enumerate(lines) if at and line.strip() == "---"), 0)
    pairs = (line.partition(":") for line in lines[1:end])
    return {name.strip(): value.strip() for name, _, value in pairs}, lines[end + 1 :]


def _fenced(code: str, language: str) -> str:
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`{3,}", code)), 3)
    return f"{fence}{language}\n{code}\n{fence}"
