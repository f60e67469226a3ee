"""What ranking and gate need to know of a course as a whole, computed once after each ingestion."""

import asyncio
import math
from collections import Counter
from collections.abc import Sequence
from statistics import median

import numpy as np
from pydantic import BaseModel, Field

from rag.bank import OFF_TOPIC_QUESTIONS
from rag.confidence import NORMALISED, Evidence, evidence_of, rarity
from rag.embedding import Embedder, Vector
from rag.index import Index, StoredChunk
from rag.index.payload import check_dimension
from rag.narrowing import Place
from rag.ranking import Scales, distinct, rank
from rag.terms import query_vector, term_ids
from rag.types import SearchFilters

CANDIDATES = 100
"""How many passages a search considers by meaning, and as many by words."""


BANK_AT_ONCE = 16
KINSHIP_SAMPLE = 200


class Yardstick(BaseModel):
    """Two points that every embedder has, whatever its range of cosines."""

    chance: float
    """What an unrelated question reaches: 0 on our scale."""
    kinship: float
    """How close a passage of the course comes to its nearest other: 1 on our scale."""

    def standardised(self, figure: float) -> float:
        return (figure - self.chance) / max(self.kinship - self.chance, 1e-6)


class Vocabulary(BaseModel):
    """How many of the course's passages use a word."""

    chunks: int
    frequency: dict[int, int]

    def rarity(self, term: int) -> float:
        return rarity(self.frequency.get(term, 0), self.chunks)

    def share(self, term: int) -> float:
        """Of all passages, those that use the word."""
        return self.frequency.get(term, 0) / self.chunks

    def chance_deviation(self, terms: dict[int, float]) -> float:
        """How much the BM25 of these words varies over the passages if words fell at random."""
        variance = 0.0
        for term, weight in terms.items():
            used = self.share(term)
            variance += (weight * self._bm25_rarity(term)) ** 2 * used * (1.0 - used)
        return math.sqrt(variance)

    def _bm25_rarity(self, term: int) -> float:
        """As the engines weigh it, which differs for words that most passages use."""
        passages = self.frequency.get(term, 0)
        return math.log1p((self.chunks - passages + 0.5) / (passages + 0.5))


class CourseProfile(BaseModel):
    """Which words a course uses how often, where its passages stand, and how close an unrelated
    question comes to it."""

    vocabulary: Vocabulary
    cosine_deviation: float
    yardsticks: dict[str, Yardstick]
    """By the name of the evidence, for what is judged relative to the bank."""
    places: list[tuple[str, int, int]] = Field(default_factory=list[tuple[str, int, int]])
    """Module, chapter and lesson, where the course itself numbers them."""

    @property
    def known_places(self) -> list[Place]:
        return [Place(*place) for place in self.places]

    def scales(self, terms: dict[int, float]) -> Scales:
        return Scales(self.cosine_deviation, self.vocabulary.chance_deviation(terms))


async def build_profile(index: Index, embedder: Embedder, book_id: str) -> CourseProfile | None:
    """The profile of an indexed course, or None while it has no chunks."""
    filters = SearchFilters(book_id=book_id)
    stored = await index.read(filters=filters)
    if not stored:
        return None
    bank = await bank_vectors(embedder)
    check_dimension(bank[0], len(stored[0].vector))
    profile = await asyncio.to_thread(unmeasured, stored, bank)
    evidence: list[Evidence] = []
    for question, vector in zip(OFF_TOPIC_QUESTIONS, bank, strict=True):
        terms = {question: 1.0}
        words = query_vector(terms)
        found = await index.search(vector, terms, filters, CANDIDATES)
        ranked = distinct(rank(found, profile.scales(words)))
        evidence.append(evidence_of([r.candidate for r in ranked], words, profile.vocabulary))
    kin = await asyncio.to_thread(kinship, stored)
    yardsticks = {
        name: Yardstick(chance=median(getattr(seen, name) for seen in evidence), kinship=kin)
        for name in NORMALISED
    }
    return profile.model_copy(update={"yardsticks": yardsticks})


async def bank_vectors(embedder: Embedder) -> list[Vector]:
    """The off-topic questions' vectors, a few at once: a provider limits how many it takes."""
    vectors: list[Vector] = []
    for group in batched(OFF_TOPIC_QUESTIONS, BANK_AT_ONCE):
        vectors += await asyncio.gather(*map(embedder.embed_query, group))
    return vectors


def unmeasured(stored: Sequence[StoredChunk], bank: Sequence[Vector]) -> CourseProfile:
    """All that needs no search."""
    return CourseProfile(
        vocabulary=vocabulary_of(stored),
        cosine_deviation=cosine_deviation(stored, bank),
        yardsticks={},
        places=places_of(stored),
    )


def batched(items: Sequence[str], size: int) -> list[Sequence[str]]:
    return [items[start : start + size] for start in range(0, len(items), size)]


def kinship(stored: Sequence[StoredChunk]) -> float:
    """The median cosine of a passage and its nearest other, over a sample spread evenly."""
    passages = np.stack([entry.vector for entry in stored])
    sample = np.unique(np.linspace(0, len(stored) - 1, KINSHIP_SAMPLE).astype(int))
    cosines = passages[sample] @ passages.T
    cosines[np.arange(len(sample)), sample] = -1.0
    return float(np.median(cosines.max(axis=1))) if len(stored) > 1 else 1.0


def vocabulary_of(stored: Sequence[StoredChunk]) -> Vocabulary:
    frequency = Counter(term for entry in stored for term in term_ids(entry.chunk.embedding_input))
    return Vocabulary(chunks=len(stored), frequency=dict(frequency))


def cosine_deviation(stored: Sequence[StoredChunk], questions: Sequence[Vector]) -> float:
    """How much the cosine to an unrelated question varies over the course."""
    passages = np.stack([entry.vector for entry in stored])
    return float((np.stack(questions) @ passages.T).std(axis=1).mean())


def places_of(stored: Sequence[StoredChunk]) -> list[tuple[str, int, int]]:
    metadata = [entry.chunk.metadata for entry in stored]
    return sorted({(m.module, m.chapter, m.lesson) for m in metadata if m.chapter_declared})
