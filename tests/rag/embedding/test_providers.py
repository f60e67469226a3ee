"""Cohere and OpenAI on the wire: what is sent, what is retried, and what is said in the end."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import numpy as np
import pytest
from cohere import AsyncClientV2
from openai import AsyncOpenAI

from rag.embedding import Embedder, Usage
from rag.embedding import cohere as cohere_models
from rag.embedding import openai as openai_models
from rag.embedding.cohere import CohereEmbedder
from rag.embedding.openai import OpenAIEmbedder
from rag.embedding.remote import FOR_A_QUERY, FOR_PASSAGES, REQUESTS_AT_ONCE, remote_model
from rag.errors import EmbeddingError
from tests.embedding_server import (
    KEY,
    EmbeddingServer,
    Failure,
    embedding_server,
    tokens_of,
    vector_of,
)

NOBODY = "http://127.0.0.1:9"


class Clock:
    """Sleeps without taking time, and remembers for how long."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


@asynccontextmanager
async def cohere(
    url: str,
    clock: Clock,
    *,
    model: str = "embed-english-v3.0",
    dimension: int | None = None,
    key: str = KEY,
    patience_seconds: float = 10,
) -> AsyncGenerator[Embedder]:
    chosen = remote_model(model, cohere_models.MODELS, dimension)
    async with AsyncClientV2(key, base_url=url, timeout=patience_seconds, max_retries=0) as client:
        yield CohereEmbedder(client, chosen, url, clock.sleep)


@asynccontextmanager
async def openai(
    url: str,
    clock: Clock,
    *,
    model: str = "text-embedding-3-small",
    dimension: int | None = None,
    key: str = KEY,
    patience_seconds: float = 10,
) -> AsyncGenerator[Embedder]:
    chosen = remote_model(model, openai_models.MODELS, dimension)
    async with AsyncOpenAI(
        api_key=key, base_url=f"{url}/v1", timeout=patience_seconds, max_retries=0
    ) as client:
        yield OpenAIEmbedder(client, chosen, clock.sleep)


Opened = Callable[..., AbstractAsyncContextManager[Embedder]]
both = pytest.mark.parametrize("opened", [cohere, openai])


def texts_in(request: dict[str, Any]) -> list[str]:
    return request.get("texts") or request["input"]


async def sentence(opened: Opened, *failures: Failure, **options: Any) -> str:
    """What is said in the end when the server keeps failing."""
    async with (
        embedding_server(*failures) as server,
        opened(server.url, Clock(), **options) as embedder,
    ):
        with pytest.raises(EmbeddingError) as caught:
            await embedder.embed_passages(["A passage."])
    return str(caught.value)


# --- What is sent ------------------------------------------------------------------------------


async def test_cohere_is_told_passages_from_questions() -> None:
    async with embedding_server() as server, cohere(server.url, Clock()) as embedder:
        passage = await embedder.embed_passages(["What is a topic?"])
        query = await embedder.embed_query("What is a topic?")
    assert [r["input_type"] for r in server.requests] == ["search_document", "search_query"]
    expected = vector_of("What is a topic?", 1024, "search_query")
    np.testing.assert_allclose(query, expected / np.linalg.norm(expected), atol=1e-5)
    assert float(passage[0] @ query) < 0.5


async def test_openais_vectors_stay_with_their_texts_in_whatever_order_they_come() -> None:
    texts = [f"Passage {n}." for n in range(10)]
    async with embedding_server() as server, openai(server.url, Clock()) as embedder:
        rows = await embedder.embed_passages(texts)
    for text, row in zip(texts, rows, strict=True):
        expected = vector_of(text, 1536)
        np.testing.assert_allclose(row, expected / np.linalg.norm(expected), atol=1e-5)


