"""Ingestions as the bot runs them, into the real embedded index."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from redis.asyncio import Redis

from adapters.operations import IngestionProgress, IngestRequest
from bot.courses import Courses, remove_course, was_ingested
from bot.health import index_findings, memory_finding
from bot.ingestions import STOPPED, Ingestions
from bot.jobs import Jobs, Turns
from rag.embedding import Usage, Vector
from rag.errors import CourseError, EmbeddingError, FootnoteError
from rag.index import Storage, StoredChunk
from rag.index.edge import EdgeIndex
from rag.ingestion.invariants import violations
from rag.types import CourseSummary, IngestionJob, IngestionRecord, SearchFilters
from tests.factories import make_chunk
from tests.fakes import WordEmbedder
from tests.rag.ingestion.test_course import write

LESSONS = {
    "01-nodes.md": "# Nodes\n\nA node does one job.\n\n## Topics\n\nTopics carry messages.\n",
    "02-arms.md": "# Arms\n\nAn arm has several joints and one gripper.\n",
}
ROBOTICS = SearchFilters(book_id="robotics")


class PatientEmbedder(WordEmbedder):
    """Embeds passages only when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.failure: Exception | None = None

    async def embed_passages(self, texts: Sequence[str], usage: Usage | None = None) -> Vector:
        self.begun.set()
        await self.go_on.wait()
        if self.failure:
            raise self.failure
        return await super().embed_passages(texts, usage)


@dataclass
class School:
    """One index with its ingestions."""

    index: EdgeIndex
    embedder: PatientEmbedder
    jobs: Jobs
    turns: Turns
    ingestions: Ingestions
    folder: Path

    def start(self) -> asyncio.Task[list[IngestionProgress]]:
        return asyncio.create_task(self.ingest())

    async def ingest(self) -> list[IngestionProgress]:
        request = IngestRequest(path=self.folder, course="robotics")
        return [at async for at in self.ingestions.run(request)]

    async def known(self) -> CourseSummary | None:
        courses = await self.index.courses()
        return next((course for course in courses if course.book_id == "robotics"), None)

    async def problems(self) -> list[str]:
        stored = [entry.chunk for entry in await self.index.read(filters=ROBOTICS)]
        return violations(stored, await self.index.load("robotics"), await self.known())

    async def newest(self) -> IngestionJob:
        return (await self.jobs.all())[0]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EdgeIndex]:
    index = EdgeIndex.open(tmp_path_factory.mktemp("index"), "chunks", 16)
    yield index
    index.close()


@pytest.fixture
async def school(opened: EdgeIndex, redis: Redis, tmp_path: Path) -> AsyncGenerator[School]:
    for course in await opened.courses():
        await remove_course(opened, course.book_id)
    embedder, jobs, turns = PatientEmbedder(), Jobs(redis), Turns()
    ingestions = Ingestions(opened, embedder, jobs, turns)
    yield School(opened, embedder, jobs, turns, ingestions, write(tmp_path / "course", LESSONS))
    await ingestions.stop()


# --- A run ---------------------------------------------------------------------------------------


async def test_a_run_reports_from_queued_to_completed(school: School) -> None:
    progress = await school.ingest()
    statuses = [at.job.status for at in progress]
    assert (statuses[0], statuses[1], statuses[-1]) == ("queued", "running", "completed")
    assert (progress[-1].files_done, progress[-1].chunks_done) == (2, 3)
    assert await school.newest() == progress[-1].job
    assert await school.problems() == []


async def test_a_finished_course_is_measured_for_the_gate(school: School) -> None:
    await school.ingest()
    first = await school.known()
    assert first
    assert first.profile is not None
    assert was_ingested(first)
    await school.ingest()
    second = await school.known()
    assert second
    assert second.profile == first.profile


async def test_an_unchanged_course_is_not_measured_again(school: School) -> None:
    await school.ingest()
    summary = await school.known()
    assert summary
    assert summary.profile
    marked = {**summary.profile, "mark": True}
    await school.index.save(summary.model_copy(update={"profile": marked}))
    await school.ingest()
    unchanged = await school.known()
    assert unchanged
    assert unchanged.profile == marked
    write(school.folder, {"03-legs.md": "# Legs\n\nA leg has several joints too.\n"})
    await school.ingest()
    changed = await school.known()
    assert changed
    assert changed.profile not in (None, marked)


async def test_a_missing_folder_makes_no_job(school: School) -> None:
    school.folder = school.folder / "nowhere"
    with pytest.raises(CourseError, match="There is no course"):
        await school.ingest()
    assert await school.jobs.all() == []


async def test_a_run_that_cannot_go_on_leaves_a_failed_job(school: School) -> None:
    school.embedder.failure = EmbeddingError("The provider rejected the key.")
    with pytest.raises(EmbeddingError):
        await school.ingest()
    job = await school.newest()
    assert (job.status, job.error_message) == ("failed", "The provider rejected the key.")


# --- Stopping ------------------------------------------------------------------------------------


async def test_whoever_stops_listening_stops_the_job(school: School) -> None:
    school.embedder.go_on.clear()
    listening = school.start()
    await school.embedder.begun.wait()
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
    job = await school.newest()
    assert (job.status, job.error_message) == ("failed", STOPPED)
    assert not await school.turns.is_taken("robotics")


async def test_a_stopped_run_is_taken_up_by_the_next(school: School) -> None:
    await test_whoever_stops_listening_stops_the_job(school)
    course = await school.known()
    assert course
    assert not was_ingested(course)
    school.embedder.go_on.set()
    await school.ingest()
    assert await school.problems() == []


