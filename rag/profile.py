"""What the gate needs to know of a course as a whole, computed once after each ingestion."""

from collections import Counter
from collections.abc import Sequence
from statistics import fmean, pstdev

from pydantic import BaseModel

from rag.bank import OFF_TOPIC_QUESTIONS
from rag.confidence import spread_of
from rag.embedding import Embedder
from rag.index import Candidate, Index
from rag.terms import term_ids
from rag.types import SearchFilters

BANK_CANDIDATES = 20


class Yardstick(BaseModel):
    """How a figure is distributed over the off-topic bank."""

    mean: float
    deviation: float

    @classmethod
    def of(cls, figures: Sequence[float]) -> "Yardstick":
        return cls(mean=fmean(figures), deviation=max(pstdev(figures), 1e-6))

    def standardised(self, figure: float) -> float:
        return (figure - self.mean) / self.deviation


class CourseProfile(BaseModel):
    """Which words the course uses how often, and how close an unrelated question comes to it."""

    chunks: int
    document_frequency: dict[int, int]
    best_cosine: Yardstick
    cosine_spread: Yardstick


async def build_profile(index: Index, embedder: Embedder, book_id: str) -> CourseProfile | None:
    """The profile of an indexed course, or None while it has no chunks."""
    filters = SearchFilters(book_id=book_id)
    stored = await index.read(filters=filters)
    if not stored:
        return None
    frequency = Counter(term for entry in stored for term in term_ids(entry.chunk.embedding_input))
    best: list[float] = []
    spread: list[float] = []
    for question in OFF_TOPIC_QUESTIONS:
        vector = await embedder.embed_query(question)
        found = await index.search(vector, {question: 1.0}, filters, BANK_CANDIDATES)
        cosines = top_cosines(found)
        if cosines:
            best.append(cosines[0])
            spread.append(spread_of(cosines))
    if not best:
        return None
    return CourseProfile(
        chunks=len(stored),
        document_frequency=dict(frequency),
        best_cosine=Yardstick.of(best),
        cosine_spread=Yardstick.of(spread),
    )


def top_cosines(candidates: Sequence[Candidate]) -> list[float]:
    return sorted((c.cosine for c in candidates), reverse=True)[:BANK_CANDIDATES]
