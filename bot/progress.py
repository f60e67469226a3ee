"""How far an ingestion is: a bar on a terminal, a line a second elsewhere."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager
from datetime import timedelta

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
)
from rich.text import Text

from adapters.operations import IngestionProgress
from rag.types import IngestionJob

LINE_SECONDS = 1.0
WAITING = "waiting for another ingestion of it to end"

Show = Callable[[IngestionProgress], None]


async def shown(
    events: AsyncIterator[IngestionProgress], console: Console, line_seconds: float = LINE_SECONDS
) -> IngestionJob:
    """Shows an ingestion as it goes on, and returns the job it ends with."""
    if console.is_terminal:
        with bar(console) as show:
            return await last_job(events, show)
    lines = Lines(console)
    ticking = asyncio.create_task(lines.tick(line_seconds))
    try:
        return await last_job(events, lines.note)
    finally:
        ticking.cancel()


async def last_job(events: AsyncIterator[IngestionProgress], show: Show) -> IngestionJob:
    job: IngestionJob | None = None
    async for at in events:
        job = at.job
        show(at)
    if job is None:
        raise RuntimeError("an ingestion ended without its job")
    return job


@contextmanager
def bar(console: Console) -> Generator[Show]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("files · {task.fields[chunks]} passages · {task.fields[rate]:.0f}/s"),
        TimeLeft(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("Reading", total=None, chunks=0, rate=0.0, ends_at=None)
        began: float | None = None

        def show(at: IngestionProgress) -> None:
            nonlocal began
            if at.job.status == "queued":
                progress.update(task, description=f"{at.job.book_id}: {WAITING}")
                return
            began = began or time.monotonic()
            elapsed = time.monotonic() - began
            left = seconds_left(at, elapsed)
            progress.update(
                task,
                description=at.job.book_id,
                total=at.job.files_discovered or None,
                completed=at.files_done,
                chunks=at.chunks_done,
                rate=at.chunks_done / max(elapsed, 0.1),
                ends_at=None if left is None else time.monotonic() + left,
            )

        yield show


class TimeLeft(ProgressColumn):
    """Files are stored in bursts, so their rate of late, as rich has it, says little."""

    def render(self, task: Task) -> Text:
        ends_at: float | None = task.fields["ends_at"]
        if ends_at is None:
            return Text("-:--:--", style="cyan")
        left = timedelta(seconds=round(max(ends_at - time.monotonic(), 0)))
        return Text(f"{left} left", style="cyan")


def seconds_left(at: IngestionProgress, elapsed: float) -> float | None:
    """By how long each file took so far; those that are unchanged took no time."""
    read = at.job.files_processed + at.job.files_failed
    return elapsed / read * (at.job.files_discovered - at.files_done) if read else None


class Lines:
    """The same for a log: where it stands, every second."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._latest: IngestionProgress | None = None

    def note(self, at: IngestionProgress) -> None:
        self._latest = at

    async def tick(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            if self._latest is not None:
                self._console.print(line(self._latest), soft_wrap=True, highlight=False)


def line(at: IngestionProgress) -> str:
    if at.job.status == "queued":
        return f"{at.job.book_id}: {WAITING}"
    files = f"{at.files_done} of {at.job.files_discovered} files"
    return f"{at.job.book_id}: {files}, {at.chunks_done} passages"
