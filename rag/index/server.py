"""The served index: a Qdrant server or cluster that many workers share."""

import asyncio
import logging
from collections.abc import (
    AsyncIterator,
    Collection,
    Iterable,
    Iterator,
    Sequence,
)
from typing import TypeVar, cast

from qdrant_client import AsyncQdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse
from qdrant_edge import SparseVector

from rag.backoff import Sleep
from rag.embedding import Vector
from rag.errors import IndexingError
from rag.index import Candidate, ForeignCourse, StoredChunk
from rag.index.payload import (
    BM25,
    CHUNK_INDEXES,
    DENSE,
    PLACEHOLDER,
    PLACEHOLDER_VALUE,
    RANKED_FIELDS,
    STATE_INDEXES,
    AnyOf,
    Condition,
    Equals,
    FieldKind,
    Payload,
    RankedFields,
    Within,
    candidates,
    check_dimension,
    chunk_payload,
    conditions,
    course_summaries,
    document_terms,
    foreign_courses,
    in_order_asked,
    in_reading_order,
    ingestion_state,
    other_state_collections,
    point_ids,
    query_terms,
    ranked_fields,
    state_collection,
    state_id,
    state_point,
    stored_chunk,
)
from rag.index.requests import Requests
from rag.terms import Terms
from rag.types import CourseSummary, IngestionRecord, IngestionState, SearchFilters, now

Item = TypeVar("Item")
Found = dict[str, models.ScoredPoint]
"""What a query found, by id."""

logger = logging.getLogger(__name__)

WRITE_BATCH = 128
READ_BATCH = 500
CONFLICT = 409
OLDEST_VERSION = (1, 11)
"""The first with the query API, IDF and tenants, which all searches here rest on."""
COURSE_IDF_VERSION = (1, 19)
"""The first that weighs words within a course; older ones ignore that we ask for it."""


