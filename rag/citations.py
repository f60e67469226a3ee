"""Turning the markers of an answer into citations of the book, while the answer is still coming."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rag.terms import term_ids
from rag.types import Citation, SearchResult

MARKER, CODE = "\x01", "\x02"

# [2], [2|"quoted words"], [2, 3]: the quoted words are for checking, never shown.
_NUMBERS = r"\d{1,3}(?:\s*,\s*\d{1,3})*"
_QUOTE = "[\"“”'‘’]"
_TOKEN = rf"""
    (?P<code>(?<!`)(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`))
    | (?P<space>[ \t]*)\[(?P<numbers>{_NUMBERS})\s*
      (?:\|\s*(?:{_QUOTE}(?P<quoted>.{{0,600}}?){_QUOTE}
                |(?!{_QUOTE})(?P<bare>[^\]]{{0,600}}?))\s*)?\]
"""
_HALF_MARKER = r"[ \t]*\[(?:\d[\d,\s]*(?:\|.{0,600})?)?\Z"
_WHOLE = re.compile(_TOKEN, re.VERBOSE)
_COMING = re.compile(rf"{_TOKEN} | (?P<half>{_HALF_MARKER}|`.*\Z|[ \t]+\Z)", re.VERBOSE)
_FENCE = re.compile(r"\s*(?:(?:[-*+>]|\d{1,3}[.)])\s+)*(`{3,}(?=[^`]*$)|~{3,})")


class CitationWriter:
    """Rewrites markers to `[n]` numbered by first use; markers of unknown passages disappear.

    However the text is cut into pieces, the same text comes out. Code is left alone.
    """

    def __init__(self, passages: list[SearchResult]) -> None:
        self.passages = passages
        self.citations: list[Citation] = []
        self.cited_chunk_ids: list[str] = []
        self._held = ""
        self._line = ""
        """What was already shown of the current line, as it was written."""
        self._fence: str | None = None
        self._run: set[int] = set()
        """Numbers that stand directly before this place: none is repeated."""

    def feed(self, text: str) -> tuple[str, list[Citation]]:
        """The text that can be shown so far, and the citations it introduces."""
        known = len(self.citations)
        *lines, last = (self._held + text).split("\n")
        shown = [self._whole_line(line) + "\n" for line in lines]
        shown.append(self._line_so_far(last))
        return "".join(shown), self.citations[known:]

    def finish(self) -> tuple[str, list[Citation]]:
        """What was held back at the end of the answer; a fence that is still open is closed."""
        known = len(self.citations)
        begun = bool(self._line or self._held)
        shown = self._whole_line(re.sub(_HALF_MARKER, "", self._held))
        if self._fence:
            shown += ("\n" if begun else "") + self._fence
        self._held, self._fence = "", None
        return shown, self.citations[known:]

    def cite(self, passage: SearchResult) -> int:
        """The number under which a passage is cited; passages of one section share it."""
        if passage.chunk_id not in self.cited_chunk_ids:
            self.cited_chunk_ids.append(passage.chunk_id)
        for citation in self.citations:
            if citation.url == passage.url and citation.section == passage.section:
                return citation.n
        citation = Citation.of(passage, len(self.citations) + 1)
        self.citations.append(citation)
        return citation.n

    def _whole_line(self, line: str) -> str:
        written = self._line + line
        self._line = ""
        fence = _FENCE.match(written)
        if self._fence is None and fence is None:
            line = self._rewritten(line)
        elif self._fence is None and fence:
            self._fence = fence[1]
        elif self._fence and _closes(self._fence, written):
            self._fence = None
        self._run = set()
        return line

    def _line_so_far(self, line: str) -> str:
        fence = _FENCE.match(self._line + line)
        if self._fence or (fence and fence[1].startswith("~")):
            self._held = ""
            self._line += line
            return line
        # Backticks are held until they close: whether they begin a fence shows at the line's end.
        ready = _ready(line)
        self._held = line[ready:]
        self._line += line[:ready]
        return self._rewritten(line[:ready])

    def _rewritten(self, line: str) -> str:
        shown = ""
        end = 0
        for token in _WHOLE.finditer(line):
            shown += self._plain(line[end : token.start()])
            shown += self._numbered(token) if token["numbers"] else self._plain(token[0])
            end = token.end()
        return shown + self._plain(line[end:])

    def _plain(self, text: str) -> str:
        if text:
            self._run = set()
        return text

    def _numbered(self, marker: re.Match[str]) -> str:
        numbers = [int(n) for n in marker["numbers"].split(",")]
        known = [n for n in numbers if 1 <= n <= len(self.passages)]
        cited = dict.fromkeys(self.cite(self.passages[n - 1]) for n in known)
        new = [n for n in cited if n not in self._run]
        self._run.update(new)
        return marker["space"] + "".join(f"[{n}]" for n in new) if new else ""


def _ready(line: str) -> int:
    """How much of a line need not wait for what follows: a code span, a marker or its space."""
    for token in _COMING.finditer(line):
        closed_at_end = token["code"] and token.end() == len(line)
        if token["half"] is not None or closed_at_end:
            return token.start()
    return len(line)


def _closes(fence: str, line: str) -> bool:
    bare = line.strip()
    return len(bare) >= len(fence) and set(bare) == {fence[0]}


@dataclass(frozen=True)
class Marked:
    """A piece of an answer taken apart: what it says, and what it says it rests on."""

    text: str
    numbers: tuple[int, ...]
    quotes: tuple[str, ...]


def taken_apart(text: str) -> Marked:
    """Markers are found in prose only: a fenced block has none."""
    if _FENCE.match(text):
        return Marked(text, (), ())
    markers = [token for token in _WHOLE.finditer(text) if token["numbers"]]
    numbers = [int(n) for marker in markers for n in marker["numbers"].split(",")]
    quotes = [marker["quoted"] or marker["bare"] for marker in markers]
    plain = _WHOLE.sub(lambda token: token[0] if token["code"] else "", text)
    return Marked(plain, tuple(dict.fromkeys(numbers)), tuple(q for q in quotes if q))


def with_marker(text: str, number: int) -> str:
    """The text citing one passage: before a sentence's full stop, below a block."""
    if text.rstrip().rpartition("\n")[2].lstrip().startswith(("```", "~~~", "|")):
        return f"{text.rstrip()}\n\n[{number}]"  # in the block's last line it would be part of it
    end = re.search(r"[.!?]*\s*\Z", text)
    cut = end.start() if end else len(text)
    return f"{text[:cut]} [{number}]{text[cut:].rstrip()}"


def masked(text: str) -> str:
    """The text at the same length, with CODE and MARKER in place of what is never cut into."""
    hidden = _WHOLE.sub(lambda t: (MARKER if t["numbers"] else CODE) * len(t[0]), text)
    return re.sub(rf"{_HALF_MARKER}|`[^`]*\Z", lambda t: CODE * len(t[0]), hidden)


def without_markers(text: str) -> str:
    """A text whose numbers mean nothing any more, such as an earlier answer."""
    writer = CitationWriter([])
    return writer.feed(text)[0] + writer.finish()[0]


def best_passage(text: str, passages: Sequence[SearchResult]) -> SearchResult:
    """The passage that shares most words with a text, for a model that forgot its markers."""
    words = term_ids(text)
    return max(passages, key=lambda p: len(words & term_ids(p.context or p.text)))
