"""The embedded index: Qdrant's own engine inside this process, its files in the data folder."""

import asyncio
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Self, TypeVar, cast

import qdrant_edge as qdrant
from qdrant_edge import EdgeShard, UpdateOperation

from rag.embedding import Vector
from rag.errors import FootnoteError, IndexingError
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
from rag.index.room import NEEDED_BYTES, check_room
from rag.terms import Terms
from rag.types import CourseSummary, IngestionRecord, IngestionState, SearchFilters, now

Result = TypeVar("Result")

EXACT_UP_TO_CHUNKS = 50_000
"""Below this, comparing with every vector takes milliseconds and building a graph minutes."""
FLUSH_EVERY_POINTS = 2_000
"""The write-ahead log only shrinks at a flush; without one it outgrows the data."""
WRITE_BATCH = 256
SCROLL_BATCH = 1_000


class EdgeIndex:
    """An `Index` and its `StateRecords` in two folders that this process holds alone."""

    needed_bytes = NEEDED_BYTES
    """What the disk must have left before anything is written."""

    def __init__(
        self, folder: Path, chunks: EdgeShard, state: EdgeShard, collection: str, dimension: int
    ) -> None:
        self._folder = folder
        self._chunks = chunks
        self._state = state
        self._collection = collection
        self._dimension = dimension
        self._unflushed = 0
        self._known: dict[str, RankedFields] = {}
        """Of every chunk what ranking asks for; looking it up in the engine takes longer."""
        self._books: set[str] = set()
        for record in _scroll(chunks, [], [], [*RANKED_FIELDS, "book_id"]):
            self._known[str(record.id)] = ranked_fields(record.payload)
            self._books.add(str((record.payload or {}).get("book_id")))
        self._dated = bool(chunks.info().payload_schema["available_from"].points)
        # The engine blocks while it works, and holds the interpreter's lock: more threads would
        # only wait for each other. Reading a whole course has its own, lest searches wait for it.
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="index-read")
        self._scanner = ThreadPoolExecutor(1, thread_name_prefix="index-scan")
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="index-write")

    @classmethod
    def open(cls, folder: Path, collection: str, dimension: int) -> Self:
        """Open the collection, or create it where there is none."""
        check_room(folder)
        chunks = _open_shard(folder / collection, _chunks_config(dimension), CHUNK_INDEXES)
        try:
            path = folder / state_collection(collection)
            state = _open_shard(path, _state_config(), STATE_INDEXES)
        except IndexingError:
            chunks.close()
            raise
        return cls(folder, chunks, state, collection, dimension)

    def close(self) -> None:
        """Finish what is under way and release the folder."""
        self._reader.shutdown()
        self._scanner.shutdown()
        self._writer.shutdown()
        for shard in (self._chunks, self._state):
            shard.close()

    # --- Index ---------------------------------------------------------------------------------

    async def search(
        self, vector: Vector, terms: Terms, filters: SearchFilters, limit: int
    ) -> list[Candidate]:
        check_dimension(vector, self._dimension)
        return await self._read(lambda: self._search(vector, terms, filters, limit))

    def _search(
        self, vector: Vector, terms: Terms, filters: SearchFilters, limit: int
    ) -> list[Candidate]:
        visible = self._visible(filters)
        by_meaning = _meaning_query(vector, visible, limit)
        words = query_terms(terms)
        if words is None:
            (near,) = self._scores(by_meaning)
            return candidates(self._known, near, {})
        course = None if self._is_alone(filters.book_id) else filters.book_id
        near, bm25 = self._scores(by_meaning, _words_query(words, course, visible, limit))
        # Both scores for what only one of the two has found.
        cosines, others = self._scores(
            _meaning_query(vector, *_among(bm25.keys() - near.keys())),
            _words_query(words, course, *_among(near.keys() - bm25.keys())),
        )
        return candidates(self._known, near | cosines, bm25 | others)

    def _visible(self, filters: SearchFilters) -> qdrant.Filter:
        """Each condition costs a tenth of a search or more: only those that tell anything apart."""
        wanted = conditions(filters, available_at=now() if self._dated else None)
        needless = Equals("book_id", filters.book_id) if self._is_alone(filters.book_id) else None
        return _filter(condition for condition in wanted if condition != needless)

    def _is_alone(self, book_id: str) -> bool:
        return self._books == {book_id}

    def _scores(self, *queries: qdrant.QueryRequest) -> list[dict[str, float]]:
        answers = self._chunks.query_batch(qdrant.QueryBatchRequest(list(queries)))
        return [{str(point.id): point.score for point in points} for points in answers]

    async def read(
        self, *, ids: Sequence[str] | None = None, filters: SearchFilters | None = None
    ) -> list[StoredChunk]:
        if ids is not None:
            return in_order_asked(ids, await self._read(lambda: self._retrieve(point_ids(ids))))
        if filters is None:
            raise ValueError("a read names ids or filters")
        return await self._on(self._scanner, lambda: self._matching(filters), "read")

    def _matching(self, filters: SearchFilters) -> list[StoredChunk]:
        return in_reading_order(map(_stored, _scroll(self._chunks, conditions(filters), [DENSE])))

    def _retrieve(self, ids: Iterable[str]) -> list[StoredChunk]:
        return [_stored(record) for record in self._chunks.retrieve(list(ids), True, [DENSE])]

    async def write(self, chunks: Sequence[StoredChunk]) -> None:
        for stored in chunks:
            check_dimension(stored.vector, self._dimension)
        for start in range(0, len(chunks), WRITE_BATCH):
            batch = chunks[start : start + WRITE_BATCH]
            await self._write(lambda batch=batch: self._upsert(batch))

    def _upsert(self, chunks: Sequence[StoredChunk]) -> None:
        points = [_point(stored) for stored in chunks]
        for stored in chunks:  # before a search can find them
            place = stored.chunk.metadata
            self._known[stored.chunk.id] = place.source_file, place.content_hash
            self._dated = self._dated or place.available_from is not None
            self._books.add(place.book_id)
        self._chunks.update(UpdateOperation.upsert_points(points))
        self._unflushed += len(points)
        if self._unflushed >= FLUSH_EVERY_POINTS:
            self._chunks.flush()
            self._unflushed = 0

    async def delete(self, ids: Sequence[str]) -> None:
        if points := point_ids(ids):
            await self._write(lambda: self._remove(points))

    def _remove(self, ids: list[str]) -> None:
        self._chunks.update(UpdateOperation.delete_points(list(ids)))
        for id in ids:
            self._known.pop(id, None)

    async def count(self, filters: SearchFilters) -> int:
        return await self._read(
            lambda: self._chunks.count(qdrant.CountRequest(filter=self._visible(filters)))
        )

    # --- StateRecords --------------------------------------------------------------------------

    async def courses(self) -> list[CourseSummary]:
        return course_summaries(await self._records(Equals("kind", "course")))

    async def load(self, book_id: str) -> IngestionState:
        payloads = await self._records(Equals("book_id", book_id))
        return ingestion_state(book_id, self._collection, payloads)

    async def _records(self, condition: Condition) -> list[Payload | None]:
        records = await self._read(lambda: list(_scroll(self._state, [condition], [])))
        return [record.payload for record in records]

    async def save(self, entry: IngestionRecord | CourseSummary) -> None:
        id, payload = state_point(entry)
        point = qdrant.Point(id, {PLACEHOLDER: PLACEHOLDER_VALUE}, payload)
        await self._write(lambda: self._state.update(UpdateOperation.upsert_points([point])))

    async def forget(self, book_id: str, source_file: str | None = None) -> None:
        if source_file is None:
            deletion = UpdateOperation.delete_points_by_filter(
                _filter([Equals("book_id", book_id)])
            )
        else:
            deletion = UpdateOperation.delete_points([state_id(book_id, source_file)])
        await self._write(lambda: self._state.update(deletion))

    async def foreign_courses(self) -> list[ForeignCourse]:
        return await self._read(self._foreign_courses)

    def _foreign_courses(self) -> list[ForeignCourse]:
        names = (path.name for path in self._folder.iterdir())
        return [
            course
            for name in other_state_collections(self._collection, names)
            for course in _courses_in(self._folder / name)
        ]

    # --- Off the event loop --------------------------------------------------------------------

    async def _read(self, work: Callable[[], Result]) -> Result:
        return await self._on(self._reader, work, "read")

    async def _write(self, work: Callable[[], Result]) -> Result:
        check_room(self._folder, self.needed_bytes)
        return await self._on(self._writer, work, "written")

    async def _on(self, pool: ThreadPoolExecutor, work: Callable[[], Result], verb: str) -> Result:
        with _translated(lambda why: f"The index {self._collection} cannot be {verb}: {why}."):
            return await asyncio.get_running_loop().run_in_executor(pool, work)


