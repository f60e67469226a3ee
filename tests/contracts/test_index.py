"""What every index must do, whichever engine is behind it."""

import asyncio
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest
from qdrant_client import AsyncQdrantClient, models

from rag.embedding import Vector
from rag.errors import IndexingError
from rag.index import Candidate, Index, StateRecords, StoredChunk
from rag.index.edge import EdgeIndex
from rag.index.payload import CHUNK_INDEXES
from rag.index.server import ServerIndex
from rag.types import (
    CourseSummary,
    DocumentChunk,
    IngestionRecord,
    SearchFilters,
    chunk_id,
    parent_id,
)
from tests.factories import make_chunk
from tests.integration.qdrant_server import QDRANT_KEY, start_qdrant
from tests.integration.slack_stand_in import wait_for

DIMENSION = 8
COURSE = SearchFilters(book_id="robotics")
BOOKS = ("robotics", "cooking", "dance")
NOWHERE = "00000000-0000-5000-8000-000000000000"


class Engine(Index, StateRecords, Protocol):
    """Every engine is both."""


@pytest.fixture(scope="module")
def edge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EdgeIndex]:
    """One for all tests, since creating its files takes half a second."""
    index = EdgeIndex.open(tmp_path_factory.mktemp("edge"), "chunks", DIMENSION)
    yield index
    index.close()


