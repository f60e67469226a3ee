"""From a question to the passages that may answer it, with the gate's verdict on them."""

import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rag.confidence import (
    Calibration,
    Features,
    Policy,
    calibrated,
    rarity,
    seed,
    spread_of,
    weighted_share,
)
from rag.embedding import Embedder, Vector
from rag.errors import CourseError
from rag.index import Candidate, Index, StateRecords
from rag.profile import CourseProfile, build_profile, top_cosines
from rag.terms import Terms, content_words, query_vector, term_ids
from rag.types import (
    AgentConfig,
    DocumentChunk,
    Message,
    RetrievalContext,
    SearchFilters,
    SearchQuery,
    SearchResponse,
    SearchResult,
    now,
)

CANDIDATES = 50
RRF_CONSTANT = 60
GATED_PASSAGES = 5
MAX_PER_TOP_FILE = 2
MAX_PER_OTHER_FILE = 1

_PRONOUN = re.compile(
    r"\b(it|its|itself|that|this|these|those|they|them|their|he|she|one|ones|former|latter)\b",
    re.IGNORECASE,
)
_OPENER = re.compile(
    r"^\W*(and|but|so|or|also|what about|how about|why not|what if|in that case|same|instead|"
    r"tell me more|more|again|another|elaborate|for example|e\.?g)\b",
    re.IGNORECASE,
)
_ELLIPSIS = re.compile(
    r"^\W*(?:and|but|so|or|what about|how about)\s+"
    r"(?P<preposition>in|on|with|for|using|from|at|under)\s+(?P<place>[\w .+#/-]{1,60}?)\W*$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Ranked:
    """A candidate with its fused score."""

    candidate: Candidate
    score: float

    @property
    def chunk(self) -> DocumentChunk:
        return self.candidate.chunk


class Retriever:
    """Hybrid search over one index, for people (`search`) and for the agent (`retrieve`)."""

    def __init__(
        self,
        index: Index,
        state: StateRecords,
        embedder: Embedder,
        config: AgentConfig,
        policy: Policy = "calibrated",
    ) -> None:
        self._index = index
        self._state = state
        self._embedder = embedder
        self._config = config
        self._policy: Policy = policy
        self._calibration = Calibration.shipped()
        self._profiles: dict[str, tuple[object, CourseProfile]] = {}

    async def search(self, query: SearchQuery) -> SearchResponse:
        vector = await self._embedder.embed_query(query.text)
        terms = {query.text: 1.0}
        found = await self._index.search(vector, terms, query.filters, CANDIDATES)
        ranked = distinct(fuse(found))[: query.limit]
        return SearchResponse(
            query=query.text,
            results=as_results(ranked),
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
        profile = await self._profile(filters.book_id)
        terms, vector = await self._standalone(question, history)
        found = await self._index.search(vector, terms, filters, CANDIDATES)
        ranked = distinct(fuse(found))
        floor = self._config.score_threshold if threshold is None else threshold
        close = [r for r in ranked if max(r.candidate.cosine, 0.0) >= floor]
        handed = spread(close, top_k or self._config.top_k)
        results = as_results(handed)
        vectors = [r.candidate.vector for r in handed]
        if self._policy == "seed" or profile is None:
            metrics = seed(results, vectors)
        else:
            features = features_of(ranked, terms, profile)
            metrics = calibrated(results, vectors, features, self._calibration)
        return RetrievalContext(
            query=question,
            results=await self._with_surroundings(results),
            metrics=metrics,
            filter_applied=filters.described(),
            query_time_ms=(time.perf_counter() - started) * 1000,
            min_relevance_score=self._config.min_relevance_score,
        )

    async def passages(self, ids: Sequence[str]) -> list[SearchResult]:
        """Known passages by id, in the order asked."""
        stored = await self._index.read(ids=ids)
        return [
            SearchResult.of(entry.chunk, score=1.0, similarity=1.0, rank=rank)
            for rank, entry in enumerate(stored, 1)
        ]

    async def headings(self, book_id: str) -> list[str]:
        """Chapter and section names of what a course shows by now, in reading order."""
        stored = await self._index.read(filters=SearchFilters(book_id=book_id))
        places = [entry.chunk.metadata for entry in stored]
        moment = now()
        names = [
            name
            for place in places
            if place.available_from is None or place.available_from <= moment
            for name in (place.chapter_title, place.section)
        ]
        return list(dict.fromkeys(names))

    async def _profile(self, book_id: str) -> CourseProfile | None:
        """The course's profile: kept while the course is unchanged, computed when nobody has."""
        courses = {course.book_id: course for course in await self._state.courses()}
        if book_id not in courses:
            raise CourseError(unknown_course(book_id, list(courses)))
        course = courses[book_id]
        version = (course.last_incremental_update, course.last_full_ingest, course.total_chunks)
        if book_id in self._profiles and self._profiles[book_id][0] == version:
            return self._profiles[book_id][1]
        profile = (
            CourseProfile.model_validate(course.profile)
            if course.profile
            else await build_profile(self._index, self._embedder, book_id)
        )
        if profile is not None:
            self._profiles[book_id] = (version, profile)
        return profile

    async def _standalone(
        self, question: str, history: Sequence[Message]
    ) -> tuple[dict[str, float], Vector]:
        """The question's words and vector, leaning on the conversation only if it has to."""
        subject = subject_of([m.content for m in history if m.role == "user"])
        if swapped := with_swapped_place(question, subject):
            return {swapped: 1.0, question: 1.0}, await self._embedder.embed_query(swapped)
        vector = await self._embedder.embed_query(question)
        if not subject or not is_dependent(question):
            return {question: 1.0}, vector
        answers = [message.content for message in history if message.role == "assistant"]
        answer = answers[-1] if answers else ""
        vector = vector + 0.6 * await self._embedder.embed_query(f"{subject} {question}")
        if answer:
            vector = vector + 0.15 * await self._embedder.embed_query(answer)
        terms = {answer: 0.15, subject: 0.3, question: 1.0}
        return terms, (vector / np.linalg.norm(vector)).astype(np.float32)

    async def _with_surroundings(self, results: list[SearchResult]) -> list[SearchResult]:
        """Each passage with its neighbours in the same section, so that it can be understood."""
        wanted = {i for r in results for i in (r.prev_chunk_id, r.next_chunk_id) if i}
        known = {entry.chunk.id: entry.chunk for entry in await self._index.read(ids=list(wanted))}
        return [r.model_copy(update={"context": surroundings(r, known)}) for r in results]


def unknown_course(book_id: str, known: Sequence[str]) -> str:
    if not known:
        return f'There is no course "{book_id}": nothing has been ingested yet.'
    return f'There is no course "{book_id}". Known courses: {", ".join(sorted(known))}.'


def is_dependent(question: str) -> bool:
    """Whether a question only makes sense with what was said before it."""
    if _OPENER.search(question) and len(content_words(question)) <= 4:
        return True
    return bool(_PRONOUN.search(question)) or len(content_words(question)) <= 1


def subject_of(questions: Sequence[str]) -> str:
    """The last question that stands on its own, with what later questions put in its place."""
    subject = ""
    for question in questions:
        swapped = with_swapped_place(question, subject)
        if swapped or not subject or not is_dependent(question):
            subject = swapped or question
    return subject


def with_swapped_place(question: str, subject: str) -> str | None:
    """ "And in Gazebo?" after "How do I … in Isaac Sim?" asks "How do I … in Gazebo?"."""
    elliptic = _ELLIPSIS.match(question)
    if elliptic is None or not subject:
        return None
    preposition, place = elliptic["preposition"], elliptic["place"]
    parts = re.split(rf"\b{preposition}\b", subject, flags=re.IGNORECASE)
    return f"{preposition.join(parts[:-1])}{preposition} {place}?" if len(parts) > 1 else None


def fuse(candidates: Sequence[Candidate]) -> list[Ranked]:
    """Reciprocal rank fusion of both lists, mapped to 0-1: first in both lists is 1."""
    by_meaning = sorted(candidates, key=lambda c: -c.cosine)
    by_words = sorted((c for c in candidates if c.bm25 > 0), key=lambda c: -c.bm25)
    scores: dict[str, float] = {}
    for ordered in (by_meaning, by_words):
        for place, candidate in enumerate(ordered, 1):
            reciprocal = 1.0 / (RRF_CONSTANT + place)
            scores[candidate.chunk.id] = scores.get(candidate.chunk.id, 0.0) + reciprocal
    best_possible = 2.0 / (RRF_CONSTANT + 1)
    ranked = [Ranked(c, scores[c.chunk.id] / best_possible) for c in candidates]
    return sorted(ranked, key=lambda r: (-r.score, -r.candidate.cosine, r.chunk.id))


def distinct(ranked: Sequence[Ranked]) -> list[Ranked]:
    """Of passages with the same text, the best one only."""
    first: dict[str, Ranked] = {}
    for entry in ranked:
        first.setdefault(entry.chunk.metadata.content_hash, entry)
    return list(first.values())


def spread(ranked: Sequence[Ranked], limit: int) -> list[Ranked]:
    """The best passages without letting one file or section crowd out the others.

    A section is taken once, since its neighbouring passages come along; filled up if too few.
    """
    taken: list[Ranked] = []
    used: Counter[str] = Counter()
    sections: set[tuple[str, str]] = set()
    for entry in ranked:
        place = entry.chunk.metadata
        is_top_file = place.source_file == ranked[0].chunk.metadata.source_file
        room = MAX_PER_TOP_FILE if is_top_file else MAX_PER_OTHER_FILE
        section = (place.source_file, place.breadcrumb)
        if used[place.source_file] < room and section not in sections:
            taken.append(entry)
            used[place.source_file] += 1
            sections.add(section)
    chosen = taken[:limit]
    ids = {entry.chunk.id for entry in taken}
    rest = [entry for entry in ranked if entry.chunk.id not in ids]
    return chosen + rest[: limit - len(chosen)]


def as_results(ranked: Sequence[Ranked]) -> list[SearchResult]:
    return [
        SearchResult.of(r.chunk, score=r.score, similarity=r.candidate.cosine, rank=rank)
        for rank, r in enumerate(ranked, 1)
    ]


def features_of(ranked: Sequence[Ranked], terms: Terms, profile: CourseProfile) -> Features:
    cosines = top_cosines([r.candidate for r in ranked])
    asked = {
        term: weight * rarity(term, profile.document_frequency, profile.chunks)
        for term, weight in query_vector(terms).items()
    }
    best = ranked[:GATED_PASSAGES]
    shares = [weighted_share(asked, term_ids(r.chunk.embedding_input)) for r in best]
    files = {r.chunk.metadata.source_file for r in best}
    return Features(
        best=profile.best_cosine.standardised(cosines[0] if cosines else 0.0),
        spread=profile.cosine_spread.standardised(spread_of(cosines)),
        coverage=sum(shares) / len(shares) if shares else 0.0,
        known=weighted_share(asked, profile.document_frequency),
        files=(len(files) - 1) / max(len(best) - 1, 1),
    )


def surroundings(result: SearchResult, known: dict[str, DocumentChunk]) -> str:
    """The passage between its neighbours, as far as they stand under the same headings."""

    def beside(chunk_id: str | None) -> str:
        chunk = known.get(chunk_id or "")
        if chunk is None or chunk.metadata.section_title != result.section_title:
            return ""
        return chunk.text if chunk.metadata.breadcrumb == result.breadcrumb else ""

    parts = [beside(result.prev_chunk_id), result.text, beside(result.next_chunk_id)]
    return "\n\n".join(part for part in parts if part)
