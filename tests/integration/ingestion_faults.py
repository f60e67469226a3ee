"""Kills ingestions with SIGKILL at random moments, and looks at what they leave behind.

Each round edits a small course at random, lets a process ingest it, kills that process, checks that
nothing a reader could find is missing, and after a few such rounds that one undisturbed run puts
everything right: the index is then the same as one that was built afresh.
"""

import asyncio
import multiprocessing
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any, Self

from bot.courses import remove_course
from rag.errors import CourseError
from rag.index.edge import EdgeIndex
from rag.ingestion.course import load_course
from rag.ingestion.invariants import violations
from rag.ingestion.pipeline import Ingestion
from rag.types import IngestionJob, IngestionMode, IngestionState, SearchFilters
from tests.fakes import WordEmbedder

BOOK = "robotics"
OF_THIS_COURSE = SearchFilters(book_id=BOOK)
DIMENSION = 16
FIRST_FILES = 8
WORDS = ["node", "topic", "arm", "joint", "motor", "gear", "camera", "map"]
UNDISTURBED = 0.06
"""How long a run of this size takes at first sight; measured anew after each that ends."""

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload([__name__])


# --- The process that is killed ----------------------------------------------------------------


def work(folder: Path, index_folder: Path, task: str, ready: Connection) -> None:
    """Ingests or removes the course, after a sign that it begins."""
    index = EdgeIndex.open(index_folder, "chunks", DIMENSION)
    ready.send("ready")
    asyncio.run(removed(index) if task == "remove" else ingested(index, folder, mode_of(task)))
    index.close()


def mode_of(task: str) -> IngestionMode:
    return "recreate" if task == "recreate" else "full" if task == "full" else "incremental"


async def ingested(index: EdgeIndex, folder: Path, mode: IngestionMode) -> None:
    course, job = load_course(folder, BOOK), IngestionJob(job_id=1, book_id=BOOK)
    await Ingestion(index, index, WordEmbedder()).run(course, job, mode, lambda job, at: None)


async def removed(index: EdgeIndex) -> None:
    with suppress(CourseError):  # the run that would have listed it was killed
        await remove_course(index, BOOK)


# --- The course that changes -------------------------------------------------------------------


@dataclass
class Author:
    """Writes and rewrites a course at random."""

    folder: Path
    random: Random
    written: list[str] = field(default_factory=list[str])
    """Sections so far; some are used again, so that files share chunks."""
    files: int = 0

    def begin(self) -> None:
        self.folder.mkdir(parents=True)
        for _ in range(FIRST_FILES):
            self.add()

    def edit(self) -> None:
        changes: list[Callable[[], None]] = [self.add, self.rewrite, self.delete, self.rename]
        for _ in range(self.random.randint(1, 4)):
            self.random.choice(changes)()

    def add(self) -> None:
        self.files += 1
        lesson = f"{self.random.randint(1, 5):02}"
        self._write(self.folder / f"{lesson}-page-{self.files}.md")

    def rewrite(self) -> None:
        self._write(self._any_file())

    def delete(self) -> None:
        if len(list(self.folder.iterdir())) > 2:
            self._any_file().unlink()

    def rename(self) -> None:
        self.files += 1
        lesson = f"{self.random.randint(1, 5):02}"
        self._any_file().rename(self.folder / f"{lesson}-page-{self.files}.md")

    def _any_file(self) -> Path:
        return self.random.choice(sorted(self.folder.iterdir()))

    def _write(self, file: Path) -> None:
        sections = [self._section() for _ in range(self.random.randint(1, 6))]
        # The numbers are declared, since those given to unnumbered files depend on the past.
        front = f"---\nchapter: 1\nlesson: {int(file.name[:2])}\n---\n"
        file.write_text(front + "# Page\n\n" + "\n\n".join(sections) + "\n")

    def _section(self) -> str:
        if self.written and self.random.random() < 0.3:
            return self.random.choice(self.written)
        words = self.random.choices(
            ["node", "topic", "arm", "joint", "motor", "gear", "camera", "map"], k=12
        )
        self.written.append(f"## Part {len(self.written)}\n\nThe {' '.join(words)}.")
        return self.written[-1]


# --- Rounds ------------------------------------------------------------------------------------


@dataclass
class Found:
    """What lies in an index."""

    chunks: dict[str, dict[str, Any]]
    state: IngestionState
    problems: list[str]