# --- Opening -----------------------------------------------------------------------------------


def _chunks_config(dimension: int) -> qdrant.EdgeConfig:
    kilobytes = EXACT_UP_TO_CHUNKS * dimension * 4 // 1024
    return qdrant.EdgeConfig(
        vectors={DENSE: qdrant.EdgeVectorParams(dimension, qdrant.Distance.Cosine)},
        sparse_vectors={BM25: qdrant.EdgeSparseVectorParams(modifier=qdrant.Modifier.Idf)},
        optimizers=qdrant.EdgeOptimizersConfig(indexing_threshold=kilobytes),
        payload_memory=qdrant.Memory.Cached,
        wal_enabled=True,
    )


def _state_config() -> qdrant.EdgeConfig:
    size = len(PLACEHOLDER_VALUE)
    return qdrant.EdgeConfig(
        vectors={PLACEHOLDER: qdrant.EdgeVectorParams(size, qdrant.Distance.Dot)},
        wal_enabled=True,
    )


def _open_shard(path: Path, config: qdrant.EdgeConfig, indexes: dict[str, FieldKind]) -> EdgeShard:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise IndexingError(
            f"The index folder {path} cannot be created: {error.strerror}."
        ) from error
    with _translated(lambda why: _opening_failure(path, config, why)):
        shard = EdgeShard.load(str(path), config)  # on an empty folder this creates
        for field in indexes.keys() - shard.info().payload_schema.keys():
            kind = _field_index(indexes[field])
            shard.update(UpdateOperation.create_field_index(field, kind))
        # Points that were replaced or deleted keep their space until this; it blocks searches,
        # so it runs before there are any.
        shard.optimize()
    return shard


