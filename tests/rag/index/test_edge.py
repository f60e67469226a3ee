"""What only the embedded index has: files, a lock, and a process that may die."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from rag.embedding import Vector
from rag.errors import IndexingError
from rag.index import ForeignCourse, StoredChunk
from rag.index.edge import EdgeIndex
from rag.types import CourseSummary, SearchFilters
from tests.factories import make_chunk

COURSE = SearchFilters(book_id="robotics")
DIMENSION = 4
ANY = np.full(DIMENSION, 0.5, dtype=np.float32)

WRITER = """
import asyncio, sys, time
from pathlib import Path
from rag.index.edge import EdgeIndex
from rag.types import CourseSummary
from tests.rag.index.test_edge import numbered

async def main():
    index = EdgeIndex.open(Path(sys.argv[1]), "chunks", 4)
    await index.write(numbered(200))
    await index.delete([numbered(1)[0].chunk.id])
    await index.save(CourseSummary(book_id="robotics", title="Robots"))
    print("written", flush=True)
    time.sleep(60)

asyncio.run(main())
"""


def numbered(count: int) -> list[StoredChunk]:
    vector: Vector = np.full(DIMENSION, 0.5, dtype=np.float32)
    return [
        StoredChunk(make_chunk(f"Passage number {n}.", chunk_index=n), vector) for n in range(count)
    ]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[EdgeIndex]:
    opened = EdgeIndex.open(tmp_path / "not" / "yet" / "there", "chunks", DIMENSION)
    yield opened
    opened.close()


async def test_data_survives_closing(tmp_path: Path) -> None:
    index = EdgeIndex.open(tmp_path, "chunks", DIMENSION)
    await index.write(numbered(20))
    await index.save(CourseSummary(book_id="robotics", title="Robots"))
    index.close()
    index = EdgeIndex.open(tmp_path, "chunks", DIMENSION)
    found = await index.read(filters=COURSE)
    assert [item.chunk.text for item in found] == [item.chunk.text for item in numbered(20)]
    assert [c.bm25 > 0 for c in await index.search(ANY, {"passage": 1.0}, COURSE, 5)] == [True] * 5
    assert [course.title for course in await index.courses()] == ["Robots"]
    index.close()


async def test_what_was_written_survives_a_killed_process(tmp_path: Path) -> None:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WRITER, str(tmp_path), stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    assert await child.stdout.readline() == b"written\n"
    child.kill()
    assert await child.wait() == -signal.SIGKILL
    index = EdgeIndex.open(tmp_path, "chunks", DIMENSION)
    assert await index.count(COURSE) == 199
    assert [course.title for course in await index.courses()] == ["Robots"]
    index.close()


async def test_another_dimension_is_a_clear_error(tmp_path: Path) -> None:
    EdgeIndex.open(tmp_path, "chunks", DIMENSION).close()
    with pytest.raises(IndexingError, match="another dimension than the 5 of this embedding model"):
        EdgeIndex.open(tmp_path, "chunks", 5)
    EdgeIndex.open(tmp_path, "chunks", DIMENSION).close()


async def test_a_folder_in_use_is_a_clear_error(index: EdgeIndex, tmp_path: Path) -> None:
    with pytest.raises(IndexingError, match="in use by another process"):
        EdgeIndex.open(tmp_path / "not" / "yet" / "there", "chunks", DIMENSION)
    assert await index.count(COURSE) == 0


async def test_nothing_is_written_to_a_disk_that_is_nearly_full(index: EdgeIndex) -> None:
    course = CourseSummary(book_id="robotics", title="Robots")
    await index.write(numbered(2))
    await index.save(course)
    index.needed_bytes = 10**18
    for change in (
        index.write(numbered(3)),
        index.delete([numbered(1)[0].chunk.id]),
        index.save(course.model_copy(update={"title": "Arms"})),
        index.forget("robotics"),
    ):
        with pytest.raises(IndexingError, match="The disk is full"):
            await change
    assert await index.count(COURSE) == 2
    assert await index.courses() == [course]


async def test_collections_lie_side_by_side(tmp_path: Path) -> None:
    first = EdgeIndex.open(tmp_path, "first", DIMENSION)
    second = EdgeIndex.open(tmp_path, "second", DIMENSION)
    await first.write(numbered(3))
    assert await second.count(COURSE) == 0
    first.close()
    second.close()
    assert sorted(os.listdir(tmp_path)) == ["first", "first_state", "second", "second_state"]


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(IndexingError, match="cannot be created: Not a directory"):
        EdgeIndex.open(tmp_path / "file", "chunks", DIMENSION)


@pytest.mark.parametrize("damaged", ["segment.json", "status.dat"])
def test_a_damaged_index_is_a_clear_error(tmp_path: Path, damaged: str) -> None:
    """The first makes the engine raise, the second makes it panic."""
    EdgeIndex.open(tmp_path, "chunks", DIMENSION).close()
    next((tmp_path / "chunks").rglob(damaged)).write_bytes(b"")
    with pytest.raises(IndexingError, match=f"if it is damaged, delete {tmp_path} and ingest"):
        EdgeIndex.open(tmp_path, "chunks", DIMENSION)


def test_a_creation_that_was_cut_short_is_finished(tmp_path: Path) -> None:
    (tmp_path / "chunks").mkdir()
    EdgeIndex.open(tmp_path, "chunks", DIMENSION).close()


async def test_a_closed_index_says_so(tmp_path: Path) -> None:
    index = EdgeIndex.open(tmp_path, "chunks", DIMENSION)
    index.close()
    with pytest.raises(IndexingError, match=r"index chunks cannot be read: .*shutdown"):
        await index.count(COURSE)
    with pytest.raises(IndexingError, match=r"index chunks cannot be written: .*shutdown"):
        await index.write(numbered(1))
    index.close()


async def test_an_id_that_is_no_uuid_is_a_clear_error(index: EdgeIndex) -> None:
    with pytest.raises(IndexingError, match="cannot be written: failed to parse mine as UUID"):
        await index.write([StoredChunk(make_chunk(id="mine"), ANY)])


async def test_the_event_loop_goes_on_while_the_engine_works(index: EdgeIndex) -> None:
    writing = asyncio.ensure_future(index.write(numbered(600)))
    turns = 0
    while not writing.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 10


async def test_the_log_is_cut_while_writing_goes_on(index: EdgeIndex, tmp_path: Path) -> None:
    """Without it, these 4,000 writes of 50 kB would leave a log of 200 MB."""
    long = "/read/" + 50_000 * "x"
    chunks = [StoredChunk(make_chunk(f"Passage {n}.", url=long), ANY) for n in range(500)]
    for _ in range(8):
        await index.write(chunks)
    log = tmp_path / "not" / "yet" / "there" / "chunks" / "wal"
    assert _bytes_on_disk(log) < 100_000_000
    assert await index.count(COURSE) == 500


def _bytes_on_disk(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.iterdir())


# --- What is kept in memory of every chunk --------------------------------------------------------


async def found_files(index: EdgeIndex) -> list[str]:
    found = await index.search(ANY, {"passage": 1.0}, COURSE, 5)
    return [candidate.source_file for candidate in found]


async def test_a_chunk_that_moves_to_another_file_is_found_there(index: EdgeIndex) -> None:
    for file in ("old.md", "new.md"):
        await index.write([StoredChunk(make_chunk("Passage to move.", source_file=file), ANY)])
        assert await found_files(index) == [file]


async def test_a_chunk_that_was_found_before_is_gone_once_it_is_deleted(index: EdgeIndex) -> None:
    chunk = make_chunk("Passage to delete.", source_file="a.md")
    await index.write([StoredChunk(chunk, ANY)])
    assert await found_files(index) == ["a.md"]
    await index.delete([chunk.id])
    assert await found_files(index) == []


async def test_a_second_course_is_kept_apart_from_the_first_moment(index: EdgeIndex) -> None:
    ours = make_chunk("Passage of ours.", source_file="ours.md")
    await index.write([StoredChunk(ours, ANY)])
    (alone,) = await index.search(ANY, {"passage": 1.0}, COURSE, 5)
    elsewhere = SearchFilters(book_id="cooking")
    assert await index.search(ANY, {"passage": 1.0}, elsewhere, 5) == []
    theirs = make_chunk("Passage of theirs.", source_file="theirs.md", book_id="cooking")
    await index.write([StoredChunk(theirs, ANY)])
    assert await index.search(ANY, {"passage": 1.0}, COURSE, 5) == [alone]
    (other,) = await index.search(ANY, {"passage": 1.0}, elsewhere, 5)
    assert other.source_file == "theirs.md"


async def test_what_lay_there_before_is_known_after_opening(tmp_path: Path) -> None:
    first = EdgeIndex.open(tmp_path, "chunks", DIMENSION)
    await first.write([StoredChunk(make_chunk("Passage to find.", source_file="a.md"), ANY)])
    first.close()
    again = EdgeIndex.open(tmp_path, "chunks", DIMENSION)
    assert await found_files(again) == ["a.md"]
    again.close()


async def test_courses_of_other_models_lie_beside_ours(tmp_path: Path) -> None:
    for name, size in (("books__embed-v4-0__5", 5), ("notes__minilm__4", 4)):
        other = EdgeIndex.open(tmp_path, name, size)
        await other.save(
            CourseSummary(book_id="robotics", title="Robots", embedding_model="embed-v4.0")
        )
        other.close()
    (tmp_path / "books__broken__7_state").mkdir()
    (tmp_path / "books__broken__7_state" / "edge_config.json").write_text("{ damaged")
    ours = EdgeIndex.open(tmp_path, "books__minilm__4", DIMENSION)
    assert await ours.foreign_courses() == [ForeignCourse("robotics", "embed-v4.0", 5)]
    assert await ours.courses() == []
    ours.close()