@dataclass
class Campaign:
    """One course, one index, and everything that happens to them."""

    folder: Path
    seed: int
    killed: int = 0
    finished: int = 0
    undisturbed: float = UNDISTURBED

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.course = self.folder / "course"
        self.index = self.folder / "index"
        self.author = Author(self.course, self.random)
        self.author.begin()
        self.last = Found({}, IngestionState(book_id=BOOK, collection_name="chunks"), [])

    def __enter__(self) -> Self:
        self._other = EdgeIndex.open(self.folder / "afresh", "chunks", DIMENSION)
        return self

    def __exit__(self, *_: object) -> None:
        self._other.close()

    def run(self, rounds: int) -> None:
        for _ in range(rounds):
            for _ in range(self.random.randint(1, 3)):
                self.disturb()
            self.repair()

    def disturb(self) -> None:
        before = self.last
        self.author.edit()
        task = self.random.choice(["incremental"] * 5 + ["full", "recreate", "remove"])
        done = self.work(task, kill_after=self.random.random() * 1.2 * self.undisturbed)
        self.killed, self.finished = self.killed + (not done), self.finished + done
        self.last = self.found()
        if task != "remove":
            self.check_no_gap(before, self.last)

    def repair(self) -> None:
        """One run that nobody disturbs makes the index what it should be."""
        assert self.work("incremental"), self.tell("an undisturbed run failed")
        found, fresh = self.found(), self.afresh()
        assert found.problems == [], self.tell(found.problems)
        assert found.chunks == fresh.chunks, self.tell("it differs from one built afresh")
        assert held(found.state) == held(fresh.state), self.tell("its records differ")
        self.last = found

    def check_no_gap(self, before: Found, after: Found) -> None:
        """Of every page that still exists, the old text can be found or the new one."""
        new = held(self.afresh().state)
        for file, ids in held(before.state).items():
            if file not in new or not set(ids) <= before.chunks.keys():
                continue
            old_is_there, new_is_there = (
                set(some) <= after.chunks.keys() for some in (ids, new[file])
            )
            assert old_is_there or new_is_there, self.tell(f"{file} has a gap")

    def work(self, task: str, kill_after: float | None = None) -> bool:
        """Whether the process came to its end."""
        ours, theirs = _processes.Pipe()
        process = _processes.Process(target=work, args=(self.course, self.index, task, theirs))
        process.start()
        theirs.close()
        with ours:
            assert ours.recv() == "ready"
            began = time.monotonic()
            process.join(kill_after)
            took = time.monotonic() - began
            process.kill()
            process.join()
        done = process.exitcode == 0
        assert done or process.exitcode == -9, self.tell(f"exit code {process.exitcode}")
        process.close()
        if kill_after is None:
            self.undisturbed = took
        return done

    def afresh(self) -> Found:
        """What a first run into an empty index stores."""
        asyncio.run(removed(self._other))
        asyncio.run(ingested(self._other, self.course, "incremental"))
        return asyncio.run(contents(self._other))

    def found(self) -> Found:
        """It can be opened and searched, whatever happened to it."""
        index = EdgeIndex.open(self.index, "chunks", DIMENSION)
        try:
            return asyncio.run(contents(index))
        finally:
            index.close()

    def tell(self, problem: object) -> str:
        return f"seed {self.seed}, after {self.killed} kills: {problem}"


async def contents(index: EdgeIndex) -> Found:
    stored = [entry.chunk for entry in await index.read(filters=OF_THIS_COURSE)]
    state = await index.load(BOOK)
    summary = next((c for c in await index.courses() if c.book_id == BOOK), None)
    vector = WordEmbedder().vector("topic")
    found = await index.search(vector, {"topic": 1.0}, OF_THIS_COURSE, 5)
    assert bool(found) == bool(stored), "what is stored cannot be searched"
    # Its history differs: it says when and how often a chunk was written.
    history = {"metadata": {"version", "created_at", "updated_at"}, "embedded_at": True}
    chunks = {chunk.id: chunk.model_dump(exclude=history) for chunk in stored}
    return Found(chunks, state, violations(stored, state, summary))


def held(state: IngestionState) -> dict[str, list[str]]:
    return {file: record.chunk_ids for file, record in state.records.items()}