def _courses_in(path: Path) -> list[ForeignCourse]:
    """What another model's state folder lists; one that cannot be opened lists nothing."""
    try:
        shard = _open_shard(path, _state_config(), STATE_INDEXES)
    except IndexingError:
        return []
    try:
        records = list(_scroll(shard, [Equals("kind", "course")], []))
        return foreign_courses(path.name, [record.payload for record in records])
    finally:
        shard.close()


def _opening_failure(path: Path, config: qdrant.EdgeConfig, reason: str) -> str:
    if "WouldBlock" in reason:
        return f"The index in {path} is in use by another process."
    if "incompatible" in reason.lower():
        sizes = ", ".join(str(vector.size) for vector in config.vectors.values())
        return (
            f"The index in {path} holds vectors of another dimension than the {sizes} of this"
            " embedding model; use the model it was built with, or another collection."
        )
    return (
        f"The index in {path} cannot be opened ({reason}); if it is damaged, delete {path.parent}"
        " and ingest again."
    )


@contextmanager
def _translated(sentence: Callable[[str], str]) -> Generator[None]:
    try:
        yield
    except FootnoteError:
        raise
    except Exception as error:  # the engine raises nothing more specific
        raise IndexingError(sentence(_reason(error))) from error
    except BaseException as error:  # a panic, as damaged files cause, is no Exception
        if type(error).__name__ != "PanicException":
            raise
        raise IndexingError(sentence(_reason(error))) from error


