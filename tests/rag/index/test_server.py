"""What only the served index has: a network, and a server with a will of its own."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import numpy as np
import pytest
from qdrant_client import AsyncQdrantClient, models

from rag.errors import IndexingError
from rag.index import ForeignCourse, StoredChunk
from rag.index.payload import CHUNK_INDEXES
from rag.index.requests import FOR_READING, FOR_WRITING, WRITES_AT_ONCE
from rag.index.server import WRITE_BATCH, ServerIndex
from rag.types import CourseSummary, SearchFilters
from tests.factories import make_chunk

ADDRESS = "http://127.0.0.1:1"
QDRANT = f"Qdrant at {ADDRESS}"
COURSE = SearchFilters(book_id="robotics")
ANY = np.full(4, 0.5, dtype=np.float32)
pytestmark = [
    pytest.mark.filterwarnings("ignore:Payload indexes have no effect"),
    pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection"),
]


@pytest.fixture
async def local() -> AsyncIterator[AsyncQdrantClient]:
    client = AsyncQdrantClient(":memory:")
    yield client
    await client.close()


class Clock:
    """Sleeps without taking time, and remembers for how long."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def answering(
    handler: Callable[[httpx.Request], httpx.Response], clock: Clock | None = None
) -> ServerIndex:
    """An index whose server is a function."""
    client = AsyncQdrantClient(
        url=ADDRESS,
        api_key="secret",
        check_compatibility=False,
        transport=httpx.MockTransport(handler),
    )
    return ServerIndex(client, "chunks", 4, (clock or Clock()).sleep)


def ok(result: Any) -> httpx.Response:
    return httpx.Response(200, json={"result": result, "status": "ok", "time": 0.0})


# --- Preparing ---------------------------------------------------------------------------------


async def test_preparing_twice_keeps_what_is_there(local: AsyncQdrantClient) -> None:
    index = ServerIndex(local, "chunks", 4)
    await index.prepare()
    point = models.PointStruct(id=1, vector={"dense": [1.0, 0, 0, 0]}, payload={"book_id": "x"})
    await local.upsert("chunks", [point])
    await index.prepare()
    assert await index.count(SearchFilters(book_id="x")) == 1
    names = {collection.name for collection in (await local.get_collections()).collections}
    assert names == {"chunks", "chunks_state"}


async def test_another_dimension_is_a_clear_error(local: AsyncQdrantClient) -> None:
    await ServerIndex(local, "chunks", 4).prepare()
    with pytest.raises(IndexingError, match=r"vectors of 4 dimensions and .* model makes 5"):
        await ServerIndex(local, "chunks", 5).prepare()


async def test_a_collection_of_someone_else_is_a_clear_error(local: AsyncQdrantClient) -> None:
    vectors = models.VectorParams(size=4, distance=models.Distance.COSINE)
    await local.create_collection("chunks", vectors_config=vectors)
    with pytest.raises(IndexingError, match="was not made by Footnote"):
        await ServerIndex(local, "chunks", 4).prepare()


class FreshServer:
    """A server without collections, on which another worker is always a little faster."""

    def __init__(self, version: str = "1.19.0", courses: int = 0) -> None:
        self.version = version
        self.courses = [CourseSummary(book_id=f"book-{n}", title="A book") for n in range(courses)]
        self.indexed: dict[str, dict[str, Any]] = {"chunks": {}, "chunks_state": {}}
        self.created: dict[str, Any] = {}

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/":
            title = "qdrant - vector search engine"
            return httpx.Response(200, json={"title": title, "version": self.version})
        _, _, name, *action = request.url.path.split("/")
        if action == ["points", "scroll"]:
            points = [
                {"id": n, "payload": {**course.model_dump(mode="json"), "kind": "course"}}
                for n, course in enumerate(self.courses)
            ]
            return ok({"points": points, "next_page_offset": None})
        if action == ["exists"]:
            return ok({"exists": False})
        if request.method == "GET":
            return ok(self._description())
        body = json.loads(request.content)
        if action == ["index"]:
            self.indexed[name][body["field_name"]] = body["field_schema"]
            return ok({"operation_id": 1, "status": "completed"})
        self.created[name] = body
        return httpx.Response(409, json={"status": {"error": "already exists"}})

    def _description(self) -> dict[str, Any]:
        optimizer = {"deleted_threshold": 0.2, "vacuum_min_vector_number": 1000}
        optimizer |= {"default_segment_number": 0, "flush_interval_sec": 5}
        params = {
            "vectors": {"dense": {"size": 4, "distance": "Cosine"}},
            "sparse_vectors": {"bm25": {"modifier": "idf"}},
        }
        hnsw = {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000}
        config = {"params": params, "hnsw_config": hnsw, "optimizer_config": optimizer}
        return {
            "status": "green",
            "optimizer_status": "ok",
            "segments_count": 1,
            "config": config,
            "payload_schema": {"module": {"data_type": "keyword", "points": 0}},
        }


