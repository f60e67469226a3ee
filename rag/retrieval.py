"""From a question to the passages that may answer it, with the gate's verdict on them."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import ValidationError

from rag.confidence import Calibration, Features, Policy, calibrated, evidence_of, seed
from rag.embedding import Embedder, Vector
from rag.errors import CourseError, RerankingError
from rag.followups import Asked, standalone
from rag.index import Candidate, Index, StateRecords
from rag.narrowing import narrowed, without_setting
from rag.profile import CANDIDATES, CourseProfile, build_profile
from rag.ranking import (
    Passage,
    Ranked,
    as_results,
    distinct,
    new_ones,
    rank,
    reordered,
    spread,
)
from rag.reranking import Reranker
from rag.terms import query_vector
from rag.types import (
    AgentConfig,
    ConfidenceMetrics,
    CourseSummary,
    DocumentChunk,
    Message,
    RetrievalContext,
    SearchFilters,
    SearchQuery,
    SearchResponse,
    SearchResult,
    now,
)

RERANKED_PASSAGES = 30
SPARE_PASSAGES = 3
"""Read beyond what is wanted, to take the place of near repetitions."""
MAX_PASSAGES = 100
PROFILE_CHECK_SECONDS = 5.0
"""How long a course counts as unchanged: asking the index each time would cost each question."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Ranking:
    """The passages in the order in which they are handed on, and what the gate says of them."""

    ranked: list[Ranked]
    handed_on: list[SearchResult]
    metrics: ConfidenceMetrics
    filters: SearchFilters
    elapsed_ms: float


