"""Cuts a page into passages that fit the embedding model. No I/O here."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

from rag.ingestion.blocks import Block
from rag.ingestion.sections import Section

MIN_CHARACTERS = 10
CountTokens = Callable[[str], int]
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])[\"'”’)\]]*\s+(?=[^\s])|\n+")


@dataclass(frozen=True)
class Piece:
    """One passage to be: its text, and the section a reader finds it in."""

    text: str
    section_title: str | None
    breadcrumb: str
    anchor: str


_Place = tuple[tuple[str, str], ...]
"""The headings that text stands under, each with its anchor, for two headings may read the same."""


@dataclass(frozen=True)
class _Draft:
    """Text of one section, or of neighbouring ones, with its size."""

    place: _Place
    reached: _Place
    """Where its last words stand, which may be deeper."""
    text: str
    tokens: int

    @property
    def path(self) -> tuple[str, ...]:
        return tuple(heading for heading, _ in self.place)


def cut(
    title: str, sections: Iterable[Section], limit: int, count_tokens: CountTokens
) -> list[Piece]:
    """The page's passages in order; heading path and text together take at most `limit` tokens."""
    meter = _Meter(limit, count_tokens)
    drafts: list[_Draft] = []
    for section in sections:
        place = tuple(zip(section.path, section.anchors, strict=True))
        room = meter.room(_breadcrumb(title, section.path, meter))
        for text, tokens in _pack(section.blocks, room, meter):
            if _words(text) != _words([title, *section.path][-1]):
                drafts.append(_Draft(place, place, text, tokens))
    pieces: dict[str, Piece] = {}
    for draft in _joined(title, drafts, meter):
        text = draft.text.strip()
        if len(text) >= MIN_CHARACTERS:
            pieces.setdefault(text, _piece(title, draft, text, meter))
    return list(pieces.values())


def _words(text: str) -> list[str]:
    """A link that reads as its heading does, above nothing else, says nothing of its own."""
    return re.findall(r"\w+", text.lower())


def _piece(title: str, draft: _Draft, text: str, meter: "_Meter") -> Piece:
    return Piece(
        text=text,
        section_title=draft.path[-1] if draft.path else None,
        breadcrumb=_breadcrumb(title, draft.path, meter),
        anchor=draft.place[-1][1] if draft.place else "",
    )


class _Meter:
    """Counts tokens once a block; the whole then follows by adding."""

    def __init__(self, limit: int, count_tokens: CountTokens) -> None:
        self.limit = limit
        self._count = count_tokens
        # What the tokenizer adds to any text, and what an empty line between two costs.
        self._frame = count_tokens("")
        self.joint = max(0, count_tokens("a\n\na") - 2 * count_tokens("a") + self._frame)

    def tokens(self, text: str) -> int:
        return self._count(text) - self._frame

    def room(self, breadcrumb: str) -> int:
        return self.limit - self._frame - self.tokens(breadcrumb) - self.joint


def _breadcrumb(title: str, path: Sequence[str], meter: _Meter) -> str:
    """`Page > H2 > H3`; where headings would crowd out the text, only as much as half allows."""
    words = " > ".join([title, *path]).split(" ")
    while len(words) > 1 and meter.tokens(" ".join(words)) > meter.limit // 2:
        words = words[: -max(1, len(words) // 8)]
    text = " ".join(words)
    while meter.tokens(text) > meter.limit // 2:
        text = text[: len(text) // 2]
    return text


# --- Filling passages --------------------------------------------------------------------------


def _pack(
    blocks: Iterable[Block], room: int, meter: _Meter, joiner: str = "\n\n"
) -> Iterator[tuple[str, int]]:
    """Whole blocks side by side as long as they fit; a block too long for one passage is split."""
    texts: list[str] = []
    used = 0
    for block in blocks:
        tokens = meter.tokens(block.text)
        if texts and used + meter.joint + tokens > room:
            yield joiner.join(texts), used
            texts, used = [], 0
        if tokens > room:
            *full, (rest, used) = _split(block, room, meter)
            yield from full
            texts = [rest]  # what is left of it shares a passage with what follows
            continue
        used += tokens + (meter.joint if texts else 0)
        texts.append(block.text)
    if texts:
        yield joiner.join(texts), used


def _split(block: Block, room: int, meter: _Meter) -> Iterator[tuple[str, int]]:
    frame = meter.tokens(block.head) + meter.tokens(block.tail) if block.head else 0
    opening = meter.tokens(block.opening) + meter.joint if block.opening and block.parts else 0
    if frame + opening > room // 2:
        # A table whose header, or a name that by itself, fills the passage.
        block, frame, opening = Block(block.text), 0, 0
    parts = block.parts or _parts_of_text(block.text, room, meter)
    joiner = block.joiner if block.parts else " "
    above = block.opening if opening else ""
    for text, tokens in _pack(parts, room - frame - opening, meter, joiner):
        if text.strip():
            yield f"{above}{block.head}{text}{block.tail}", tokens + frame + opening
            above, opening = "", 0


def _parts_of_text(text: str, room: int, meter: _Meter) -> Iterator[Block]:
    """Sentences; of a sentence too long, its words; of a word too long, its halves."""
    for sentence in _sentences(text):
        if meter.tokens(sentence) <= room:
            yield Block(sentence)
        else:
            for word in sentence.split():
                yield from _halves(word, room, meter)


def _sentences(text: str) -> list[str]:
    cuts = [0, *(match.end() for match in _SENTENCE_END.finditer(text)), len(text)]
    spans = (text[a:b].strip() for a, b in pairwise(cuts))
    return [sentence for sentence in spans if sentence]


def _halves(word: str, room: int, meter: _Meter) -> Iterator[Block]:
    if len(word) < 2 or meter.tokens(word) <= room:
        yield Block(word)
        return
    middle = len(word) // 2
    yield from _halves(word[:middle], room, meter)
    yield from _halves(word[middle:], room, meter)


# --- Joining small sections --------------------------------------------------------------------


def _joined(title: str, drafts: Iterable[_Draft], meter: _Meter) -> Iterator[_Draft]:
    """Neighbouring small sections under one H2 share a passage, named after what holds both."""
    open_draft: _Draft | None = None
    for draft in drafts:
        if open_draft is not None:
            both = _join(title, open_draft, draft, meter)
            if both is not None:
                open_draft = both
                continue
            yield open_draft
        open_draft = draft
    if open_draft is not None:
        yield open_draft


def _join(title: str, first: _Draft, second: _Draft, meter: _Meter) -> _Draft | None:
    common = _shared(first.place, second.place)
    if common == 0 or first.place == second.place or not _may_join(first, second, meter.limit // 4):
        return None
    place = first.place[:common]
    named = _shared(first.reached, second.place)
    texts = [_under_headings(first, common), _under_headings(second, named)]
    text = "\n\n".join(texts)
    tokens = sum(meter.tokens(part) for part in texts) + meter.joint
    if tokens > meter.room(_breadcrumb(title, first.path[:common], meter)):
        return None
    return _Draft(place, second.reached, text, tokens)


def _may_join(first: _Draft, second: _Draft, small: int) -> bool:
    """Two small ones, or a small one beneath the other's heading, which still names both."""
    beneath = second.path[: len(first.path)] == first.path
    sizes = (first.tokens, second.tokens)
    return min(sizes) <= small if beneath else max(sizes) <= small


def _shared(first: _Place, second: _Place) -> int:
    """How many headings two places have in common, from the top."""
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _under_headings(draft: _Draft, named: int) -> str:
    headings = [f"**{heading}**" for heading, _ in draft.place[named:]]
    return "\n\n".join([*headings, draft.text])
