"""What every embedder must do, whoever makes its vectors."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
from cohere import AsyncClientV2
from openai import AsyncOpenAI

from rag.embedding import Embedder, Usage
from rag.embedding import cohere as cohere_models
from rag.embedding import openai as openai_models
from rag.embedding.cohere import CohereEmbedder
from rag.embedding.local import LocalEmbedder
from rag.embedding.openai import OpenAIEmbedder
from rag.embedding.remote import remote_model
from tests.embedding_server import KEY, embedding_server
from tests.integration.model_stand_in import start_model

ODD_TEXTS = {
    "empty": "",
    "blank": " \n\t",
    "control": "\x00\x07\x1b",
    "surrogate": "\ud83d alone",
    "emoji": "🤖" * 5_000,
    "one word": "a" * 100_000,
    "long": "long text " * 10_000,
    "chinese": "机器人通过话题交换消息。" * 2_000,
}


@pytest.fixture(scope="module")
def local() -> LocalEmbedder:
    return LocalEmbedder.load()


@asynccontextmanager
async def cohere_at(url: str) -> AsyncGenerator[CohereEmbedder]:
    model = remote_model(cohere_models.DEFAULT_MODEL, cohere_models.MODELS)
    async with AsyncClientV2(KEY, base_url=url, timeout=20, max_retries=0) as client:
        yield CohereEmbedder(client, model, url)


@asynccontextmanager
async def openai_at(url: str) -> AsyncGenerator[OpenAIEmbedder]:
    model = remote_model(openai_models.DEFAULT_MODEL, openai_models.MODELS)
    async with AsyncOpenAI(api_key=KEY, base_url=f"{url}/v1", timeout=20, max_retries=0) as client:
        yield OpenAIEmbedder(client, model)


@pytest.fixture(
    params=[
        "local",
        "cohere",
        "openai",
        pytest.param("cohere at aimock", marks=pytest.mark.system),
        pytest.param("openai at aimock", marks=pytest.mark.system),
    ]
)
async def embedder(
    request: pytest.FixtureRequest, local: LocalEmbedder, tmp_path: Path
) -> AsyncIterator[Embedder]:
    name: str = request.param
    if name == "local":
        yield local
        return
    server = start_model(tmp_path, {}) if "aimock" in name else embedding_server()
    at = cohere_at if name.startswith("cohere") else openai_at
    async with server as running, at(running.url) as remote:
        yield remote


async def test_passages_have_unit_vectors_in_their_order(embedder: Embedder) -> None:
    texts = [f"Passage number {n} about {'robots ' * (n % 7)}." for n in range(200)]
    vectors = await embedder.embed_passages(texts)
    assert (vectors.shape, vectors.dtype) == ((200, embedder.dimension), np.float32)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    for n in (0, 95, 96, 199):
        alone = await embedder.embed_passages([texts[n]])
        np.testing.assert_allclose(alone[0], vectors[n], atol=1e-4)


async def test_different_texts_have_different_vectors(embedder: Embedder) -> None:
    one, other = await embedder.embed_passages(["A topic is a named bus.", "Boil the egg."])
    assert float(one @ other) < 0.9


async def test_a_query_has_one_unit_vector_and_always_the_same(embedder: Embedder) -> None:
    first, again = [await embedder.embed_query("What is a topic?") for _ in range(2)]
    assert (first.shape, first.dtype) == ((embedder.dimension,), np.float32)
    assert float(np.linalg.norm(first)) == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(first, again, atol=1e-6)


async def test_no_passages_give_no_vectors_and_cost_nothing(embedder: Embedder) -> None:
    usage = Usage()
    assert (await embedder.embed_passages([], usage)).shape == (0, embedder.dimension)
    assert (usage.tokens, usage.cost_usd) == (0, 0.0)


@pytest.mark.parametrize("text", ODD_TEXTS.values(), ids=ODD_TEXTS)
async def test_any_text_has_a_unit_vector(embedder: Embedder, text: str) -> None:
    rows = [await embedder.embed_query(text), *await embedder.embed_passages([text])]
    for vector in rows:
        assert float(np.linalg.norm(vector)) == pytest.approx(1, abs=1e-5)


async def test_simultaneous_queries_get_their_own_vectors(embedder: Embedder) -> None:
    texts = [f"Question {n}?" for n in range(12)]
    alone = [await embedder.embed_query(text) for text in texts]
    together = await asyncio.gather(*(embedder.embed_query(text) for text in texts))
    np.testing.assert_allclose(np.array(together), np.array(alone), atol=1e-5)


async def test_queries_are_answered_while_passages_are_embedded(embedder: Embedder) -> None:
    texts = [f"Passage {n} " * 20 for n in range(150)]
    passages, query = await asyncio.gather(
        embedder.embed_passages(texts), embedder.embed_query("What is a topic?")
    )
    assert len(passages) == 150
    np.testing.assert_allclose(query, await embedder.embed_query("What is a topic?"), atol=1e-5)


async def test_each_caller_learns_what_its_passages_took(embedder: Embedder) -> None:
    short, long = Usage(), Usage()
    await asyncio.gather(
        embedder.embed_passages(["one two three"] * 5, short),
        embedder.embed_passages(["one two three"] * 50, long),
        embedder.embed_query("What is a topic?"),
    )
    assert 0 < short.tokens < long.tokens == 10 * short.tokens
    assert short.cost_usd is not None
    assert long.cost_usd == pytest.approx(10 * short.cost_usd)


def test_tokens_are_counted_without_a_limit(embedder: Embedder) -> None:
    words = "robot " * 5_000
    assert embedder.count_tokens(words) >= 5_000
    assert embedder.count_tokens("") <= 2
    assert embedder.max_tokens >= 200


def test_counts_add_up(embedder: Embedder) -> None:
    """Passages are put together from parts that were counted one by one."""
    frame = embedder.count_tokens("")
    parts = ["A node publishes.", "`ros2 topic echo /scan`", "| a | b |", "Größe: 12.5 kg"]
    added = sum(embedder.count_tokens(part) - frame + 1 for part in parts)
    assert embedder.count_tokens("\n\n".join(parts)) - frame <= added
