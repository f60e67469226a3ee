"""Answers in the book's own words: the sentences, steps and code that fit the question best."""

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import numpy as np

from rag.answering import Assignment
from rag.embedding import Embedder
from rag.terms import term_ids
from rag.types import SearchResult

MAX_UNITS = 5
MAX_CHARACTERS = 1_100
READ_PASSAGES = 4
KEEP_SHARE = 0.8
"""A unit is quoted if it comes this close to the best one."""
RANK_BONUS = 0.04
WORD_WEIGHT = 0.35

_SENTENCE_END = re.compile(r"(?<=[.!?])[\"”')\]*_`]*\s+(?=[\"“'(\[*_`]*[A-Z0-9])")
_ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|etc|vs|cf|Fig|Eq|Dr|Mr|Ms|No|approx)\.|\b[A-Z]\.)$")
_LIST_ITEM = re.compile(r"^\s*(?:[-*+]|\d{1,3}[.)])\s+")
_ASKS_HOW = re.compile(
    r"\b(how (?:do|can|to|would|should|does)|steps?|command|install|fix|solve)\b", re.I
)


@dataclass(frozen=True)
class Unit:
    """The smallest thing that may be quoted: a sentence, or a whole list, table or code block."""

    text: str
    passage: int
    position: int
    is_block: bool

    @property
    def order(self) -> tuple[int, int]:
        return self.passage, self.position


class ExtractiveAnswerer:
    """Quotes faithfully, in reading order, and cites every quotation."""

    model = "extractive"

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    async def write(self, assignment: Assignment) -> AsyncIterator[str]:
        units = units_of(assignment.passages[:READ_PASSAGES])
        if not units:
            return
        scores = await self._scores(assignment.question, units)
        chosen = choose(units, scores, bool(_ASKS_HOW.search(assignment.question)))
        for piece in composed(chosen):
            yield piece

    async def _scores(self, question: str, units: Sequence[Unit]) -> list[float]:
        vectors = await self._embedder.embed_passages([question, *(u.text for u in units)])
        cosines = vectors[1:] @ vectors[0]
        asked = term_ids(question)
        shares = [len(asked & term_ids(u.text)) / len(asked) if asked else 0.0 for u in units]
        ranks = np.array([u.passage for u in units])
        scores = cosines + WORD_WEIGHT * np.array(shares) - RANK_BONUS * ranks
        return [float(score) for score in scores]


def units_of(passages: Sequence[SearchResult]) -> list[Unit]:
    """Every quotable unit of the passages, each text once."""
    units: list[Unit] = []
    seen: set[str] = set()
    for number, passage in enumerate(passages):
        for position, (text, is_block) in enumerate(split_units(passage.context or passage.text)):
            if text not in seen:
                seen.add(text)
                units.append(Unit(text, number, position, is_block))
    return units


def split_units(text: str) -> list[tuple[str, bool]]:
    """Sentences of paragraphs; lists, tables and code whole, together with what leads into them."""
    units: list[tuple[str, bool]] = []
    for block in blocks_of(text):
        if not is_prose(block):
            lead = units.pop()[0] + "\n\n" if units and units[-1][0].endswith(":") else ""
            units.append((lead + block, True))
        elif not block.lstrip().startswith(("#", ":::")):
            units += [(sentence, False) for sentence in sentences_of(block)]
    return units


def blocks_of(text: str) -> list[str]:
    """Paragraphs, lists, tables and fences, by blank lines outside fences."""
    blocks: list[list[str]] = [[]]
    in_fence = False
    for line in text.splitlines():
        fence = line.lstrip().startswith(("```", "~~~"))
        if fence and not in_fence and blocks[-1] and not _LIST_ITEM.match(blocks[-1][0]):
            blocks.append([])
        if not line.strip() and not in_fence:
            blocks.append([])
        else:
            blocks[-1].append(line)
        if fence:
            in_fence = not in_fence
    return merge_lists(["\n".join(lines) for lines in blocks if lines])


def merge_lists(blocks: list[str]) -> list[str]:
    """Items of one list that stand apart by blank lines are one block again."""
    merged: list[str] = []
    for block in blocks:
        continues = _LIST_ITEM.match(block) or block.startswith("  ")
        if merged and _LIST_ITEM.match(merged[-1]) and continues:
            merged[-1] += "\n" + block
        else:
            merged.append(block)
    return merged


def is_prose(block: str) -> bool:
    first = block.lstrip()
    return not (first.startswith(("```", "~~~", "|", "$$")) or _LIST_ITEM.match(block))


def sentences_of(paragraph: str) -> list[str]:
    sentences: list[str] = []
    for part in _SENTENCE_END.split(" ".join(paragraph.split())):
        if sentences and _ABBREVIATION.search(sentences[-1]):
            sentences[-1] += " " + part
        else:
            sentences.append(part)
    return [sentence for sentence in sentences if len(sentence) > 2]


def choose(units: Sequence[Unit], scores: Sequence[float], asks_how: bool) -> list[Unit]:
    """The best units within the length limit, in reading order."""
    ranked = sorted(zip(scores, units, strict=True), key=lambda pair: -pair[0])
    best_score, best = ranked[0]
    chosen = [best]
    if asks_how and (follow_on := next_block(best, units)):
        chosen.append(follow_on)
    length = sum(len(unit.text) for unit in chosen)
    for score, unit in ranked[1:]:
        if score < KEEP_SHARE * best_score or len(chosen) >= MAX_UNITS:
            break
        if unit not in chosen and length + len(unit.text) <= MAX_CHARACTERS:
            chosen.append(unit)
            length += len(unit.text)
    # The passage with the best unit comes first; within a passage the book's own order holds.
    return sorted(chosen, key=lambda unit: (unit.passage != best.passage, unit.order))


def next_block(unit: Unit, units: Sequence[Unit]) -> Unit | None:
    """The list or code that closely follows a sentence: for "how do I", the steps themselves."""
    following = (u for u in units if u.passage == unit.passage and u.is_block)
    near = (u for u in following if 0 < u.position - unit.position <= 2)
    return None if unit.is_block else next(near, None)


def composed(units: Sequence[Unit]) -> list[str]:
    """Quotations as Markdown: neighbouring sentences joined, blocks apart, each run cited once."""
    pieces: list[str] = []
    for place, unit in enumerate(units):
        following = units[place + 1] if place + 1 < len(units) else None
        marker = f"[{unit.passage + 1}]"
        cited_later = (
            following is not None and following.passage == unit.passage and not following.is_block
        ) and not unit.is_block
        text = unit.text if cited_later else with_marker(unit, marker)
        joined = " " if cited_later else "\n\n"
        pieces.append(text + (joined if following else ""))
    return pieces


def with_marker(unit: Unit, marker: str) -> str:
    separator = "\n\n" if unit.is_block else " "
    return f"{unit.text}{separator}{marker}"
