"""What only the served index has: a network, and a server with a will of its own."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import numpy as np
import pytest
from qdrant_client import AsyncQdrantClient, models

from rag.errors import IndexingError
from rag.index.payload import CHUNK_INDEXES
from rag.index.server import ServerIndex
from rag.types import SearchFilters

ADDRESS = "http://127.0.0.1:1"
QDRANT = f"Qdrant at {ADDRESS}"
COURSE = SearchFilters(book_id="robotics")
ANY = np.full(4, 0.5, dtype=np.float32)
pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect")


@pytest.fixture
async def local() -> AsyncIterator[AsyncQdrantClient]:
    client = AsyncQdrantClient(":memory:")
    yield client
    await client.close()


def answering(handler: Callable[[httpx.Request], httpx.Response]) -> ServerIndex:
    """An index whose server is a function."""
    client = AsyncQdrantClient(
        url=ADDRESS, check_compatibility=False, transport=httpx.MockTransport(handler)
    )
    return ServerIndex(client, "chunks", 4)


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

    def __init__(self) -> None:
        self.indexed: dict[str, dict[str, Any]] = {"chunks": {}, "chunks_state": {}}
        self.created: dict[str, Any] = {}

    def __call__(self, request: httpx.Request) -> httpx.Response:
        _, _, name, *action = request.url.path.split("/")
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


# --- Failures ----------------------------------------------------------------------------------


async def test_an_unreachable_server_is_a_clear_error() -> None:
    index = ServerIndex(AsyncQdrantClient(url=ADDRESS, check_compatibility=False), "chunks", 4)
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
    ],
    ids=lambda value: str(getattr(value, "status_code", "")),
)
async def test_a_refusal_is_a_clear_error(response: httpx.Response, sentence: str) -> None:
    index = answering(lambda request: response)
    with pytest.raises(IndexingError) as caught:
        await index.count(COURSE)
    assert str(caught.value) == sentence