class ServerIndex:
    """An `Index` and its `StateRecords` in two collections of a Qdrant server."""

    def __init__(
        self,
        client: AsyncQdrantClient,
        collection: str,
        dimension: int,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._client = client
        self._requests = Requests(client, sleep)
        self._collection = collection
        self._state = state_collection(collection)
        self._dimension = dimension

    async def prepare(self) -> None:
        """Create what is missing, and make sure that what is there fits; safe to repeat."""
        with self._requests.translated():
            version = (await self._requests.ask(self._client.info)).version
            self._check_version(version)
            await self._create_collections()
            await self._check_collection()
            await self._create_indexes(self._collection, CHUNK_INDEXES)
            await self._create_indexes(self._state, STATE_INDEXES)
        if _numbers(version) < COURSE_IDF_VERSION and len(await self.courses()) > 1:
            logger.warning(
                "%s is version %s, which weighs the words of all courses together;"
                " from version 1.19 on each course is searched by its own.",
                self._requests.server,
                version,
            )

    def _check_version(self, version: str) -> None:
        if _numbers(version) < OLDEST_VERSION:
            needed = ".".join(map(str, OLDEST_VERSION))
            raise IndexingError(
                f"{self._requests.server} is version {version}; Footnote needs {needed} or newer."
            )

    async def _create_collections(self) -> None:
        dense = models.VectorParams(size=self._dimension, distance=models.Distance.COSINE)
        words = models.SparseVectorParams(modifier=models.Modifier.IDF)
        nothing = models.VectorParams(size=len(PLACEHOLDER_VALUE), distance=models.Distance.DOT)
        await self._create(self._collection, {DENSE: dense}, {BM25: words})
        await self._create(self._state, {PLACEHOLDER: nothing}, {})

    async def _create(
        self,
        name: str,
        vectors: dict[str, models.VectorParams],
        sparse: dict[str, models.SparseVectorParams],
    ) -> None:
        if await self._requests.ask(lambda: self._client.collection_exists(name)):
            return
        try:
            await self._requests.ask(
                lambda: self._client.create_collection(
                    name, vectors_config=vectors, sparse_vectors_config=sparse
                )
            )
        except UnexpectedResponse as error:
            # Another worker was faster, or our own first try after all.
            if not _exists_already(error):
                raise

    async def _check_collection(self) -> None:
        found = await self._requests.ask(lambda: self._client.get_collection(self._collection))
        params = found.config.params
        dense = params.vectors.get(DENSE) if isinstance(params.vectors, dict) else None
        if dense is None or BM25 not in (params.sparse_vectors or {}):
            raise IndexingError(
                f"The Qdrant collection {self._collection} was not made by Footnote;"
                " choose another QDRANT_COLLECTION_NAME."
            )
        if dense.size != self._dimension:
            raise IndexingError(
                f"The Qdrant collection {self._collection} holds vectors of {dense.size} dimensions"
                f" and the embedding model makes {self._dimension}; use the model it was built"
                " with, or another collection."
            )

    async def _create_indexes(self, collection: str, indexes: dict[str, FieldKind]) -> None:
        found = await self._requests.ask(lambda: self._client.get_collection(collection))
        for field in indexes.keys() - found.payload_schema.keys():
            kind = _field_index(indexes[field])
            await self._requests.apply(
                lambda field=field, kind=kind: self._client.create_payload_index(
                    collection, field, kind, wait=True
                )
            )

    # --- Index ---------------------------------------------------------------------------------

    async def search(
        self, vector: Vector, terms: Terms, filters: SearchFilters, limit: int
    ) -> list[Candidate]:
        check_dimension(vector, self._dimension)
        visible = _filter(conditions(filters, available_at=now()))
        by_meaning = _meaning_query(vector, visible, limit)
        words = query_terms(terms)
        with self._requests.translated():
            if words is None:
                (near,) = await self._found([by_meaning])
                return candidates(_ranked_of(near), _scores_of(near), {})
            by_words = _words_query(words, filters, visible, limit)
            near, bm25 = await self._found([by_meaning, by_words])
            cosines, others = await self._found(
                [
                    _meaning_query(vector, *_among(bm25.keys() - near.keys())),
                    _words_query(words, filters, *_among(near.keys() - bm25.keys())),
                ]
            )
        known = _ranked_of(near) | _ranked_of(bm25)
        return candidates(known, _scores_of(near | cosines), _scores_of(bm25 | others))

    async def _found(self, requests: list[models.QueryRequest]) -> list[Found]:
        answers = await self._requests.ask(
            lambda: self._client.query_batch_points(self._collection, requests)
        )
        return [{str(point.id): point for point in answer.points} for answer in answers]

    async def read(
        self, *, ids: Sequence[str] | None = None, filters: SearchFilters | None = None
    ) -> list[StoredChunk]:
        with self._requests.translated():
            if ids is not None:
                return in_order_asked(ids, await self._retrieve(point_ids(ids)))
            if filters is None:
                raise ValueError("a read names ids or filters")
            records = self._scroll(self._collection, conditions(filters), [DENSE])
            return in_reading_order([_stored(record) async for record in records])

    async def _retrieve(self, ids: Sequence[str]) -> list[StoredChunk]:
        found: list[StoredChunk] = []
        for batch in _batches(ids, READ_BATCH):
            records = await self._requests.ask(
                lambda batch=batch: self._client.retrieve(
                    self._collection, list(batch), with_payload=True, with_vectors=[DENSE]
                )
            )
            found += map(_stored, records)
        return found

    async def _scroll(
        self, collection: str, wanted: Iterable[Condition], vectors: list[str]
    ) -> AsyncIterator[models.Record]:
        matching = _filter(wanted)
        offset = None
        while True:
            records, offset = await self._requests.ask(
                lambda offset=offset: self._client.scroll(
                    collection,
                    scroll_filter=matching,
                    limit=READ_BATCH,
                    offset=offset,
                    with_payload=True,
                    with_vectors=vectors,
                )
            )
            for record in records:
                yield record
            if offset is None:
                return

    async def write(self, chunks: Sequence[StoredChunk]) -> None:
        for stored in chunks:
            check_dimension(stored.vector, self._dimension)
        with self._requests.translated():
            for batch in _batches(chunks, WRITE_BATCH):
                points = [_point(stored) for stored in batch]
                await self._upsert(self._collection, points)

    async def _upsert(self, collection: str, points: list[models.PointStruct]) -> None:
        await self._requests.apply(lambda: self._client.upsert(collection, points, wait=True))

    async def delete(self, ids: Sequence[str]) -> None:
        with self._requests.translated():
            for batch in _batches(point_ids(ids), READ_BATCH):
                await self._remove(self._collection, models.PointIdsList(points=list(batch)))

    async def _remove(
        self, collection: str, points: models.PointIdsList | models.FilterSelector
    ) -> None:
        await self._requests.apply(lambda: self._client.delete(collection, points, wait=True))

    async def count(self, filters: SearchFilters) -> int:
        visible = _filter(conditions(filters, available_at=now()))
        with self._requests.translated():
            answer = await self._requests.ask(
                lambda: self._client.count(self._collection, count_filter=visible, exact=True)
            )
        return answer.count

    # --- StateRecords --------------------------------------------------------------------------

    async def courses(self) -> list[CourseSummary]:
        return course_summaries(await self._records(Equals("kind", "course")))

    async def load(self, book_id: str) -> IngestionState:
        payloads = await self._records(Equals("book_id", book_id))
        return ingestion_state(book_id, self._collection, payloads)

    async def _records(self, condition: Condition) -> list[Payload | None]:
        with self._requests.translated():
            return await self._payloads(self._state, condition)

    async def _payloads(self, collection: str, condition: Condition) -> list[Payload | None]:
        records = self._scroll(collection, [condition], [])
        return [record.payload async for record in records]

    async def save(self, entry: IngestionRecord | CourseSummary) -> None:
        id, payload = state_point(entry)
        vectors: dict[str, models.Vector] = {PLACEHOLDER: PLACEHOLDER_VALUE}
        point = models.PointStruct(id=id, vector=vectors, payload=payload)
        with self._requests.translated():
            await self._upsert(self._state, [point])

    async def forget(self, book_id: str, source_file: str | None = None) -> None:
        leaving: models.FilterSelector | models.PointIdsList
        if source_file is None:
            leaving = models.FilterSelector(filter=_filter([Equals("book_id", book_id)]))
        else:
            leaving = models.PointIdsList(points=[state_id(book_id, source_file)])
        with self._requests.translated():
            await self._remove(self._state, leaving)

    async def foreign_courses(self) -> list[ForeignCourse]:
        with self._requests.translated():
            found = (await self._requests.ask(self._client.get_collections)).collections
            names = other_state_collections(self._collection, [entry.name for entry in found])
            return [
                course
                for name in names
                for course in foreign_courses(
                    name, await self._payloads(name, Equals("kind", "course"))
                )
            ]


def _exists_already(error: UnexpectedResponse) -> bool:
    return error.status_code == CONFLICT or b"already exists" in error.content


def _numbers(version: str) -> tuple[int, int]:
    """Major and minor; a development build without numbers counts as the newest."""
    parts = version.split(".")[:2]
    if len(parts) < 2 or not all(part.isdecimal() for part in parts):
        return (999, 0)
    return int(parts[0]), int(parts[1])


# --- Between our types and the client's --------------------------------------------------------


def _field_index(kind: FieldKind) -> models.KeywordIndexParams | models.PayloadSchemaType:
    if kind == "tenant":
        return models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
    return models.PayloadSchemaType(kind)


def _filter(conditions: Iterable[Condition]) -> models.Filter:
    return models.Filter(must=[_condition(condition) for condition in conditions])


def _condition(condition: Condition) -> models.FieldCondition | models.Filter:
    field = condition.field
    if isinstance(condition, Equals):
        return models.FieldCondition(key=field, match=models.MatchValue(value=condition.value))
    if isinstance(condition, AnyOf):
        return models.FieldCondition(key=field, match=models.MatchAny(any=condition.values))
    if isinstance(condition, Within):
        reach = models.Range(gte=condition.low, lte=condition.high)
        return models.FieldCondition(key=field, range=reach)
    later = models.DatetimeRange(gt=condition.moment)
    return models.Filter(must_not=[models.FieldCondition(key=field, range=later)])


def _meaning_query(vector: Vector, among: models.Filter, limit: int) -> models.QueryRequest:
    return models.QueryRequest(
        query=vector.tolist(),
        using=DENSE,
        filter=among,
        limit=limit,
        with_payload=RANKED_FIELDS,
    )


def _among(ids: Collection[str]) -> tuple[models.Filter, int]:
    """Exactly these, and how many they are; a limit of 0 is refused."""
    return models.Filter(must=[models.HasIdCondition(has_id=list(ids))]), max(len(ids), 1)


def _words_query(
    words: SparseVector, filters: SearchFilters, among: models.Filter, limit: int
) -> models.QueryRequest:
    """A word is as rare as it is in this course, whatever else the collection holds."""
    course = _filter([Equals("book_id", filters.book_id)])
    return models.QueryRequest(
        query=_sparse(words),
        using=BM25,
        filter=among,
        limit=limit,
        params=models.SearchParams(idf=models.IdfCorpusParams(corpus=course)),
        with_payload=RANKED_FIELDS,
    )


def _ranked_of(found: Found) -> dict[str, RankedFields]:
    return {id: ranked_fields(point.payload) for id, point in found.items()}


def _scores_of(found: Found) -> dict[str, float]:
    return {id: point.score for id, point in found.items()}


def _sparse(vector: SparseVector) -> models.SparseVector:
    return models.SparseVector(indices=vector.indices, values=vector.values)


def _stored(record: models.Record) -> StoredChunk:
    vectors = cast("dict[str, list[float]]", record.vector)
    return stored_chunk(record.id, record.payload, vectors[DENSE])


def _point(stored: StoredChunk) -> models.PointStruct:
    vectors: dict[str, models.Vector] = {DENSE: stored.vector.tolist()}
    if words := document_terms(stored.chunk):
        vectors[BM25] = _sparse(words)
    payload = chunk_payload(stored.chunk)
    return models.PointStruct(id=stored.chunk.id, vector=vectors, payload=payload)


def _batches(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