@pytest.mark.parametrize(
    ("opened", "model", "dimension", "field"),
    [
        (cohere, "embed-v4.0", 256, "output_dimension"),
        (openai, "text-embedding-3-small", 256, "dimensions"),
    ],
)
async def test_a_shorter_vector_is_asked_for_only_when_it_is_wanted(
    opened: Opened, model: str, dimension: int, field: str
) -> None:
    async with embedding_server() as server:
        async with opened(server.url, Clock(), model=model, dimension=dimension) as embedder:
            assert (await embedder.embed_query("short")).shape == (dimension,)
        async with opened(server.url, Clock(), model=model) as embedder:
            assert (await embedder.embed_query("long")).shape == (1536,)
    assert [request.get(field) for request in server.requests] == [dimension, None]


@pytest.mark.parametrize(("opened", "most"), [(cohere, 96), (openai, 256)])
async def test_many_passages_go_in_few_requests_a_few_at_a_time(opened: Opened, most: int) -> None:
    texts = [f"Passage {n}." for n in range(9 * most + 1)]
    async with embedding_server() as server, opened(server.url, Clock()) as embedder:
        rows = await embedder.embed_passages(texts)
    assert len(rows) == len(texts)
    assert sorted(len(texts_in(r)) for r in server.requests) == [1, *[most] * 9]
    assert 1 < server.busiest <= REQUESTS_AT_ONCE


@both
async def test_long_passages_go_in_smaller_requests(opened: Opened) -> None:
    texts = ["word " * 1_500 for _ in range(90)]
    async with embedding_server() as server, opened(server.url, Clock()) as embedder:
        await embedder.embed_passages(texts)
    assert len(server.requests) > 1
    assert sum(len(texts_in(r)) for r in server.requests) == 90


# --- What it costs -----------------------------------------------------------------------------


@pytest.mark.parametrize(("opened", "price"), [(cohere, 0.10), (openai, 0.02)])
async def test_the_providers_own_count_is_billed(opened: Opened, price: float) -> None:
    texts, usage = [f"Passage number {n} here." for n in range(300)], Usage()
    async with embedding_server() as server, opened(server.url, Clock()) as embedder:
        await embedder.embed_passages(texts, usage)
    assert usage.tokens == tokens_of(texts) == 1_200
    assert usage.cost_usd == pytest.approx(1_200 * price / 1_000_000)


@both
async def test_without_a_count_of_theirs_ours_is_used(opened: Opened) -> None:
    usage = Usage()
    async with (
        embedding_server(reports_usage=False) as server,
        opened(server.url, Clock()) as embedder,
    ):
        await embedder.embed_passages(["A robot.", "A robot."], usage)
        assert usage.tokens == 2 * embedder.count_tokens("A robot.")


@both
async def test_what_was_paid_before_a_failure_is_known(opened: Opened) -> None:
    async with embedding_server() as server, opened(server.url, Clock()) as embedder:
        usage = Usage()
        await embedder.embed_passages(["one two"], usage)
        server.failures = [Failure(401)]
        with pytest.raises(EmbeddingError):
            await embedder.embed_passages(["three"], usage)
    assert usage.tokens == 2


# --- Failures ----------------------------------------------------------------------------------


@both
@pytest.mark.parametrize(
    "failure",
    [Failure(429), Failure(500), Failure(502), Failure(503, text="<html>"), Failure(None)],
    ids=["429", "500", "502", "html", "dropped"],
)
async def test_a_passing_failure_is_waited_out(opened: Opened, failure: Failure) -> None:
    clock = Clock()
    async with embedding_server(failure, failure) as server, opened(server.url, clock) as embedder:
        assert len(await embedder.embed_passages(["A passage."])) == 1
        assert len(server.requests) == 3
    assert len(clock.slept) == 2
    assert clock.slept[0] < clock.slept[1] * 1.5


@both
async def test_retry_after_is_honoured(opened: Opened) -> None:
    clock = Clock()
    busy = Failure(429, headers={"Retry-After": "23"})
    async with embedding_server(busy) as server, opened(server.url, clock) as embedder:
        await embedder.embed_passages(["A passage."])
    assert clock.slept == [23.0]