async def test_a_fresh_server_gets_collections_and_the_missing_indexes() -> None:
    server = FreshServer()
    await answering(server).prepare()
    assert server.created["chunks"]["vectors"] == {"dense": {"size": 4, "distance": "Cosine"}}
    assert server.created["chunks"]["sparse_vectors"] == {"bm25": {"modifier": "idf"}}
    assert server.indexed["chunks"].keys() == CHUNK_INDEXES.keys() - {"module"}
    assert server.indexed["chunks"]["book_id"] == {"type": "keyword", "is_tenant": True}
    assert server.indexed["chunks"]["available_from"] == "datetime"
    assert server.indexed["chunks_state"].keys() == {"book_id", "kind"}


@pytest.mark.parametrize("version", ["1.10.1", "1.9.0", "0.11.7"])
async def test_a_server_that_is_too_old_is_a_clear_error(version: str) -> None:
    server = FreshServer(version)
    with pytest.raises(IndexingError) as caught:
        await answering(server).prepare()
    assert str(caught.value) == f"{QDRANT} is version {version}; Footnote needs 1.11 or newer."
    assert server.created == {}


@pytest.mark.parametrize(
    ("version", "courses", "warned"),
    [("1.16.3", 2, True), ("1.16.3", 1, False), ("1.19.0", 2, False), ("dev", 2, False)],
)
async def test_a_server_that_mixes_the_courses_words_is_reported(
    version: str, courses: int, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        await answering(FreshServer(version, courses)).prepare()
    assert ("weighs the words of all courses together" in caplog.text) == warned


async def test_courses_of_other_models_lie_beside_ours(local: AsyncQdrantClient) -> None:
    ours = ServerIndex(local, "textbook__minilm__4", 4)
    theirs = ServerIndex(local, "textbook__embed-v4-0__5", 5)
    unrelated = ServerIndex(local, "notebook__minilm__4", 4)
    for index in (ours, theirs, unrelated):
        await index.prepare()
        name = "robotics" if index is theirs else "cooking"
        await index.save(CourseSummary(book_id=name, title=name, embedding_model="embed-v4.0"))
    assert await ours.foreign_courses() == [ForeignCourse("robotics", "embed-v4.0", 5)]


# --- Patience ----------------------------------------------------------------------------------


class Flaky:
    """Fails as it is told, one failure a request, then applies everything."""

    def __init__(self, *failures: httpx.Response | Exception) -> None:
        self.failures = list(failures)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if not self.failures:
            counted = request.url.path.endswith("count")
            return ok({"count": 7} if counted else {"operation_id": 1, "status": "completed"})
        failure = self.failures.pop(0)
        if isinstance(failure, Exception):
            raise failure
        return failure

    @property
    def written(self) -> list[int]:
        return [len(json.loads(request.content)["points"]) for request in self.requests]


def chunks(count: int) -> list[StoredChunk]:
    return [StoredChunk(make_chunk(f"Passage {n}."), ANY) for n in range(count)]


PASSING: list[httpx.Response | Exception] = [
    httpx.Response(500),
    httpx.Response(503),
    httpx.Response(429),
    httpx.Response(429, headers={"Retry-After": "1"}),
    httpx.ConnectError("refused"),
    httpx.ReadTimeout("slow"),
    httpx.RemoteProtocolError("gone"),
    ok({"operation_id": 1, "status": "wait_timeout"}),
    ok({"operation_id": 1, "status": "acknowledged"}),
]


@pytest.mark.parametrize("failure", PASSING, ids=repr)
async def test_a_passing_failure_is_waited_out(failure: httpx.Response | Exception) -> None:
    server, clock = Flaky(failure, failure), Clock()
    await answering(server, clock).write(chunks(3))
    assert server.written == [3, 3, 3]
    assert len(clock.slept) == 2


async def test_a_busy_server_is_given_the_time_it_asks_for() -> None:
    clock = Clock()
    server = Flaky(httpx.Response(429, headers={"Retry-After": "17"}))
    await answering(server, clock).write(chunks(1))
    assert clock.slept == [17.0]


async def test_a_search_does_not_wait_as_long_as_a_write() -> None:
    server = Flaky(*(httpx.Response(503) for _ in range(10)))
    with pytest.raises(IndexingError, match="503"):
        await answering(server).count(COURSE)
    assert len(server.requests) == FOR_READING.attempts < FOR_WRITING.attempts
    impatient = Flaky(httpx.Response(429, headers={"Retry-After": "17"}))
    with pytest.raises(IndexingError, match="overloaded"):
        await answering(impatient).count(COURSE)


async def test_only_the_batch_that_failed_is_sent_again() -> None:
    server = Flaky()
    index = answering(server)
    await index.write(chunks(WRITE_BATCH))
    server.failures.append(httpx.Response(502))
    await index.write(chunks(WRITE_BATCH + 1))
    assert server.written == [WRITE_BATCH, WRITE_BATCH, WRITE_BATCH, 1]


async def test_what_was_not_applied_does_not_count_as_written() -> None:
    unfinished = {"operation_id": 1, "status": "wait_timeout"}
    server = Flaky(*(ok(unfinished) for _ in range(10)))
    with pytest.raises(IndexingError) as caught:
        await answering(server).save(CourseSummary(book_id="robotics", title="Robotics"))
    assert str(caught.value) == f"{QDRANT} did not finish writing in time."
    assert len(server.requests) == FOR_WRITING.attempts


@pytest.mark.parametrize("status", [400, 401, 404])
async def test_a_refusal_is_not_repeated(status: int) -> None:
    server, clock = Flaky(httpx.Response(status)), Clock()
    with pytest.raises(IndexingError):
        await answering(server, clock).write(chunks(1))
    assert (len(server.requests), clock.slept) == (1, [])


async def test_the_key_is_sent() -> None:
    server = Flaky()
    await answering(server).count(COURSE)
    assert server.requests[0].headers["api-key"] == "secret"


async def test_a_slow_server_is_a_clear_error() -> None:
    server = Flaky(*(httpx.ReadTimeout("slow") for _ in range(10)))
    with pytest.raises(IndexingError) as caught:
        await answering(server).write(chunks(1))
    more = "FOOTNOTE_QDRANT_TIMEOUT_SECONDS gives it more."
    assert str(caught.value) == f"{QDRANT} did not answer in time; {more}"


# --- Failures ----------------------------------------------------------------------------------


async def test_an_unreachable_server_is_a_clear_error() -> None:
    client = AsyncQdrantClient(url=ADDRESS, check_compatibility=False)
    index = ServerIndex(client, "chunks", 4, Clock().sleep)
    expected = f"{QDRANT} cannot be reached. Is it running?"
    for attempt in (
        index.prepare(),
        index.search(ANY, {"robot": 1.0}, COURSE, 5),
        index.read(filters=COURSE),
        index.count(COURSE),
        index.courses(),
        index.forget("robotics"),
    ):
        with pytest.raises(IndexingError) as caught:
            await attempt
        assert str(caught.value) == expected


@pytest.mark.parametrize(
    ("response", "sentence"),
    [
        (httpx.Response(401), f"{QDRANT} rejected the API key."),
        (httpx.Response(403), f"{QDRANT} rejected the API key."),
        (httpx.Response(404), f"{QDRANT} refused a request with status 404 Not Found."),
        (httpx.Response(500), f"{QDRANT} refused a request with status 500 Internal Server Error."),
        (
            httpx.Response(429, headers={"Retry-After": "3"}),
            f"{QDRANT} is overloaded; try again later.",
        ),
        (httpx.Response(200, text="<html>"), f"What answers as {QDRANT} is not Qdrant."),
        (httpx.Response(200, json={"hello": 1}), f"What answers as {QDRANT} is not Qdrant."),
    ],
    ids=lambda value: str(getattr(value, "status_code", "")),
)
async def test_a_refusal_is_a_clear_error(response: httpx.Response, sentence: str) -> None:
    index = answering(lambda request: response)
    with pytest.raises(IndexingError) as caught:
        await index.count(COURSE)
    assert str(caught.value) == sentence


async def test_a_burst_of_writes_does_not_overrun_the_server() -> None:
    """Hundreds at once would wait for a connection until they time out."""
    running = most = 0

    async def handler(request: httpx.Request) -> httpx.Response:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1
        return ok({"operation_id": 1, "status": "completed"})

    client = AsyncQdrantClient(
        url=ADDRESS, check_compatibility=False, transport=httpx.MockTransport(handler)
    )
    index = ServerIndex(client, "chunks", 4)
    await asyncio.gather(*(index.write(chunks(1)) for _ in range(50)))
    assert 1 < most <= WRITES_AT_ONCE
