"""Brings the index up to date with a course folder.

For each file: new chunks in, stale ones out, then its record. Before new chunks go in, the record
already names them, so that none is ever orphaned. From its first change to its end a run leaves the
course marked as unsettled: after one that was killed, the next reads every file again, and embeds
only what is missing.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, TypeVar

from rag.embedding import Embedder, Usage, Vector
from rag.errors import FootnoteError, IngestionError
from rag.index import Index, StateRecords, StoredChunk
from rag.ingestion.advice import advice
from rag.ingestion.assembly import make_chunks, piece_ids, with_history
from rag.ingestion.chunking import Piece, cut
from rag.ingestion.course import LESSON_SUFFIXES, PASSAGE_FILES, Course
from rag.ingestion.hierarchy import Numbers, Place, assign
from rag.ingestion.loaders import Document, declared_numbers, read_document
from rag.ingestion.sources import Source, UnreadableDocument, find_sources
from rag.types import (
    CourseSummary,
    DocumentChunk,
    FileFailure,
    IngestionJob,
    IngestionMode,
    IngestionRecord,
    SearchFilters,
    now,
)

Result = TypeVar("Result")

logger = logging.getLogger(__name__)

GROUP_CHUNKS = 256
"""Chunks embedded in one call; a group of files is held in memory until then."""
GROUP_FILES = 64
UNFINISHED = ""
"""The file hash of a record whose file has to be read again."""


@dataclass(frozen=True)
class Progress:
    """How far a run has come."""

    files_done: int
    files_total: int
    chunks_done: int


OnProgress = Callable[[IngestionJob, Progress], None]


@dataclass(frozen=True)
class _Prepared:
    """A file that was read and cut, ready to be stored."""

    record: IngestionRecord
    chunks: list[DocumentChunk]
    vectors: dict[str, Vector]
    """Vectors that can be reused, by chunk id."""
    created: int

    @property
    def unembedded(self) -> list[DocumentChunk]:
        return [chunk for chunk in self.chunks if chunk.id not in self.vectors]


class Ingestion:
    """Ingests courses into one index."""

    def __init__(self, index: Index, state: StateRecords, embedder: Embedder) -> None:
        self._index = index
        self._state = state
        self._embedder = embedder

    async def run(
        self, course: Course, job: IngestionJob, mode: IngestionMode, on_progress: OnProgress
    ) -> IngestionJob:
        """The completed job; a run that cannot go on reports its failed job and raises."""
        run = _Run(self._index, self._state, self._embedder, course, job, mode, on_progress)
        try:
            return await run.complete()
        except Exception as error:
            known = isinstance(error, FootnoteError)
            message = str(error) if known else f"Ingestion stopped unexpectedly: {error!r}."
            run.finish("failed", error_message=message)
            if known:
                raise
            raise IngestionError(message) from error


@dataclass
class _Run:
    """One run over one course, with what it knows of every file."""

    index: Index
    state: StateRecords
    embedder: Embedder
    course: Course
    job: IngestionJob
    mode: IngestionMode
    on_progress: OnProgress
    sources: dict[str, Source] = field(default_factory=dict[str, Source])
    records: dict[str, IngestionRecord] = field(default_factory=dict[str, IngestionRecord])
    places: dict[str, Place] = field(default_factory=dict[str, Place])
    unchanged: set[str] = field(default_factory=set[str])
    gone: set[str] = field(default_factory=set[str])
    failed: set[str] = field(default_factory=set[str])
    done: set[str] = field(default_factory=set[str])
    stored: set[str] = field(default_factory=set[str])
    concerned: set[str] = field(default_factory=set[str])
    """Recorded files whose own chunks may change because they share some with another file."""
    marked: bool = False
    """Whether the course was marked as unsettled, as it is before its first change."""
    queued: set[str] = field(default_factory=set[str])
    queue: list[str] = field(default_factory=list[str])
    """Files still to be read, smallest path first."""
    holders: dict[str, set[str]] = field(default_factory=lambda: defaultdict[str, set[str]](set))
    """Chunk id → files that hold it, once everything read so far is stored."""
    chunks_done: int = 0
    usage: Usage = field(default_factory=Usage)

    async def complete(self) -> IngestionJob:
        self._report(status="running", mode=self.mode, started_at=now())
        await self._plan()
        group: list[_Prepared] = []
        while self.queue:
            prepared = await self._prepare(heappop(self.queue))
            if prepared is not None:
                group.append(prepared)
            waiting = sum(len(file.unembedded) for file in group)
            if waiting >= GROUP_CHUNKS or len(group) >= GROUP_FILES or not self.queue:
                await self._store_group(group)
                group = []
        self._check_something_was_read()
        if self.gone or self.mode == "recreate":
            await self._mark_unsettled()
        for file in sorted(self.gone):
            await self._remove(file)
        if self.mode == "recreate":
            await self._remove_leftovers()
        await self._summarise()
        skipped = self.job.files_discovered - self.job.files_processed - self.job.files_failed
        return self.finish("completed", files_skipped=skipped)

    # --- Progress ------------------------------------------------------------------------------

    def finish(self, status: str, **changes: Any) -> IngestionJob:
        ended = now()
        seconds = round((ended - self.job.started_at).total_seconds())
        self._report(status=status, completed_at=ended, duration_seconds=seconds, **changes)
        return self.job

    def _report(self, **changes: Any) -> None:
        cost = self.usage.cost_usd
        spent = {
            "tokens_embedded": self.usage.tokens,
            "cost_usd": None if cost is None else round(cost, 8),
        }
        self.job = IngestionJob.model_validate(self.job.model_dump() | spent | changes)
        progress = Progress(len(self.done), self.job.files_discovered, self.chunks_done)
        self.on_progress(self.job, progress)

    def _fail(self, file: str, reason: str) -> None:
        failures = [*self.job.failures, FileFailure(source_file=file, reason=reason)]
        self.failed.add(file)
        self.done.add(file)
        self._report(files_failed=self.job.files_failed + 1, failures=failures)

    def _check_something_was_read(self) -> None:
        """A course of which nothing can be read is more likely a mistake than the new course."""
        if self.failed and len(self.failed) == len(self.sources):
            first = self.job.failures[0]
            more = f" ({len(self.failed)} files in all)" if len(self.failed) > 1 else ""
            raise IngestionError(
                f"Nothing could be read: {first.source_file}: {first.reason}{more}."
            )

    # --- Planning ------------------------------------------------------------------------------

    async def _plan(self) -> None:
        """Which files are to be read, where unnumbered ones belong, and which files are gone."""
        found = await asyncio.to_thread(find_sources, self.course)
        self._report(files_discovered=len(found), warnings=advice(found))
        self.sources = {source.source_file: source for source in found}
        state = await self.state.load(self.course.id)
        self.records = dict(state.records)
        for file, record in self.records.items():
            for id in record.chunk_ids:
                self.holders[id].add(file)
        self.gone = set(self._files_gone())
        declared: dict[str, Numbers] = {}
        for source in found:
            if source.problem is not None:
                self._fail(source.source_file, source.problem)
            elif self._is_due(source):
                numbers = await self._attempt(source, declared_numbers)
                if numbers is not None:
                    declared[source.source_file] = numbers
            else:
                self.unchanged.add(source.source_file)
        self.done |= self.unchanged
        known = {
            file: Place(record.module, record.chapter, record.lesson)
            for file, record in self.records.items()
            if file not in self.gone
        }
        self.places = known | assign(declared, known)
        for file in declared:
            self._queue(file)
        for file in self.gone:
            self._concern(self._heirs(file, self.records[file].chunk_ids))
        if state.unsettled:
            self._concern(set(self.records))

    def _is_due(self, source: Source) -> bool:
        record = self.records.get(source.source_file)
        unchanged = record is not None and record.file_hash == source.state_hash
        return self.mode != "incremental" or not unchanged

    def _files_gone(self) -> list[str]:
        """Recorded files that the course no longer has."""
        if not self.course.whole and self.mode != "recreate":
            return []
        missing = [file for file in self.records if file not in self.sources]
        if any(s.problem and s.path.name in PASSAGE_FILES for s in self.sources.values()):
            # Which passages an unreadable line or file held is not known, so all are kept.
            return [file for file in missing if file.endswith(tuple(LESSON_SUFFIXES))]
        return missing

    def _heirs(self, file: str, ids: Iterable[str]) -> set[str]:
        """Later files that hold these chunks too: who owns which of them has to be settled."""
        return {holder for id in ids for holder in self.holders[id] if holder > file}

    def _concern(self, files: set[str]) -> None:
        """These files are to be read again, if they can be."""
        self.concerned |= files - self.gone
        readable = self.sources.keys() - self.gone - self.failed
        for file in sorted(files & readable - self.queued):
            self._queue(file)

    def _queue(self, file: str) -> None:
        self.queued.add(file)
        heappush(self.queue, file)

    # --- Reading -------------------------------------------------------------------------------

    async def _attempt(
        self, source: Source, work: Callable[[Course, Source], Result]
    ) -> Result | None:
        """None when this one file cannot be read, which is then reported."""
        try:
            return await asyncio.to_thread(work, self.course, source)
        except UnreadableDocument as error:
            self._fail(source.source_file, str(error))
        except Exception as error:  # one odd page must not keep the others out
            logger.exception("%s cannot be parsed", source.source_file)
            self._fail(source.source_file, f"it cannot be parsed ({type(error).__name__})")
        return None

    def _read(self, course: Course, source: Source) -> tuple[Document, list[Piece]]:
        document = read_document(course, source)
        limit, count_tokens = self.embedder.max_tokens, self.embedder.count_tokens
        return document, cut(document.title, document.sections, limit, count_tokens)

    async def _prepare(self, file: str) -> _Prepared | None:
        found = await self._attempt(self.sources[file], self._read)
        if found is None:
            return None
        document, pieces = found
        place = self.places[file]
        by_id = dict(zip(piece_ids(self.course.id, place, pieces), pieces, strict=True))
        before = self._held_before(file)
        self._hold(file, before, by_id)
        owned = {id: piece for id, piece in by_id.items() if self._owns(file, id)}
        stored = {entry.chunk.id: entry for entry in await self.index.read(ids=[*owned, *before])}
        chunks = make_chunks(self.course.id, document, place, owned, now())
        replaced = _by_position(stored[id].chunk for id in before if id in stored.keys() - by_id)
        chunks, vectors = self._with_past(chunks, stored, replaced)
        return _Prepared(
            record=self._record(file, place, list(by_id)),
            chunks=chunks,
            vectors=vectors,
            created=sum(id not in stored for id in owned),
        )

    def _held_before(self, file: str) -> list[str]:
        record = self.records.get(file)
        return record.chunk_ids if record else []

    def _hold(self, file: str, before: Iterable[str], after: Iterable[str]) -> None:
        """Note that the file now holds these chunks, and whom that concerns."""
        old, new = set(before), set(after)
        for id in old - new:
            self.holders[id].discard(file)
        for id in new:
            self.holders[id].add(file)
        self._concern(self._heirs(file, old ^ new))

    def _owns(self, file: str, id: str) -> bool:
        """The first path that holds a chunk owns it, and it stands in that file's chain."""
        return file == min(self.holders[id] - self.gone)

    def _with_past(
        self,
        chunks: list[DocumentChunk],
        stored: dict[str, StoredChunk],
        replaced: dict[int, DocumentChunk],
    ) -> tuple[list[DocumentChunk], dict[str, Vector]]:
        """The chunks with their history, and the vectors that are still right."""
        vectors: dict[str, Vector] = {}
        result: list[DocumentChunk] = []
        for chunk in chunks:
            entry = stored.get(chunk.id)
            before = entry.chunk if entry else replaced.get(chunk.metadata.chunk_index)
            chunk = with_history(chunk, before)
            if entry and self._can_reuse(chunk, entry.chunk):
                vectors[chunk.id] = entry.vector
                kept = {"embedded_at": entry.chunk.embedded_at}
                chunk = chunk.model_copy(update=kept)
            result.append(chunk.model_copy(update={"embedding_model": self.embedder.model}))
        return result, vectors

    def _can_reuse(self, chunk: DocumentChunk, stored: DocumentChunk) -> bool:
        return (
            self.mode == "incremental"
            and stored.embedded_hash == chunk.embedded_hash
            and stored.embedding_model == self.embedder.model
        )

    def _record(self, file: str, place: Place, ids: list[str]) -> IngestionRecord:
        return IngestionRecord(
            source_file=file,
            file_hash=self.sources[file].state_hash,
            chunk_ids=ids,
            book_id=self.course.id,
            module=place.module,
            chapter=place.chapter,
            lesson=place.lesson,
        )

    # --- Storing -------------------------------------------------------------------------------

    async def _store_group(self, group: list[_Prepared]) -> None:
        chunks = [chunk for file in group for chunk in file.unembedded]
        if chunks:
            texts = [chunk.embedding_input for chunk in chunks]
            rows = await self.embedder.embed_passages(texts, self.usage)
            embedded = {chunk.id: row for chunk, row in zip(chunks, rows, strict=True)}
        else:
            embedded = {}
        if group:
            await self._mark_unsettled()
        for file in group:
            await self._store(file, embedded)

    async def _store(self, file: _Prepared, embedded: dict[str, Vector]) -> None:
        record = file.record
        before = self._held_before(record.source_file)
        if set(record.chunk_ids) - set(before):
            both = list(dict.fromkeys([*before, *record.chunk_ids]))
            unfinished = {"chunk_ids": both, "file_hash": UNFINISHED}
            await self.state.save(record.model_copy(update=unfinished))
        await self.index.write([_stored(chunk, file.vectors, embedded) for chunk in file.chunks])
        new = set(record.chunk_ids)
        stale = [id for id in before if id not in new and not self.holders[id]]
        await self._delete(stale)
        await self.state.save(record)
        self.records[record.source_file] = record
        self.stored.add(record.source_file)
        self._count(file)

    def _count(self, file: _Prepared) -> None:
        # A file that was read again only because it shares chunks with another is not news.
        is_news = file.record.source_file not in self.unchanged
        self.chunks_done += len(file.chunks)
        self.done.add(file.record.source_file)
        self._report(
            files_processed=self.job.files_processed + is_news,
            chunks_created=self.job.chunks_created + file.created,
            chunks_embedded=self.job.chunks_embedded + len(file.unembedded),
        )

    async def _delete(self, ids: list[str]) -> None:
        if ids:
            await self.index.delete(ids)
            self._report(chunks_deleted=self.job.chunks_deleted + len(ids))

    async def _remove(self, file: str) -> None:
        """A file that is gone takes along what no other file holds."""
        ids = self._held_before(file)
        for id in ids:
            self.holders[id].discard(file)
        await self._delete([id for id in ids if not self.holders[id]])
        await self.state.forget(self.course.id, file)
        del self.records[file]
        self._report(files_deleted=self.job.files_deleted + 1)

    async def _remove_leftovers(self) -> None:
        """Chunks of this course that no record holds."""
        held = {id for record in self.records.values() for id in record.chunk_ids}
        stored = await self.index.read(filters=SearchFilters(book_id=self.course.id))
        await self._delete([entry.chunk.id for entry in stored if entry.chunk.id not in held])

    async def _mark_unsettled(self) -> None:
        if self.marked:
            return
        self.marked = True
        for course in await self.state.courses():
            if course.book_id == self.course.id:  # one that is not listed yet counts as unsettled
                await self.state.save(course.model_copy(update={"unsettled": True}))

    async def _summarise(self) -> None:
        state = await self.state.load(self.course.id)
        full = self.mode != "incremental"
        await self.state.save(
            CourseSummary(
                book_id=self.course.id,
                title=self.course.title,
                last_full_ingest=now() if full else state.last_full_ingest,
                last_incremental_update=state.last_incremental_update if full else now(),
                total_chunks=state.total_chunks,
                embedding_model=self.embedder.model,
                unsettled=bool(self.concerned - self.stored),
            )
        )


def _by_position(chunks: Iterable[DocumentChunk]) -> dict[int, DocumentChunk]:
    return {chunk.metadata.chunk_index: chunk for chunk in chunks}


def _stored(
    chunk: DocumentChunk, reused: dict[str, Vector], embedded: dict[str, Vector]
) -> StoredChunk:
    if chunk.id in reused:
        return StoredChunk(chunk, reused[chunk.id])
    return StoredChunk(chunk.model_copy(update={"embedded_at": now()}), embedded[chunk.id])
