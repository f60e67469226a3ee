"""Runs ingestions one after the other for each course, and keeps their jobs up to date."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable

from adapters.operations import IngestionProgress, IngestRequest, Removal
from bot.courses import remove_course
from bot.jobs import Jobs, Turns
from rag.embedding import Embedder
from rag.errors import CourseError, FootnoteError
from rag.index import Storage
from rag.ingestion.course import Course, load_course
from rag.ingestion.pipeline import Ingestion, Progress
from rag.profile import build_profile
from rag.types import CourseSummary, IngestionJob, IngestionMode, now

STOPPED = "It was stopped before it was done; the next ingestion goes on from there."
REPORT_SECONDS = 0.1

Report = Callable[[IngestionProgress], None]


class Ingestions:
    """The one way in which the index changes."""

    def __init__(self, index: Storage, embedder: Embedder, jobs: Jobs, turns: Turns) -> None:
        self._index = index
        self._embedder = embedder
        self._jobs = jobs
        self._turns = turns
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, request: IngestRequest) -> AsyncGenerator[IngestionProgress]:
        """Ingests a course. Whoever stops listening stops the run, which is safe at any point."""
        course = await asyncio.to_thread(load_course, request.path, request.course)
        events: asyncio.Queue[IngestionProgress | None] = asyncio.Queue()
        task = asyncio.create_task(self._ingest(course, request.mode, events.put_nowait))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
            if task.cancelled():
                raise FootnoteError("The ingestion was stopped, since Footnote is ending.")
            task.result()
        finally:
            await stopped(task)

    async def remove(self, book_id: str) -> Removal:
        if await self._turns.is_taken(book_id):
            raise CourseError(f"{book_id} is being ingested; remove it when that is done.")
        async with self._turns.turn(book_id):
            return Removal(course=book_id, chunks_deleted=await remove_course(self._index, book_id))

    async def stop(self) -> None:
        """Ends every run that is under way; their jobs say so."""
        for task in list(self._tasks):
            await stopped(task)

    async def _ingest(self, course: Course, mode: IngestionMode, report: Report) -> None:
        latest = await self._jobs.create(course.id, mode)
        report(IngestionProgress(job=latest))
        passed_on = 0.0

        def follow(job: IngestionJob, at: Progress) -> None:
            nonlocal latest, passed_on
            news = (job.status, job.files_discovered) != (latest.status, latest.files_discovered)
            latest = job
            if news or time.monotonic() - passed_on >= REPORT_SECONDS:
                passed_on = time.monotonic()
                done = {"files_done": at.files_done, "chunks_done": at.chunks_done}
                report(IngestionProgress(job=job, **done))

        async with self._jobs.working(lambda: latest):
            try:
                async with self._turns.turn(course.id):
                    before = await self._listed(course)
                    ingestion = Ingestion(self._index, self._index, self._embedder)
                    await ingestion.run(course, latest, mode, follow)
                    await self._measure(before, latest)
            except BaseException as error:
                if latest.status != "failed":
                    latest = failed(latest, error)
                raise

    async def _listed(self, course: Course) -> CourseSummary:
        """The course as it is known; a new one is listed at once, so that it can be removed."""
        known = {summary.book_id: summary for summary in await self._index.courses()}
        if course.id not in known:
            known[course.id] = CourseSummary(book_id=course.id, title=course.title)
            await self._index.save(known[course.id])
        return known[course.id]

    async def _measure(self, before: CourseSummary, job: IngestionJob) -> None:
        """Measure the course for the gate, unless nothing has changed since the last time."""
        courses = await self._index.courses()
        summary = next(course for course in courses if course.book_id == job.book_id)
        if before.profile is not None and not before.unsettled and is_unchanged(job):
            measured = before.profile
        else:
            profile = await build_profile(self._index, self._embedder, job.book_id)
            measured = profile.model_dump(mode="json") if profile else None
        await self._index.save(summary.model_copy(update={"profile": measured}))


def is_unchanged(job: IngestionJob) -> bool:
    changes = (job.files_processed, job.files_deleted, job.chunks_deleted, job.chunks_embedded)
    return not any(changes)


def failed(job: IngestionJob, error: BaseException) -> IngestionJob:
    unexpected = f"It stopped unexpectedly: {error!r}."
    sentence = unexpected if isinstance(error, Exception) else STOPPED
    sentence = str(error) if isinstance(error, FootnoteError) else sentence
    over = {"status": "failed", "error_message": sentence, "completed_at": now()}
    return job.model_copy(update=over)


async def stopped(task: asyncio.Task[None]) -> None:
    """Ends a run and lets it save its job; a run that is ending already is left to it."""
    if not task.done() and not task.cancelling():
        task.cancel()
    await asyncio.wait([task])
