"""The order of what a search found: both scores joined, pooled by file, spread. No I/O here."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rag.embedding import Vector
from rag.index import Candidate
from rag.terms import term_ids
from rag.types import DocumentChunk, SearchResult

WORDS_WEIGHT = 0.8
"""BM25 beside the cosine, each in units of its own scale. Exam questions want more of it, and what
people ask in a conversation less."""
POOLED_PASSAGES = 5
REPEAT_COST = 12.0
"""How much better a file's second passage must be than another file's first to come before it."""
ALIKE_VECTORS = 0.9
ALIKE_WORDS = 0.8
"""Passages that share this much of their words are one passage in two places."""
EVEN_SCORE, SCORE_WIDTH = 12.0, 4.0
"""A fused score of 12 is 0.5: unrelated questions reach about 7, good ones 20."""
JUDGED_SPAN = 30.0

Figures = NDArray[np.float64]


@dataclass(frozen=True)
class Scales:
    """What one unit of each score is worth: how much it varies over a whole course by chance."""

    cosine: float
    bm25: float


@dataclass(frozen=True)
class Ranked:
    """A candidate with its fused score."""

    candidate: Candidate
    fused: float

    @property
    def score(self) -> float:
        """The fused score on a scale of 0 to 1, in the same order."""
        return 1.0 / (1.0 + math.exp(min((EVEN_SCORE - self.fused) / SCORE_WIDTH, 500.0)))

    @property
    def file(self) -> str:
        return self.candidate.source_file


def rank(candidates: Sequence[Candidate], scales: Scales | None = None) -> list[Ranked]:
    """Best first: meaning and words together, lifted by what else its file offers."""
    if not candidates:
        return []
    cosines = np.array([c.cosine for c in candidates])
    bm25 = np.array([c.bm25 for c in candidates])
    used = scales or Scales(float(cosines.std()) / 2, float(bm25.std()))
    fused = in_units(cosines, used.cosine) + WORDS_WEIGHT * in_units(bm25, used.bm25)
    fused += pooled([c.source_file for c in candidates], fused)
    ranked = [Ranked(c, float(figure)) for c, figure in zip(candidates, fused, strict=True)]
    return sorted(ranked, key=lambda r: (-r.fused, -r.candidate.cosine, r.candidate.id))


def in_units(figures: Figures, unit: float) -> Figures:
    """Distances from the mean; scores that hardly vary say nothing."""
    return (figures - figures.mean()) / unit if unit > 1e-9 else np.zeros(len(figures))


def pooled(files: Sequence[str], scores: Figures) -> Figures:
    """For each passage the sum of its file's best ones: a lesson on the subject has several."""
    best: dict[str, list[float]] = {}
    for file, score in sorted(zip(files, scores.tolist(), strict=True), key=lambda pair: -pair[1]):
        kept = best.setdefault(file, [])
        if len(kept) < POOLED_PASSAGES:
            kept.append(score)
    return np.array([sum(best[file]) / POOLED_PASSAGES for file in files])


def distinct(ranked: Sequence[Ranked]) -> list[Ranked]:
    """Of passages with the same text, the best one only."""
    first: dict[str, Ranked] = {}
    for entry in ranked:
        first.setdefault(entry.candidate.content_hash, entry)
    return list(first.values())


def reordered(ranked: Sequence[Ranked], relevance: Sequence[float]) -> list[Ranked]:
    """The first passages in the order of their relevance, before all that were not judged."""
    rest = list(ranked[len(relevance) :])
    floor = rest[0].fused if rest else 0.0
    judged = [
        Ranked(entry.candidate, floor + JUDGED_SPAN * figure)
        for entry, figure in zip(ranked, relevance, strict=False)
    ]
    return [*sorted(judged, key=lambda entry: -entry.fused), *rest]


def spread(ranked: Sequence[Ranked], limit: int) -> list[Ranked]:
    """The best passages for an answer to be written from.

    Each further passage of a file has to be that much better than what other files offer, so that
    one file neither crowds out the others nor loses the passage that answers.
    """
    chosen: list[Ranked] = []
    lines: dict[str, list[Ranked]] = {}
    for entry in ranked:
        lines.setdefault(entry.file, []).append(entry)
    # Each file offers its best passage; the one that offers most gives it and offers the next.
    offers = {file: (line[0].fused, 0) for file, line in lines.items()}
    while offers and len(chosen) < limit:
        file = max(offers, key=lambda name: offers[name][0])
        _, place = offers.pop(file)
        chosen.append(lines[file][place])
        if place + 1 < len(lines[file]):
            cost = REPEAT_COST * (place + 1)
            offers[file] = (lines[file][place + 1].fused - cost, place + 1)
    return chosen


@dataclass(frozen=True)
class Passage:
    """A ranked chunk that has been read."""

    ranked: Ranked
    chunk: DocumentChunk
    vector: Vector


def new_ones(passages: Sequence[Passage], limit: int) -> list[Passage]:
    """The first passages that tell something new: near repetitions are left out."""
    chosen: list[Passage] = []
    for passage in passages:
        if len(chosen) < limit and not any(alike(passage, other) for other in chosen):
            chosen.append(passage)
    return chosen


def alike(one: Passage, other: Passage) -> bool:
    """Whether two passages say the same in nearly the same words."""
    if float(one.vector @ other.vector) < ALIKE_VECTORS:
        return False
    words, others = term_ids(one.chunk.text), term_ids(other.chunk.text)
    return len(words & others) >= ALIKE_WORDS * len(words | others)


def as_results(passages: Sequence[Passage]) -> list[SearchResult]:
    return [
        SearchResult.of(
            passage.chunk,
            score=passage.ranked.score,
            similarity=passage.ranked.candidate.cosine,
            rank=place,
        )
        for place, passage in enumerate(passages, 1)
    ]
