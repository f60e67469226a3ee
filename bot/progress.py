"""How far an ingestion is: a bar on a terminal, a line a second elsewhere."""

import time
from collections.abc import Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from rag.ingestion.pipeline import OnProgress
from rag.ingestion.pipeline import Progress as Reading
from rag.types import IngestionJob

LINE_SECONDS = 1.0


@contextmanager
def shown_progress(console: Console) -> Generator[OnProgress]:
    if not console.is_terminal:
        yield line_by_line(console)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("files · {task.fields[chunks]} passages · {task.fields[rate]:.0f}/s"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("Reading", total=None, chunks=0, rate=0.0)
        started = time.monotonic()

        def show(job: IngestionJob, reading: Reading) -> None:
            rate = reading.chunks_done / max(time.monotonic() - started, 0.1)
            bar.update(
                task,
                description=job.book_id,
                total=reading.files_total,
                completed=reading.files_done,
                chunks=reading.chunks_done,
                rate=rate,
            )

        yield show


def line_by_line(console: Console) -> OnProgress:
    last = 0.0

    def show(job: IngestionJob, reading: Reading) -> None:
        nonlocal last
        if time.monotonic() - last >= LINE_SECONDS:
            last = time.monotonic()
            files = f"{reading.files_done} of {reading.files_total} files"
            console.print(f"{job.book_id}: {files}, {reading.chunks_done} passages")

    return show