class Retriever:
    """Hybrid search over one index, for people (`search`) and for the agent (`retrieve`)."""

    def __init__(
        self,
        index: Index,
        state: StateRecords,
        embedder: Embedder,
        config: AgentConfig,
        policy: Policy = "calibrated",
        reranker: Reranker | None = None,
        calibration: Calibration | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._index = index
        self._embedder = embedder
        self._config = config
        self._policy: Policy = policy
        self._reranker = reranker
        self._calibration = calibration or Calibration.shipped()
        self._state = state
        self._profiles = Profiles(index, state, embedder, clock)

    async def search(self, query: SearchQuery) -> SearchResponse:
        """The best passages; of a single lesson all of them, in reading order."""
        if query.parent_doc_id is not None:
            vector = await self._embedder.embed_query(query.text)
            results = await self._lesson(query.filters, vector)
        else:
            profile = await self._profiles.of(query.book_id)
            asked = standalone(within(query.text, profile), ())
            vector = await self._vector(asked)
            found = await self._index.search(vector, asked.terms, query.filters, CANDIDATES)
            ordered = await self._reranked(query.text, fused(found, asked, profile))
            results = as_results(await self._read(ordered[: query.limit]))
        return SearchResponse(
            query=query.text,
            results=results,
            total_found=await self._index.count(query.filters),
            hardware_tier_filter=query.hardware_tier_filter,
            module_filter=query.module_filter,
            book_id=query.book_id,
        )

    async def retrieve(
        self,
        question: str,
        filters: SearchFilters,
        history: Sequence[Message] = (),
        top_k: int | None = None,
        threshold: float | None = None,
    ) -> RetrievalContext:
        """The passages to answer from: fused, spread over files, gated, with their surroundings."""
        started = time.perf_counter()
        limit = self._limit(top_k)
        ranking = await self.rank(question, filters, history, limit, threshold)
        return RetrievalContext(
            query=question,
            results=await self._with_surroundings(ranking.handed_on),
            metrics=ranking.metrics,
            filter_applied=ranking.filters.described(),
            query_time_ms=(time.perf_counter() - started) * 1000,
            min_relevance_score=self._config.min_relevance_score,
        )

    async def rank(
        self,
        question: str,
        filters: SearchFilters,
        history: Sequence[Message] = (),
        top_k: int | None = None,
        threshold: float | None = None,
    ) -> Ranking:
        """Everything that was considered, best first, with the verdict on the first `top_k`."""
        started = time.perf_counter()
        limit = self._limit(top_k)
        profile = await self._profiles.of(filters.book_id)
        if not question.strip() or profile is None:
            return Ranking([], [], ConfidenceMetrics(policy=self._policy), filters, 0.0)
        text, narrower = narrowed(well_formed(question), filters, profile.known_places)
        asked = standalone(within(text, profile), history)
        found, used = await self._found(asked, await self._vector(asked), narrower, filters)
        ranked = fused(found, asked, profile)
        floor = self._config.score_threshold if threshold is None else threshold
        # The gate judges what was found, before a reranker with a scale of its own reorders it.
        close = [entry for entry in ranked if max(entry.candidate.cosine, 0.0) >= floor]
        passages = await self._spread(close, limit)
        metrics = self._judged(passages, close, asked, profile)
        ordered = await self._reranked(text, close)
        if ordered is not close:
            passages = await self._spread(ordered, limit)
        elapsed = (time.perf_counter() - started) * 1000
        return Ranking(ordered, as_results(passages), metrics, used, elapsed)

    async def results(self, ranking: Ranking, limit: int) -> list[SearchResult]:
        """As many as wanted of what was ranked, as they would be handed on."""
        return as_results(await self._spread(ranking.ranked, limit))

    async def _spread(self, ranked: Sequence[Ranked], limit: int) -> list[Passage]:
        return new_ones(await self._read(spread(ranked, limit + SPARE_PASSAGES)), limit)

    async def _read(self, ranked: Sequence[Ranked]) -> list[Passage]:
        """The chunks themselves; one that has been deleted meanwhile is left out."""
        stored = await self._index.read(ids=[entry.candidate.id for entry in ranked])
        entries = {entry.candidate.id: entry for entry in ranked}
        return [Passage(entries[s.chunk.id], s.chunk, s.vector) for s in stored]

    async def passages(self, ids: Sequence[str]) -> list[SearchResult]:
        """Known passages by id, in the order asked."""
        stored = await self._index.read(ids=ids)
        return [
            SearchResult.of(entry.chunk, score=1.0, similarity=1.0, rank=place)
            for place, entry in enumerate(stored, 1)
        ]

    async def headings(self, book_id: str) -> list[str]:
        """Chapter and section names of what a course shows by now, in reading order."""
        chunks = await self._visible(SearchFilters(book_id=book_id))
        places = [chunk.metadata for chunk, _ in chunks]
        return list(dict.fromkeys(n for p in places for n in (p.chapter_title, p.section)))

    async def chapters(self, book_id: str) -> dict[str, str]:
        """The chapter of every file of a course."""
        stored = await self._index.read(filters=SearchFilters(book_id=book_id))
        places = [entry.chunk.metadata for entry in stored]
        return {place.source_file: place.chapter_title for place in places}

    def _limit(self, top_k: int | None) -> int:
        limit = self._config.top_k if top_k is None else top_k
        if not 1 <= limit <= MAX_PASSAGES:
            raise ValueError(f"top_k must be between 1 and {MAX_PASSAGES}")
        return limit

    async def _vector(self, asked: Asked) -> Vector:
        """The mixed vector of the texts; embedded at once, so that they share a batch."""
        vectors = await asyncio.gather(*map(self._embedder.embed_query, asked.texts))
        if len(vectors) == 1:
            return vectors[0]
        mixed = np.sum([w * v for w, v in zip(asked.texts.values(), vectors, strict=True)], axis=0)
        return (mixed / np.linalg.norm(mixed)).astype(np.float32)

    async def _found(
        self, asked: Asked, vector: Vector, narrower: SearchFilters, filters: SearchFilters
    ) -> tuple[list[Candidate], SearchFilters]:
        """What the question's own filters leave, or what it finds without them."""
        found = await self._index.search(vector, asked.terms, narrower, CANDIDATES)
        if found or narrower == filters:
            return found, narrower
        return await self._index.search(vector, asked.terms, filters, CANDIDATES), filters

    def _judged(
        self,
        passages: Sequence[Passage],
        ranked: Sequence[Ranked],
        asked: Asked,
        profile: CourseProfile,
    ) -> ConfidenceMetrics:
        results, vectors = as_results(passages), [passage.vector for passage in passages]
        if self._policy == "seed":
            return seed(results, vectors)
        features = features_of(ranked, asked, profile)
        return calibrated(results, vectors, features, self._calibration)

    async def _reranked(self, question: str, ranked: list[Ranked]) -> list[Ranked]:
        if self._reranker is None or not ranked:
            return ranked
        passages = await self._read(ranked[:RERANKED_PASSAGES])
        texts = [passage.chunk.embedding_input for passage in passages]
        try:
            relevance = await self._reranker.relevance(question, texts)
        except RerankingError as error:
            logger.warning("%s The passages stay in their own order.", error)
            return ranked
        judged = [passage.ranked for passage in passages]
        return reordered([*judged, *ranked[RERANKED_PASSAGES:]], relevance)

    async def _lesson(self, filters: SearchFilters, vector: Vector) -> list[SearchResult]:
        return [
            SearchResult.of(chunk, score=1.0, similarity=float(vector @ own), rank=place)
            for place, (chunk, own) in enumerate(await self._visible(filters), 1)
        ]

    async def outline(self, book_id: str) -> tuple[str, list[str]]:
        """A course's title, and the chapters it shows by now as a student knows them."""
        titles = {course.book_id: course.title for course in await self._state.courses()}
        places = [c.metadata for c, _ in await self._visible(SearchFilters(book_id=book_id))]
        chapters = [
            f"Chapter {place.chapter}: {place.chapter_title}"
            if place.chapter_declared
            else place.chapter_title
            for place in places
        ]
        return titles.get(book_id, book_id), list(dict.fromkeys(chapters))

    async def _visible(self, filters: SearchFilters) -> list[tuple[DocumentChunk, Vector]]:
        moment = now()
        return [
            (entry.chunk, entry.vector)
            for entry in await self._index.read(filters=filters)
            if (entry.chunk.metadata.available_from or moment) <= moment
        ]

    async def _with_surroundings(self, results: list[SearchResult]) -> list[SearchResult]:
        """Each passage with its neighbours in the same section, so that it can be understood."""
        wanted = {i for r in results for i in (r.prev_chunk_id, r.next_chunk_id) if i}
        known = {entry.chunk.id: entry.chunk for entry in await self._index.read(ids=list(wanted))}
        return [r.model_copy(update={"context": surroundings(r, known)}) for r in results]


class Profiles:
    """The courses' profiles, each kept while its course is unchanged."""

    def __init__(
        self, index: Index, state: StateRecords, embedder: Embedder, clock: Callable[[], float]
    ) -> None:
        self._index = index
        self._state = state
        self._embedder = embedder
        self._clock = clock
        self._kept: dict[str, tuple[object, CourseProfile]] = {}
        self._checked: dict[str, float] = {}

    async def of(self, book_id: str) -> CourseProfile | None:
        """The course's profile, or None while it is empty; an unknown course is an error."""
        if self._clock() - self._checked.get(book_id, -1e9) < PROFILE_CHECK_SECONDS:
            return self._kept[book_id][1]
        courses = {course.book_id: course for course in await self._state.courses()}
        if book_id not in courses:
            raise CourseError(unknown_course(book_id, list(courses)))
        course = courses[book_id]
        version = (course.last_incremental_update, course.last_full_ingest, course.total_chunks)
        if book_id not in self._kept or self._kept[book_id][0] != version:
            profile = stored_profile(course)
            profile = profile or await build_profile(self._index, self._embedder, book_id)
            if profile is None:
                return None
            self._kept[book_id] = (version, profile)
        self._checked[book_id] = self._clock()
        return self._kept[book_id][1]


def stored_profile(course: CourseSummary) -> CourseProfile | None:
    """The profile that the last ingestion left; one of an older form is computed anew."""
    try:
        return CourseProfile.model_validate(course.profile) if course.profile else None
    except ValidationError:
        return None


def unknown_course(book_id: str, known: Sequence[str]) -> str:
    if not known:
        return f'There is no course "{book_id}": nothing has been ingested yet.'
    return f'There is no course "{book_id}". Known courses: {", ".join(sorted(known))}.'


def well_formed(text: str) -> str:
    """Without lone surrogates, which a chat client may send and no model takes."""
    return text.encode("utf-8", "replace").decode("utf-8")


def within(question: str, profile: CourseProfile | None) -> str:
    return without_setting(question, profile.vocabulary.share) if profile else question


def fused(found: Sequence[Candidate], asked: Asked, profile: CourseProfile | None) -> list[Ranked]:
    scales = profile.scales(query_vector(asked.terms)) if profile else None
    return distinct(rank(found, scales))


def features_of(ranked: Sequence[Ranked], asked: Asked, profile: CourseProfile) -> Features:
    candidates = [entry.candidate for entry in ranked]
    evidence = evidence_of(candidates, query_vector(asked.terms), profile.vocabulary)
    return Features.of(evidence, profile.yardsticks)


def surroundings(result: SearchResult, known: dict[str, DocumentChunk]) -> str:
    """The passage between its neighbours, as far as they stand under the same headings."""

    def beside(chunk_id: str | None) -> str:
        chunk = known.get(chunk_id or "")
        if chunk is None or chunk.metadata.section_title != result.section_title:
            return ""
        return chunk.text if chunk.metadata.breadcrumb == result.breadcrumb else ""

    parts = [beside(result.prev_chunk_id), result.text, beside(result.next_chunk_id)]
    return "\n\n".join(part for part in parts if part)
