"""Where passages and their vectors are kept: what every engine offers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from rag.embedding import Vector
from rag.terms import Terms
from rag.types import CourseSummary, DocumentChunk, IngestionRecord, IngestionState, SearchFilters


@dataclass(frozen=True)
class StoredChunk:
    """A chunk as it lies in the index."""

    chunk: DocumentChunk
    vector: Vector


class Candidate(NamedTuple):
    """A chunk that a search considered, with both scores (BM25 is 0 without a common term).

    Most candidates are only ranked, and reading a chunk takes longer than finding it: so this is
    all that ranking asks for.
    """

    id: str
    source_file: str
    content_hash: str
    cosine: float
    bm25: float


class Index(Protocol):
    """Passages with dense and BM25 vectors; a search never finds what is not yet available."""

    async def search(
        self, vector: Vector, terms: Terms, filters: SearchFilters, limit: int
    ) -> list[Candidate]:
        """The `limit` nearest by meaning joined with the `limit` best by BM25, in no set order."""
        ...

    async def read(
        self, *, ids: Sequence[str] | None = None, filters: SearchFilters | None = None
    ) -> list[StoredChunk]:
        """Chunks by id (in the order asked, absent ones left out), or all that match the filters,
        ordered by file and position."""
        ...

    async def write(self, chunks: Sequence[StoredChunk]) -> None:
        """Insert or replace; durable when it returns."""
        ...

    async def delete(self, ids: Sequence[str]) -> None: ...

    async def count(self, filters: SearchFilters) -> int: ...


class StateRecords(Protocol):
    """What is indexed of which file, kept beside the chunks so that it lives and dies with them."""

    async def courses(self) -> list[CourseSummary]: ...

    async def load(self, book_id: str) -> IngestionState: ...

    async def save(self, entry: IngestionRecord | CourseSummary) -> None: ...

    async def forget(self, book_id: str, source_file: str | None = None) -> None:
        """One file's record, or without a file everything recorded of the course."""
        ...


@dataclass(frozen=True)
class ForeignCourse:
    """A course whose vectors another embedding model made: ours cannot search it."""

    book_id: str
    model: str
    dimension: int


class Storage(Index, StateRecords, Protocol):
    """Both together, as every engine offers them."""

    async def foreign_courses(self) -> list[ForeignCourse]:
        """What lies beside this collection, under the same prefix."""
        ...


def collection_name(prefix: str, model: str, dimension: int) -> str:
    """Vectors of different models never meet: the name carries model and dimension."""
    readable = "".join(c if c.isalnum() else "-" for c in model.lower()).strip("-")
    return f"{prefix}__{readable}__{dimension}"
