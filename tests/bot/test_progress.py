"""What a person, or a log, sees of an ingestion."""

import asyncio
import io
from collections.abc import AsyncIterator

import pytest
from rich.console import Console

from adapters.operations import IngestionProgress
from bot.progress import WAITING, line, seconds_left, shown
from rag.errors import IngestionError
from rag.types import IngestionJob, JobStatus, now


def at(status: JobStatus, files: int = 0, chunks: int = 0) -> IngestionProgress:
    job = IngestionJob(
        job_id=1,
        book_id="robotics",
        status=status,
        files_discovered=8,
        files_processed=8 if status == "completed" else files,
        completed_at=now() if status == "completed" else None,
    )
    return IngestionProgress(job=job, files_done=files, chunks_done=chunks)


def text_of(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


async def run(console: Console, steps: int) -> AsyncIterator[IngestionProgress]:
    """An ingestion that goes on until the console has shown so many lines."""
    yield at("queued")
    yield at("running", 3, 40)
    while text_of(console).count("\n") < steps:
        await asyncio.sleep(0.001)
    yield at("completed", 8, 98)


def test_a_line_says_where_it_stands() -> None:
    assert line(at("running", 3, 40)) == "robotics: 3 of 8 files, 40 passages"
    assert line(at("queued")) == f"robotics: {WAITING}"


@pytest.mark.parametrize(
    ("processed", "done", "elapsed", "left"),
    [(0, 0, 5.0, None), (2, 2, 10.0, 30.0), (2, 6, 10.0, 10.0), (8, 8, 40.0, 0.0)],
)
def test_the_time_left_follows_from_the_files_that_were_read(
    processed: int, done: int, elapsed: float, left: float | None
) -> None:
    job = at("running").job.model_copy(update={"files_processed": processed})
    assert seconds_left(IngestionProgress(job=job, files_done=done), elapsed) == left


async def test_a_log_gets_a_line_at_a_time_even_while_nothing_happens() -> None:
    console = Console(file=io.StringIO(), width=40)
    job = await shown(run(console, steps=3), console, line_seconds=0.01)
    assert job.status == "completed"
    lines = text_of(console).splitlines()
    assert lines[:3] == ["robotics: 3 of 8 files, 40 passages"] * 3


async def test_a_terminal_gets_a_bar_with_files_passages_rate_and_time() -> None:
    console = Console(file=io.StringIO(), width=120, force_terminal=True, color_system=None)

    async def events() -> AsyncIterator[IngestionProgress]:
        yield at("queued")
        yield at("running", 3, 40)
        yield at("completed", 8, 98)

    assert (await shown(events(), console)).job_id == 1
    written = text_of(console)
    assert "8/8 files · 98 passages" in written
    assert "/s 0:00:00 left" in written


async def test_a_failed_run_is_raised_through_the_display() -> None:
    async def events() -> AsyncIterator[IngestionProgress]:
        yield at("running")
        raise IngestionError("The run cannot go on.")

    with pytest.raises(IngestionError, match="cannot go on"):
        await shown(events(), Console(file=io.StringIO()))