@both
async def test_a_student_is_not_kept_waiting(opened: Opened) -> None:
    async with embedding_server(*[Failure(503)] * 9) as server:
        async with opened(server.url, Clock()) as embedder:
            with pytest.raises(EmbeddingError):
                await embedder.embed_query("What is a topic?")
            assert len(server.requests) == FOR_A_QUERY.attempts < FOR_PASSAGES.attempts
        server.failures = [Failure(429, headers={"Retry-After": "23"})]
        clock = Clock()
        async with opened(server.url, clock) as embedder:
            with pytest.raises(EmbeddingError, match="over its rate limit"):
                await embedder.embed_query("What is a topic?")
        assert clock.slept == []


@both
async def test_a_timeout_is_tried_again(opened: Opened) -> None:
    clock = Clock()
    slow = Failure(503, delay_seconds=1.0)
    async with (
        embedding_server(slow) as server,
        opened(server.url, clock, patience_seconds=0.3) as embedder,
    ):
        assert len(await embedder.embed_passages(["A passage."])) == 1
    assert len(clock.slept) == 1


@pytest.mark.parametrize(
    ("opened", "name", "key"),
    [(cohere, "Cohere", "COHERE_API_KEY"), (openai, "OpenAI", "OPENAI_API_KEY")],
)
async def test_every_failure_ends_in_one_honest_sentence(
    opened: Opened, name: str, key: str
) -> None:
    assert await sentence(opened, key="wrong") == f"{name} rejected {key}."
    spent = [Failure(429, "Your monthly limit is reached.", "insufficient_quota")] * 9
    assert await sentence(opened, *spent) == f"The quota of {key} at {name} is used up."
    assert (
        await sentence(opened, *[Failure(429)] * 9) == f"{name} is over its rate limit for {key}."
    )
    down = f"{name} failed with status 503; try again later."
    assert await sentence(opened, *[Failure(503)] * 9) == down
    odd = f"{name} refused to embed (400): This is odd"
    assert (await sentence(opened, Failure(400, "This is odd."))).startswith(odd)


@pytest.mark.parametrize(
    ("opened", "expected"),
    [
        (cohere, "Cohere does not know the embedding model embed-v9 (COHERE_MODEL)."),
        (openai, "OpenAI does not know the embedding model embed-v9 (FOOTNOTE_EMBEDDING_MODEL)."),
    ],
)
async def test_an_unknown_model_is_named(opened: Opened, expected: str) -> None:
    assert await sentence(opened, model="embed-v9", dimension=8) == expected


@both
async def test_an_unreachable_provider_is_one_sentence(opened: Opened) -> None:
    clock = Clock()
    async with opened(NOBODY, clock) as embedder:
        with pytest.raises(EmbeddingError, match=rf" at {NOBODY}.* cannot be reached\.$"):
            await embedder.embed_passages(["A passage."])
    assert len(clock.slept) == FOR_PASSAGES.attempts - 1


@both
async def test_an_empty_account_is_not_asked_again(opened: Opened) -> None:
    spent = Failure(429, "You have no credit left.", "insufficient_quota")
    async with embedding_server(spent) as server, opened(server.url, Clock()) as embedder:
        with pytest.raises(EmbeddingError, match="quota"):
            await embedder.embed_passages(["A passage."])
    assert len(server.requests) == 1


@both
@pytest.mark.parametrize("reply", ["<html>", "{}", "[]", '{"embeddings": {}, "data": []}', '"?"'])
async def test_a_reply_without_vectors_is_one_sentence(opened: Opened, reply: str) -> None:
    said = await sentence(opened, *[Failure(200, text=reply)] * 9)
    assert said.startswith(("Cohere ", "OpenAI "))
    assert said.endswith(".")
    assert said.count(". ") == 0


@both
async def test_a_cancelled_ingestion_stops_asking(opened: Opened) -> None:
    waiting = [Failure(503, delay_seconds=5)] * 50
    async with embedding_server(*waiting) as server, opened(server.url, Clock()) as embedder:
        task = asyncio.create_task(embedder.embed_passages(["A passage."] * 5_000))
        await until_asked(server)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        asked = len(server.requests)
        await asyncio.sleep(0.1)
        assert len(server.requests) == asked <= REQUESTS_AT_ONCE


async def until_asked(server: EmbeddingServer) -> None:
    while not server.requests:
        await asyncio.sleep(0.01)
