"""Cuts an answer, while it is being written, into the units that are checked one by one."""

import re
from dataclasses import dataclass

from rag.citations import CODE, MARKER, masked
from rag.sentences import ABBREVIATION, LIST_ITEM, is_fence

_CLOSERS = "[\"”')*_]*"
_END = re.compile(
    rf"[.!?]{_CLOSERS}(?:\s*{MARKER}+{_CLOSERS}[.!?]?)*(?P<gap>\s+)(?=[\"“'(*_]*[A-Z0-9{CODE}])"
)
_COMPLETE = re.compile(rf"[.!?:]{_CLOSERS}(?:\s*{MARKER}+[.!?]?)*\s*\Z")
_LINE_UNIT = re.compile(r"\s*(?:#{1,6}\s|>|(?:[-*+]|\d{1,3}[.)])\s)")
_SURELY_PROSE = re.compile(r"\s*(?:[^\W\d_]|[\"“'(]|\*\*|`(?!``)[^`]|\d+[^\d.)\s]).{2}", re.DOTALL)


@dataclass(frozen=True)
class Unit:
    """A sentence, list item, heading, table or code block, and what stands between it and what
    came before: a space, a line break or an empty line."""

    text: str
    gap: str


class UnitCutter:
    """However the text is cut into pieces, the same units come out."""

    def __init__(self) -> None:
        self._rest = ""
        """The line that has begun, while it may still become anything."""
        self._prose = ""
        self._mid_line = False
        self._block: list[str] = []
        self._fence = ""
        self._gap = ""

    def feed(self, text: str) -> list[Unit]:
        """The units that are whole by now."""
        units: list[Unit] = []
        *lines, last = (self._rest + text).split("\n")
        for line in lines:
            units += self._whole_line(line)
        self._rest = last
        if self._mid_line or (not self._block and _SURELY_PROSE.match(last)):
            units += self._end_table() if not self._fence else []
            self._prose += ("" if self._mid_line else self._joint()) + last
            self._rest, self._mid_line = "", True
            units += self._sentences()
        return units

    def finish(self) -> list[Unit]:
        units = self._whole_line(self._rest) if self._rest or self._mid_line else []
        self._rest = ""
        if self._fence:
            self._block.append(self._fence)
        return units + self._end_block() + self._end_prose()

    def _whole_line(self, line: str) -> list[Unit]:
        if self._mid_line:
            self._mid_line = False
            self._prose += line
            return self._after_prose_line()
        if self._fence:
            return self._fenced(line)
        if line.lstrip().startswith("|"):
            units = self._end_prose()
            self._block.append(line)
            return units
        return self._end_table() + self._other_line(line)

    def _fenced(self, line: str) -> list[Unit]:
        self._block.append(line)
        bare = line.strip()
        if len(bare) >= len(self._fence) and set(bare) == {self._fence[0]}:
            return self._end_block()
        return []

    def _other_line(self, line: str) -> list[Unit]:
        if not line.strip():
            units = self._end_prose()
            self._gap = "\n\n"
            return units
        if is_fence(line):
            units = self._end_prose()
            bare = line.lstrip()
            self._fence = bare[: len(bare) - len(bare.lstrip(bare[0]))]
            self._block = [line]
            return units
        if _LINE_UNIT.match(line):
            return [*self._end_prose(), self._unit(line.rstrip(), "\n")]
        self._prose += self._joint() + line
        return self._after_prose_line()

    def _joint(self) -> str:
        return " " if self._prose and not self._prose.endswith(" ") else ""

    def _after_prose_line(self) -> list[Unit]:
        """A sentence may go on in the next line, unless it has come to its end."""
        units = self._sentences()
        if _COMPLETE.search(masked(self._prose)):
            units += self._end_prose()
        return units

    def _sentences(self) -> list[Unit]:
        units: list[Unit] = []
        start = 0
        for end in _END.finditer(masked(self._prose)):
            if not ABBREVIATION.search(self._prose[start : end.start() + 1]):
                units.append(self._unit(self._prose[start : end.start("gap")], " "))
                start = end.end()
        self._prose = self._prose[start:]
        return units

    def _end_prose(self) -> list[Unit]:
        text, self._prose = self._prose.strip(), ""
        return [self._unit(text, "\n")] if text else []

    def _end_table(self) -> list[Unit]:
        return self._end_block() if self._block and not self._fence else []

    def _end_block(self) -> list[Unit]:
        text, self._block, self._fence = "\n".join(self._block), [], ""
        if not text:
            return []
        if self._gap:
            self._gap = "\n\n"
        unit = self._unit(text, "\n\n")
        return [unit]

    def _unit(self, text: str, following_gap: str) -> Unit:
        unit = Unit(text, self._gap)
        self._gap = following_gap
        return unit


def is_lead(text: str) -> bool:
    """Whether a unit says nothing by itself: a heading, or what leads into the next unit."""
    plain = text.strip()
    return bool(
        plain.startswith("#")
        or plain.endswith(":")
        or re.fullmatch(
            r"\*\*[^*]{1,80}\*\*:?|(?:yes|no|sure|certainly|of course)[.!]?", plain, re.I
        )
    )


def in_list_or_block(text: str) -> bool:
    return bool(is_fence(text) or text.lstrip().startswith("|") or LIST_ITEM.match(text))