async def test_the_end_of_footnote_is_told_to_who_listens(school: School) -> None:
    school.embedder.go_on.clear()
    listening = school.start()
    await school.embedder.begun.wait()
    await school.ingestions.stop()
    with pytest.raises(FootnoteError, match="Footnote is ending"):
        await listening
    assert (await school.newest()).status == "failed"


# --- Two at once ---------------------------------------------------------------------------------


async def test_a_second_run_of_the_same_course_waits_its_turn(school: School) -> None:
    school.embedder.go_on.clear()
    first = school.start()
    await school.embedder.begun.wait()
    second = school.start()
    while len(await school.jobs.all()) < 2:
        await asyncio.sleep(0.01)
    assert (await school.newest()).status == "queued"
    school.embedder.go_on.set()
    done = [progress[-1].job for progress in await asyncio.gather(first, second)]
    assert [(job.files_processed, job.files_skipped) for job in done] == [(2, 0), (0, 2)]
    assert await school.problems() == []


# --- Removing ------------------------------------------------------------------------------------


async def test_a_removed_course_leaves_nothing_behind(school: School) -> None:
    await school.ingest()
    assert (await school.ingestions.remove("robotics")).chunks_deleted == 3
    assert await school.known() is None
    assert await school.index.read(filters=ROBOTICS) == []
    assert (await school.index.load("robotics")).records == {}


async def test_other_courses_are_left_alone(school: School) -> None:
    await school.ingest()
    other = make_chunk("Whisk the eggs with sugar.", book_id="cooking")
    await school.index.write([StoredChunk(other, school.embedder.vector(other.text))])
    await school.index.save(CourseSummary(book_id="cooking", title="Cooking"))
    await school.ingestions.remove("robotics")
    kept = await school.index.read(filters=SearchFilters(book_id="cooking"))
    assert [entry.chunk.id for entry in kept] == [other.id]
    assert [course.book_id for course in await Courses(school.index).all()] == ["cooking"]


async def test_an_unknown_course_cannot_be_removed(school: School) -> None:
    with pytest.raises(CourseError, match="chess"):
        await school.ingestions.remove("chess")


async def test_a_course_that_is_being_ingested_is_not_removed(school: School) -> None:
    school.embedder.go_on.clear()
    listening = school.start()
    await school.embedder.begun.wait()
    with pytest.raises(CourseError, match="is being ingested"):
        await school.ingestions.remove("robotics")
    school.embedder.go_on.set()
    await listening


class Killed(Exception):
    """Stands for the moment at which a process dies."""


class DyingIndex:
    """Passes everything on until the n-th change, which never happens."""

    def __init__(self, index: EdgeIndex, changes: int) -> None:
        self.courses, self.load, self.read = index.courses, index.load, index.read
        self.search, self.count, self.write = index.search, index.count, index.write
        self.foreign_courses = index.foreign_courses
        self._index = index
        self._changes = changes

    def _change(self) -> None:
        if self._changes == 0:
            raise Killed
        self._changes -= 1

    async def save(self, entry: IngestionRecord | CourseSummary) -> None:
        self._change()
        await self._index.save(entry)

    async def delete(self, ids: Sequence[str]) -> None:
        self._change()
        await self._index.delete(ids)

    async def forget(self, book_id: str, source_file: str | None = None) -> None:
        self._change()
        await self._index.forget(book_id, source_file)


@pytest.mark.parametrize("changes", range(3))
@pytest.mark.parametrize("then", ["ingest", "remove"])
async def test_a_removal_killed_half_way_can_be_ended_or_undone(
    school: School, changes: int, then: str
) -> None:
    await school.ingest()
    dying: Storage = DyingIndex(school.index, changes)
    with pytest.raises(Killed):
        await remove_course(dying, "robotics")
    assert await school.known()
    if then == "remove":
        await school.ingestions.remove("robotics")
        assert await school.index.read(filters=ROBOTICS) == []
    else:
        await school.ingest()
        assert len(await school.index.read(filters=ROBOTICS)) == 3
        assert await school.problems() == []


# --- What the doctor says ------------------------------------------------------------------------


async def index_sentences(school: School) -> list[tuple[str, str, str]]:
    found = await index_findings(school.index, None, school.turns)
    return [(finding.part, finding.status, finding.sentence) for finding in found][1:]


async def test_a_sound_course_is_in_order(school: School) -> None:
    assert (await index_sentences(school))[0][1] == "off"
    await school.ingest()
    assert await index_sentences(school) == [
        ("course robotics", "ok", "3 passages of 2 files, complete and in order.")
    ]


async def test_a_damaged_course_is_wrong(school: School) -> None:
    await school.ingest()
    stored = await school.index.read(filters=ROBOTICS)
    await school.index.delete([stored[0].chunk.id])
    [(_, status, sentence)] = await index_sentences(school)
    assert status == "wrong"
    assert "which is not stored" in sentence
    assert "Ingest the course again" in sentence


async def test_a_course_that_was_never_finished_is_wrong(school: School) -> None:
    await test_whoever_stops_listening_stops_the_job(school)
    [(_, status, sentence)] = await index_sentences(school)
    assert (status, sentence.startswith("It has never been read to its end.")) == ("wrong", True)


async def test_a_course_that_is_being_ingested_is_not_checked(school: School) -> None:
    school.embedder.go_on.clear()
    listening = school.start()
    await school.embedder.begun.wait()
    assert [status for _, status, _ in await index_sentences(school)] == ["off"]
    school.embedder.go_on.set()
    await listening


async def test_memory_is_there_or_not(redis: Redis, no_redis: Redis) -> None:
    assert (await memory_finding(redis, None)).status == "ok"
    assert (await memory_finding(no_redis, "redis://nowhere")).status == "wrong"