def _reason(error: BaseException) -> str:
    lines = str(error).removeprefix("Service runtime error: ").splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


def _field_index(kind: FieldKind) -> qdrant.KeywordIndexParams | qdrant.PayloadSchemaType:
    if kind == "tenant":
        return qdrant.KeywordIndexParams(is_tenant=True)
    return {
        "keyword": qdrant.PayloadSchemaType.Keyword,
        "integer": qdrant.PayloadSchemaType.Integer,
        "datetime": qdrant.PayloadSchemaType.Datetime,
        "bool": qdrant.PayloadSchemaType.Bool,
    }[kind]


# --- Between our types and the engine's --------------------------------------------------------


def _filter(conditions: Iterable[Condition]) -> qdrant.Filter:
    return qdrant.Filter(must=[_condition(condition) for condition in conditions])


def _condition(condition: Condition) -> qdrant.FieldCondition | qdrant.Filter:
    field = condition.field
    if isinstance(condition, Equals):
        return qdrant.FieldCondition(field, match=qdrant.MatchValue(condition.value))
    if isinstance(condition, AnyOf):
        return qdrant.FieldCondition(field, match=qdrant.MatchAny(condition.values))
    if isinstance(condition, Within):
        reach = qdrant.RangeFloat(gte=condition.low, lte=condition.high)
        return qdrant.FieldCondition(field, range=reach)
    later = qdrant.RangeDateTime(gt=condition.moment.isoformat())
    return qdrant.Filter(must_not=[qdrant.FieldCondition(field, range=later)])


def _meaning_query(vector: Vector, among: qdrant.Filter, limit: int) -> qdrant.QueryRequest:
    nearest = qdrant.Query.Nearest(vector.tolist(), using=DENSE)
    return qdrant.QueryRequest(limit=limit, query=nearest, filter=among)


def _among(ids: Collection[str]) -> tuple[qdrant.Filter, int]:
    """Exactly these, and how many they are; a limit of 0 is refused."""
    return qdrant.Filter(must=[qdrant.HasIdCondition(set(ids))]), max(len(ids), 1)


def _words_query(
    words: qdrant.SparseVector, course: str | None, among: qdrant.Filter, limit: int
) -> qdrant.QueryRequest:
    """A word is as rare as it is in this course, whatever else the collection holds."""
    corpus = qdrant.IdfParams(corpus=_filter([Equals("book_id", course)])) if course else None
    return qdrant.QueryRequest(
        limit=limit,
        query=qdrant.Query.Nearest(words, using=BM25),
        filter=among,
        params=qdrant.SearchParams(idf=corpus) if corpus else None,
    )


def _scroll(
    shard: EdgeShard,
    conditions: Iterable[Condition],
    vectors: list[str],
    fields: list[str] | bool = True,
) -> Iterator[qdrant.Record]:
    wanted = _filter(conditions)
    offset: qdrant.PointId | None = None
    while True:
        request = qdrant.ScrollRequest(
            offset=offset,
            limit=SCROLL_BATCH,
            filter=wanted,
            with_payload=fields,
            with_vector=vectors,
        )
        records, offset = shard.scroll(request)
        yield from records
        if offset is None:
            return


def _stored(record: qdrant.Record) -> StoredChunk:
    vectors = cast("dict[str, list[float]]", record.vector)
    return stored_chunk(record.id, record.payload, vectors[DENSE])


def _point(stored: StoredChunk) -> qdrant.Point:
    vectors: dict[str, qdrant.NamedVector] = {DENSE: stored.vector.tolist()}
    if words := document_terms(stored.chunk):
        vectors[BM25] = words
    return qdrant.Point(stored.chunk.id, vectors, chunk_payload(stored.chunk))