@pytest.fixture(scope="module")
def qdrant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real server."""
    with start_qdrant(tmp_path_factory.mktemp("qdrant")) as address:
        yield address


@pytest.fixture(
    params=["edge", "server in memory", pytest.param("server", marks=pytest.mark.system)]
)
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[Engine]:
    if request.param == "server in memory":
        client = AsyncQdrantClient(":memory:")
        yield await _served(client)
        await client.close()
        return
    if request.param == "edge":
        index: Engine = request.getfixturevalue("edge")
        yield index
        await _emptied(index)
        return
    async with _real_client(request.getfixturevalue("qdrant")) as client:
        index = await wait_for(lambda: _once_up(client))
        yield index
        await _emptied(index)


async def _emptied(index: Engine) -> None:
    for book in BOOKS:
        found = await index.read(filters=SearchFilters(book_id=book))
        await index.delete([item.chunk.id for item in found])
        await index.forget(book)


@asynccontextmanager
async def _real_client(address: str, key: str = QDRANT_KEY) -> AsyncGenerator[AsyncQdrantClient]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Api key is used with an insecure connection")
        client = AsyncQdrantClient(url=address, api_key=key, check_compatibility=False)
    yield client
    await client.close()


async def _once_up(client: AsyncQdrantClient) -> ServerIndex | None:
    try:
        return await _served(client)
    except IndexingError as error:
        if "cannot be reached" not in str(error):
            raise
    return None


async def _served(client: AsyncQdrantClient) -> ServerIndex:
    index = ServerIndex(client, "chunks", DIMENSION)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Payload indexes have no effect")
        await index.prepare()
    return index


def unit(*values: float) -> Vector:
    vector = np.zeros(DIMENSION, dtype=np.float32)
    vector[: len(values)] = values
    return (vector / np.linalg.norm(vector)).astype(np.float32)


NORTH = unit(1.0)
EAST = unit(0.0, 1.0)


def stored(text: str, vector: Vector = NORTH, **overrides: Any) -> StoredChunk:
    return StoredChunk(make_chunk(text, **overrides), vector)


@dataclass(frozen=True)
class Hit:
    """What a search found, and what is read under its id."""

    candidate: Candidate
    chunk: DocumentChunk
    vector: Vector

    @property
    def cosine(self) -> float:
        return self.candidate.cosine

    @property
    def bm25(self) -> float:
        return self.candidate.bm25


def texts(found: Iterable[StoredChunk | Hit]) -> list[str]:
    return [item.chunk.text for item in found]


def scattered(count: int, **overrides: Any) -> list[StoredChunk]:
    """Distinct chunks of one file with random vectors."""
    random = np.random.default_rng(7)
    return [
        stored(
            f"Passage number {n} of the file.",
            unit(*random.standard_normal(DIMENSION)),
            chunk_index=n,
            total_chunks=count,
            **overrides,
        )
        for n in range(count)
    ]


async def find(
    engine: Index, words: str = "", vector: Vector = NORTH, limit: int = 20, **filters: Any
) -> list[Hit]:
    wanted = SearchFilters.model_validate({"book_id": "robotics", **filters})
    return await hits(engine, await engine.search(vector, {words: 1.0}, wanted, limit))


async def hits(engine: Index, found: Sequence[Candidate]) -> list[Hit]:
    read = await engine.read(ids=[candidate.id for candidate in found])
    joined = [Hit(c, s.chunk, s.vector) for c, s in zip(found, read, strict=True)]
    for hit in joined:
        place = hit.chunk.metadata
        assert hit.candidate.source_file == place.source_file
        assert hit.candidate.content_hash == place.content_hash
    return joined


# --- Writing, reading, deleting ----------------------------------------------------------------


async def test_a_chunk_is_read_as_it_was_written(engine: Engine) -> None:
    chunk = make_chunk(
        "A lidar measures distance with light — « précis », 距離, 🤖.",
        section_title="Sensors",
        hardware_tier=3,
        proficiency_level="B2",
        layer="L3",
        chunk_index=1,
        total_chunks=3,
        prev_chunk_id=NOWHERE,
        next_chunk_id=NOWHERE,
        version=4,
        chapter_declared=True,
        available_from=datetime(2031, 5, 1, 8, 30, 0, 123456, tzinfo=UTC),
        assessment=True,
        embedding_model="all-MiniLM-L6-v2",
        embedded_at=datetime(2026, 1, 2, tzinfo=UTC),
        embedded_hash="abc",
    )
    vector = unit(*np.random.default_rng(1).standard_normal(DIMENSION))
    await engine.write([StoredChunk(chunk, vector)])
    (found,) = await engine.read(ids=[chunk.id])
    assert found.chunk == chunk
    assert found.vector.dtype == np.float32
    np.testing.assert_allclose(found.vector, vector, atol=1e-5)


async def test_reading_by_id_keeps_the_order_and_leaves_out_the_absent(engine: Engine) -> None:
    chunks = scattered(5)
    await engine.write(chunks)
    ids = [chunks[3].chunk.id, NOWHERE, "no uuid at all", chunks[0].chunk.id]
    found = await engine.read(ids=ids)
    assert [item.chunk for item in found] == [chunks[3].chunk, chunks[0].chunk]


async def test_reading_by_filter_is_ordered_by_file_and_position(engine: Engine) -> None:
    second, first = scattered(4, source_file="b.md", lesson=2), scattered(3, source_file="a.md")
    await engine.write([*reversed(second), *reversed(first)])
    found = await engine.read(filters=COURSE)
    assert [item.chunk for item in found] == [item.chunk for item in [*first, *second]]


async def test_reading_goes_on_past_one_page(engine: Engine) -> None:
    chunks = scattered(1_203)
    await engine.write(chunks)
    found = await engine.read(filters=COURSE)
    assert [item.chunk.id for item in found] == [item.chunk.id for item in chunks]
    everything = await engine.read(ids=[item.chunk.id for item in chunks])
    assert len(everything) == 1_203


async def test_reading_does_not_hide_what_is_not_yet_available(engine: Engine) -> None:
    later = stored("Solutions of the exam.", available_from=datetime(2999, 1, 1, tzinfo=UTC))
    await engine.write([later])
    assert await engine.read(filters=COURSE)
    assert await engine.read(ids=[later.chunk.id])


async def test_a_read_without_ids_or_filters_is_a_mistake(engine: Engine) -> None:
    with pytest.raises(ValueError, match="ids or filters"):
        await engine.read()


async def test_rewriting_a_chunk_replaces_it(engine: Engine) -> None:
    first = stored("Actions report progress.", NORTH, version=1)
    again = stored("Actions report progress.", EAST, version=2, breadcrumb="Actions › Zebra")
    assert again.chunk.id == first.chunk.id
    await engine.write([first])
    await engine.write([again])
    (found,) = await engine.read(filters=COURSE)
    assert found.chunk == again.chunk
    np.testing.assert_allclose(found.vector, EAST, atol=1e-5)
    (candidate,) = await find(engine, "zebra")
    assert candidate.bm25 > 0


async def test_deleted_chunks_are_gone(engine: Engine) -> None:
    chunks = scattered(6)
    await engine.write(chunks)
    await engine.delete([chunks[1].chunk.id, chunks[4].chunk.id, NOWHERE, "no uuid at all"])
    left = await engine.read(filters=COURSE)
    assert [item.chunk.metadata.chunk_index for item in left] == [0, 2, 3, 5]
    assert {c.chunk.metadata.chunk_index for c in await find(engine, "passage")} == {0, 2, 3, 5}


async def test_nothing_to_do_is_fine(engine: Engine) -> None:
    await engine.write([])
    await engine.delete([])
    assert await engine.read(ids=[]) == []
    assert await engine.read(filters=COURSE) == []
    assert await engine.count(COURSE) == 0
    assert await find(engine, "anything") == []


@pytest.mark.parametrize("length", [0, DIMENSION - 1, DIMENSION + 1])
async def test_a_vector_of_another_dimension_is_refused(engine: Engine, length: int) -> None:
    wrong = np.ones(length, dtype=np.float32)
    with pytest.raises(IndexingError, match="8 dimensions"):
        await engine.write([stored("A chunk with a wrong vector.", wrong)])
    with pytest.raises(IndexingError, match="8 dimensions"):
        await find(engine, "words", wrong)


# --- Filters -----------------------------------------------------------------------------------

CATALOGUE: dict[str, dict[str, Any]] = {
    "intro": {"module": "ros2", "chapter": 0, "lesson": 0, "proficiency_level": "A1"},
    "nodes": {"module": "ros2", "chapter": 1, "lesson": 1, "proficiency_level": "A2"},
    "world": {"module": "gazebo", "chapter": 2, "lesson": 1, "hardware_tier": 2, "layer": "L2"},
    "train": {"module": "isaac", "chapter": 5, "lesson": 3, "hardware_tier": 4, "layer": "L2"},
    "speak": {"module": "vla", "chapter": 7, "lesson": 3, "hardware_tier": 3, "layer": "L4"}
    | {"proficiency_level": "C1"},
}
NODES_LESSON = parent_id("robotics", "ros2", 1, 1)
FILTER_CASES: list[tuple[dict[str, Any], str]] = [
    ({}, "intro nodes world train speak"),
    ({"module_filter": "ros2"}, "intro nodes"),
    ({"module_filter": "unknown"}, ""),
    ({"chapter_min": 2}, "world train speak"),
    ({"chapter_max": 2}, "intro nodes world"),
    ({"chapter_max": 0}, "intro"),
    ({"chapter_min": 2, "chapter_max": 5}, "world train"),
    ({"chapter_min": 5, "chapter_max": 5}, "train"),
    ({"lesson_filter": 3}, "train speak"),
    ({"lesson_filter": 0}, "intro"),
    ({"proficiency_levels": ["A1"]}, "intro"),
    ({"proficiency_levels": ["A1", "C1"]}, "intro speak"),
    ({"proficiency_levels": []}, "intro nodes world train speak"),
    ({"layer_filter": "L2"}, "world train"),
    ({"hardware_tier_filter": 1}, "intro nodes"),
    ({"hardware_tier_filter": 3}, "intro nodes world speak"),
    ({"parent_doc_id": NODES_LESSON}, "nodes"),
    ({"parent_doc_id": NOWHERE}, ""),
    ({"layer_filter": "L2", "hardware_tier_filter": 2}, "world"),
    ({"module_filter": "ros2", "chapter_min": 1, "lesson_filter": 1}, "nodes"),
    ({"module_filter": "ros2", "layer_filter": "L4"}, ""),
    (
        {
            "hardware_tier_filter": 3,
            "module_filter": "vla",
            "chapter_min": 6,
            "chapter_max": 8,
            "lesson_filter": 3,
            "proficiency_levels": ["B1", "C1"],
            "layer_filter": "L4",
        },
        "speak",
    ),
]


@pytest.mark.parametrize(("filters", "expected"), FILTER_CASES)
async def test_filters(engine: Engine, filters: dict[str, Any], expected: str) -> None:
    """Search (by meaning and by words), count and read agree on what a filter lets through."""
    await engine.write(
        [stored(f"Section {name} here.", source_file=name, **f) for name, f in CATALOGUE.items()]
    )
    wanted = SearchFilters(book_id="robotics", **filters)
    found = await engine.search(NORTH, {"section": 1.0}, wanted, 10)
    names = {candidate.source_file for candidate in found}
    assert names == set(expected.split())
    assert await engine.count(wanted) == len(names)
    assert {s.chunk.metadata.source_file for s in await engine.read(filters=wanted)} == names


async def test_hardware_tier_instance_of_the_specification(engine: Engine) -> None:
    tiers = [1, 1, 2, 3, 1]
    await engine.write(
        [stored(f"Lesson text {n}.", chunk_index=n, hardware_tier=t) for n, t in enumerate(tiers)]
    )
    found = await engine.read(filters=SearchFilters(book_id="robotics", hardware_tier_filter=2))
    assert [item.chunk.metadata.hardware_tier for item in found] == [1, 1, 2, 1]
    assert len(await find(engine, hardware_tier_filter=2)) == 4


async def test_three_lessons_instance_of_the_specification(engine: Engine) -> None:
    lessons = {lesson: _lesson(lesson, size) for lesson, size in {1: 5, 2: 3, 3: 1}.items()}
    await engine.write([item for lesson in lessons.values() for item in reversed(lesson)])
    for lesson, chunks in lessons.items():
        parent = parent_id("robotics", "ros2", 1, lesson)
        found = await engine.read(filters=SearchFilters(book_id="robotics", parent_doc_id=parent))
        assert [item.chunk for item in found] == [item.chunk for item in chunks]


def _lesson(lesson: int, size: int) -> list[StoredChunk]:
    ids = [chunk_id("robotics", "ros2", 1, lesson, f"{n:064}"[::-1]) for n in range(size)]
    return [
        stored(
            f"Chunk {n} of lesson {lesson}.",
            id=ids[n],
            lesson=lesson,
            source_file=f"{lesson}.md",
            chunk_index=n,
            total_chunks=size,
            prev_chunk_id=ids[n - 1] if n else None,
            next_chunk_id=ids[n + 1] if n + 1 < size else None,
        )
        for n in range(size)
    ]


async def test_a_search_hides_what_is_not_yet_available(engine: Engine) -> None:
    now = datetime.now(UTC)
    await engine.write(
        [
            stored("Solutions without a date."),
            stored("Solutions since yesterday.", available_from=now - timedelta(days=1)),
            stored("Solutions from tomorrow.", available_from=now + timedelta(days=1)),
        ]
    )
    found = texts(await find(engine, "solutions tomorrow"))
    assert sorted(found) == ["Solutions since yesterday.", "Solutions without a date."]
    assert await engine.count(COURSE) == 2


async def test_a_chunk_appears_when_its_moment_comes(engine: Engine) -> None:
    soon = datetime.now(UTC) + timedelta(milliseconds=300)
    await engine.write([stored("Released during the lecture.", available_from=soon)])
    assert await find(engine, "lecture") == []
    await asyncio.sleep(0.4)
    assert texts(await find(engine, "lecture")) == ["Released during the lecture."]


# --- Scores ------------------------------------------------------------------------------------


async def test_the_nearest_come_first_by_cosine(engine: Engine) -> None:
    chunks = scattered(40)
    await engine.write(chunks)
    found = await find(engine, "", limit=5)
    exact = sorted((float(c.vector @ NORTH) for c in chunks), reverse=True)[:5]
    assert sorted((c.cosine for c in found), reverse=True) == pytest.approx(exact, abs=1e-5)
    assert {c.bm25 for c in found} == {0.0}


async def test_a_hit_by_words_alone_has_its_true_cosine(engine: Engine) -> None:
    slanted = unit(-0.6, 0.8)
    near = [stored(f"Nothing but filler {n}.", NORTH, chunk_index=n) for n in range(3)]
    await engine.write([*near, stored("The gripper holds a cup.", slanted)])
    found = await find(engine, "gripper", limit=2)
    assert len(found) == 3
    (hit,) = [c for c in found if c.bm25 > 0]
    assert hit.cosine == pytest.approx(-0.6, abs=1e-5)
    np.testing.assert_allclose(hit.vector, slanted, atol=1e-5)


async def test_a_hit_by_meaning_alone_has_its_true_bm25(engine: Engine) -> None:
    """It shares a word with the question but three others are better by BM25."""
    twice = [stored(f"Torque, torque {n}.", EAST, chunk_index=n) for n in range(3)]
    near = stored("Torque is named once in this much longer sentence about motors.", NORTH)
    await engine.write([*twice, near])
    by_text = {c.chunk.text: c for c in await find(engine, "torque", limit=3)}
    assert set(by_text) == {near.chunk.text, *texts(twice)}
    everything = {c.chunk.text: c.bm25 for c in await find(engine, "torque", limit=10)}
    assert by_text[near.chunk.text].bm25 == pytest.approx(everything[near.chunk.text])
    assert 0 < by_text[near.chunk.text].bm25 < min(by_text[text].bm25 for text in texts(twice))


async def test_a_term_that_only_one_chunk_has_ranks_it_first(engine: Engine) -> None:
    chunks = [stored(f"A robot arm moves joint {n}.", chunk_index=n) for n in range(10)]
    await engine.write([*chunks, stored("A robot arm has a quaternion.", EAST)])
    found = await find(engine, "robot quaternion")
    assert max(found, key=lambda c: c.bm25).chunk.text == "A robot arm has a quaternion."


async def test_headings_count_for_bm25(engine: Engine) -> None:
    chunk = stored("It publishes at ten hertz.", breadcrumb="Odometry › Rates")
    await engine.write([chunk, stored("It waits for a reply.", EAST)])
    found = {c.chunk.text: c.bm25 for c in await find(engine, "odometry")}
    assert found["It publishes at ten hertz."] > 0 == found["It waits for a reply."]


async def test_the_weight_of_terms_counts(engine: Engine) -> None:
    await engine.write([stored("All about wheels."), stored("All about cameras.")])
    asked = {"wheels": 1.0, "cameras": 0.3}
    by_words = await hits(engine, await engine.search(NORTH, asked, COURSE, 5))
    found = {hit.chunk.text: hit.bm25 for hit in by_words}
    assert found["All about cameras."] == pytest.approx(0.3 * found["All about wheels."], rel=1e-4)


@pytest.mark.parametrize(
    "words",
    ["", "   ", "🙂🤖🙂", "the of and", "\x00\x01\x1b[31m", "\ud800", "?!…", "​‮"],
    ids=repr,
)
async def test_text_without_an_indexed_word_is_searched_by_meaning(
    engine: Engine, words: str
) -> None:
    await engine.write([stored("A chunk to be found.")])
    (found,) = await find(engine, words)
    assert (found.cosine, found.bm25) == (pytest.approx(1.0, abs=1e-5), 0.0)


async def test_no_terms_at_all_is_a_search_by_meaning(engine: Engine) -> None:
    await engine.write([stored("A chunk to be found.")])
    found = await hits(engine, await engine.search(NORTH, {}, COURSE, 3))
    assert texts(found) == ["A chunk to be found."]


async def test_a_chunk_without_an_indexed_word_is_found_by_meaning(engine: Engine) -> None:
    await engine.write([stored("🙂🙂🙂🙂🙂🙂🙂🙂🙂🙂", breadcrumb="")])
    (found,) = await find(engine, "smile")
    assert found.bm25 == 0.0


async def test_a_query_vector_need_not_be_of_unit_length(engine: Engine) -> None:
    await engine.write([stored("A chunk to be found.", unit(3.0, 4.0))])
    (found,) = await find(engine, vector=7 * NORTH)
    assert found.cosine == pytest.approx(0.6, abs=1e-5)
    (found,) = await find(engine, vector=0 * NORTH)
    assert found.cosine == 0.0


# --- Courses side by side ----------------------------------------------------------------------


async def test_courses_never_mix(engine: Engine) -> None:
    ours = scattered(5)
    theirs = scattered(4, book_id="cooking")
    await engine.write([*ours, *theirs])
    assert _books(await find(engine, "passage")) == {"robotics"}
    assert _books(await find(engine, "passage", book_id="cooking")) == {"cooking"}
    assert await find(engine, "passage", book_id="robot") == []
    assert await engine.count(SearchFilters(book_id="cooking")) == 4
    assert len(await engine.read(filters=COURSE)) == 5


def _books(found: Sequence[Hit]) -> set[str]:
    return {hit.chunk.metadata.book_id for hit in found}


@pytest.mark.parametrize(
    "engine",
    ["edge", "server in memory"],  # a server can do it from version 1.19 on; the real one is older
    indirect=True,
)
async def test_another_course_does_not_change_how_rare_a_word_is(engine: Engine) -> None:
    await engine.write([stored("The kinematics of an arm."), stored("An arm of steel.")])
    (before,) = [c for c in await find(engine, "kinematics") if c.bm25]
    await engine.write(
        [stored(f"More kinematics {n}.", book_id="dance", chunk_index=n) for n in range(30)]
    )
    (after,) = [c for c in await find(engine, "kinematics") if c.bm25]
    assert after.bm25 == pytest.approx(before.bm25, rel=1e-4)


async def test_searches_go_on_during_writes(engine: Engine) -> None:
    chunks = scattered(300)
    await engine.write(chunks[:50])

    async def write() -> None:
        for start in range(50, 300, 50):
            await engine.write(chunks[start : start + 50])
            await engine.delete([chunks[start].chunk.id])

    async def search() -> None:
        for _ in range(5):
            assert len(await find(engine, "passage", limit=10)) >= 10

    await asyncio.gather(write(), *(search() for _ in range(6)), write())
    assert await engine.count(COURSE) == 295


# --- Records of what is indexed ----------------------------------------------------------------

MORNING = datetime(2026, 9, 1, 8, tzinfo=UTC)


def record(source_file: str, **overrides: Any) -> IngestionRecord:
    fields: dict[str, Any] = {
        "source_file": source_file,
        "file_hash": "f" * 64,
        "chunk_ids": [NOWHERE],
        "ingested_at": MORNING,
        "book_id": "robotics",
        "module": "ros2",
        "chapter": 1,
        "lesson": 2,
    }
    return IngestionRecord(**fields | overrides)


def summary(book_id: str = "robotics", **overrides: Any) -> CourseSummary:
    return CourseSummary(book_id=book_id, title=f"All of {book_id}", **overrides)


async def test_an_unknown_course_has_an_empty_state(engine: Engine) -> None:
    state = await engine.load("robotics")
    assert (state.book_id, state.collection_name, state.records) == ("robotics", "chunks", {})
    assert state.last_full_ingest is None
    assert await engine.courses() == []


async def test_state_is_loaded_as_it_was_saved(engine: Engine) -> None:
    records = [record("b.md", chunk_ids=["x", "y"]), record("a.md", module="vla", chapter=9)]
    for entry in records:
        await engine.save(entry)
    await engine.save(summary(last_full_ingest=MORNING, last_incremental_update=MORNING))
    state = await engine.load("robotics")
    assert list(state.records) == ["a.md", "b.md"]
    assert state.records == {entry.source_file: entry for entry in records}
    assert (state.last_full_ingest, state.last_incremental_update) == (MORNING, MORNING)
    assert state.total_chunks == 3


async def test_saving_again_replaces(engine: Engine) -> None:
    await engine.save(record("a.md", file_hash="old"))
    await engine.save(record("a.md", file_hash="new"))
    await engine.save(summary(total_chunks=1))
    await engine.save(summary(total_chunks=2))
    assert (await engine.load("robotics")).records["a.md"].file_hash == "new"
    assert [course.total_chunks for course in await engine.courses()] == [2]


async def test_courses_are_listed_with_all_their_figures(engine: Engine) -> None:
    profile = {"mean": 0.1 + 0.2, "words": {"12": 3, "7": 1}, "list": [1, 2.5, None, True, "é"]}
    robotics = summary(total_chunks=12, last_full_ingest=MORNING, profile=profile)
    await engine.save(robotics)
    await engine.save(summary("cooking"))
    await engine.save(record("a.md"))
    assert await engine.courses() == [summary("cooking"), robotics]


async def test_forgetting_one_file(engine: Engine) -> None:
    for entry in (record("a.md"), record("b.md"), summary()):
        await engine.save(entry)
    await engine.forget("robotics", "a.md")
    await engine.forget("robotics", "never seen.md")
    assert list((await engine.load("robotics")).records) == ["b.md"]
    assert await engine.courses() == [summary()]


async def test_forgetting_a_course_leaves_the_others(engine: Engine) -> None:
    for book in ("robotics", "cooking"):
        await engine.save(record("a.md", book_id=book))
        await engine.save(summary(book))
    await engine.forget("robotics")
    assert (await engine.load("robotics")).records == {}
    assert list((await engine.load("cooking")).records) == ["a.md"]
    assert await engine.courses() == [summary("cooking")]


async def test_records_of_more_files_than_one_page(engine: Engine) -> None:
    await asyncio.gather(*(engine.save(record(f"{n:04}.md")) for n in range(1_100)))
    assert len((await engine.load("robotics")).records) == 1_100


async def test_chunks_of_a_course_may_share_a_text(engine: Engine) -> None:
    """The same passage in two lessons is two chunks."""
    chunks: list[DocumentChunk] = [make_chunk("The same words.", lesson=n) for n in (1, 2)]
    await engine.write([StoredChunk(chunk, NORTH) for chunk in chunks])
    assert await engine.count(COURSE) == 2


# --- Only a real server can show it -------------------------------------------------------------


@pytest.mark.system
@pytest.mark.parametrize("engine", ["server"], indirect=True)
async def test_a_real_server_has_every_index_and_knows_the_tenants(
    engine: Engine, qdrant: str
) -> None:
    async with _real_client(qdrant) as client:
        described = await client.get_collection("chunks")
        schema = described.payload_schema
        vectors = described.config.params
    assert schema.keys() == CHUNK_INDEXES.keys()
    assert schema["book_id"].params == models.KeywordIndexParams(
        type=models.KeywordIndexType.KEYWORD, is_tenant=True
    )
    assert isinstance(vectors.vectors, dict)
    assert vectors.vectors.keys() == {"dense"}
    assert vectors.sparse_vectors
    assert vectors.sparse_vectors["bm25"].modifier == models.Modifier.IDF


@pytest.mark.system
@pytest.mark.parametrize("engine", ["server"], indirect=True)
async def test_a_real_server_rejects_a_wrong_key(engine: Engine, qdrant: str) -> None:
    async with _real_client(qdrant, "wrong") as client:
        with pytest.raises(IndexingError, match=rf"^Qdrant at {qdrant} rejected the API key\.$"):
            await _served(client)


@pytest.mark.system
async def test_a_real_server_that_dies_and_returns(tmp_path: Path) -> None:
    """A write that meets the outage is told so or waits it out; what was written is still there."""
    with start_qdrant(tmp_path) as address:
        async with _real_client(address) as client:
            await (await wait_for(lambda: _once_up(client))).write(scattered(300))
    async with _real_client(address) as client:
        with pytest.raises(IndexingError, match="cannot be reached"):
            await ServerIndex(client, "chunks", DIMENSION).count(COURSE)
    with start_qdrant(tmp_path) as address:
        async with _real_client(address) as client:
            index = await wait_for(lambda: _once_up(client))
            assert await index.count(COURSE) == 300
