"""Files that a page draws in, as long as they lie in the course folder."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

MAX_INCLUDED_BYTES = 1_000_000
MAX_DEPTH = 5
# mdBook, Quarto, reStructuredText and MyST, in this order.
_TARGET = re.compile(
    r"\{\{\s*#(?:rustdoc_)?include\s+(?P<mdbook>[^}:\s]+)"
    r"|\{\{<\s*include\s+(?P<quarto>\S+)\s*>\}\}"
    r"|^[ \t]*\.\.[ \t]+(?:literal)?include::[ \t]*(?P<rst>\S+)"
    r"|^[ \t>]*(?:`{3,}|~{3,}|:{3,})\{(?:literal)?include\}[ \t]*(?P<myst>\S+)",
    re.M,
)


@dataclass(frozen=True)
class Includes:
    """Reads what a file includes; None for what is missing or lies outside the course folder."""

    root: Path

    def path(self, file: Path, target: str) -> Path | None:
        """A target that begins with a slash is meant from the course folder."""
        wanted = self.root / target.lstrip("/") if target.startswith("/") else file.parent / target
        try:
            if not os.path.isfile(wanted):
                return None
            found = wanted.resolve()
            inside = found.is_relative_to(self.root)
            return found if inside and found.stat().st_size <= MAX_INCLUDED_BYTES else None
        except (OSError, RuntimeError, ValueError):  # a link loop, an impossible name
            return None

    def read(self, file: Path, target: str) -> str | None:
        found = self.path(file, target)
        return None if found is None else self._text(found)

    def _text(self, file: Path) -> str:
        try:
            return file.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
        except (OSError, UnicodeDecodeError):
            return ""

    def look_up(self, file: Path, text: str, depth: int = 0) -> tuple[list[Path], list[str]]:
        """The files that shape this one, through others too, and what it asks for in vain."""
        found: list[Path] = []
        missing: list[str] = []
        for target in targets(text):
            included = self.path(file, target)
            if included is None:
                missing.append(target)
            elif depth < MAX_DEPTH:
                inner, lacking = self.look_up(included, self._text(included), depth + 1)
                found += [included, *inner]
                missing += lacking
        return found, missing


def targets(text: str) -> list[str]:
    """What a page's text asks for, in order."""
    if "include" not in text:
        return []
    return [next(filter(None, match.groups())) for match in _TARGET.finditer(text)]


def picked_lines(text: str, selection: str) -> str:
    """mdBook's `file:2:4`, `file::4` or `file:2`, and `file:name` for an anchored stretch."""
    if not selection:
        return _without_anchor_marks(text)
    if re.fullmatch(r"\d*(?::\d*)?", selection):
        first, colon, last = selection.partition(":")
        lines = text.splitlines()
        begin = int(first or 1) - 1
        end = int(last or len(lines)) if colon else begin + 1
        return _without_anchor_marks("\n".join(lines[begin:end]))
    return anchored(text, selection)


def anchored(text: str, name: str) -> str:
    """The lines between `ANCHOR: name` and `ANCHOR_END: name`."""
    found: list[str] = []
    inside = False
    for line in text.splitlines():
        if re.search(rf"ANCHOR:\s*{re.escape(name)}\s*(?:\W*)$", line):
            inside = True
        elif re.search(rf"ANCHOR_END:\s*{re.escape(name)}\s*(?:\W*)$", line):
            inside = False
        elif inside:
            found.append(line)
    return _without_anchor_marks("\n".join(found))


def _without_anchor_marks(text: str) -> str:
    lines = text.splitlines()
    return "\n".join(line for line in lines if not re.search(r"\bANCHOR(?:_END)?:", line))
