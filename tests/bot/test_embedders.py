"""Which embedder the settings open, and what the doctor says of it."""

from pathlib import Path

import pytest

from bot.app import open_embedder
from bot.doctor import passages
from bot.jobs import Turns
from bot.settings import load_settings
from rag.errors import EmbeddingError, SettingsError
from tests.embedding_server import KEY, Failure, embedding_server


@pytest.fixture(autouse=True)
def environment(no_settings: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    no_settings.setenv("FOOTNOTE_DATA_DIR", str(tmp_path / "data"))
    return no_settings


def choose(environment: pytest.MonkeyPatch, embedder: str, url: str, **more: str) -> None:
    environment.setenv("FOOTNOTE_EMBEDDER", embedder)
    environment.setenv("COHERE_BASE_URL", url)
    environment.setenv("OPENAI_BASE_URL", f"{url}/v1")
    for name in ("COHERE_API_KEY", "OPENAI_API_KEY"):
        environment.setenv(name, KEY)
    for name, value in more.items():
        environment.setenv(name, value)


async def test_the_local_model_is_the_default() -> None:
    async with open_embedder(load_settings()) as embedder:
        assert (embedder.model, embedder.dimension) == ("all-MiniLM-L6-v2", 384)


@pytest.mark.parametrize(
    ("name", "more", "model", "dimension"),
    [
        ("cohere", {}, "embed-english-v3.0", 1024),
        ("cohere", {"COHERE_MODEL": "embed-v4.0"}, "embed-v4.0", 1536),
        ("openai", {}, "text-embedding-3-small", 1536),
        ("openai", {"FOOTNOTE_EMBEDDING_DIMENSION": "256"}, "text-embedding-3-small", 256),
    ],
)
async def test_a_provider_is_opened_as_it_is_set(
    environment: pytest.MonkeyPatch, name: str, more: dict[str, str], model: str, dimension: int
) -> None:
    async with embedding_server() as server:
        choose(environment, name, server.url, **more)
        async with open_embedder(load_settings()) as embedder:
            assert (embedder.model, embedder.dimension) == (model, dimension)
            assert (await embedder.embed_query("What is a topic?")).shape == (dimension,)


@pytest.mark.parametrize(
    ("name", "key"), [("cohere", "COHERE_API_KEY"), ("openai", "OPENAI_API_KEY")]
)
async def test_a_provider_without_its_key_is_a_clear_error(
    environment: pytest.MonkeyPatch, name: str, key: str
) -> None:
    environment.setenv("FOOTNOTE_EMBEDDER", name)
    with pytest.raises(SettingsError) as caught:
        async with open_embedder(load_settings()):
            pass
    assert str(caught.value) == f"FOOTNOTE_EMBEDDER is {name}, but {key} is not set."


async def test_an_unknown_model_needs_its_dimension(environment: pytest.MonkeyPatch) -> None:
    choose(environment, "openai", "http://127.0.0.1:9", FOOTNOTE_EMBEDDING_MODEL="my-model")
    with pytest.raises(EmbeddingError, match="FOOTNOTE_EMBEDDING_DIMENSION"):
        async with open_embedder(load_settings()):
            pass


async def test_the_doctor_names_the_embedder_and_tries_its_key(
    environment: pytest.MonkeyPatch,
) -> None:
    async with embedding_server() as server:
        choose(environment, "cohere", server.url)
        embeddings, index, courses = await passages(load_settings(), Turns())
        assert (embeddings.part, embeddings.status) == ("embeddings", "ok")
        assert embeddings.sentence == "embed-english-v3.0 (cohere, 1024 dimensions) answers."
        assert (index.status, courses.status) == ("ok", "off")
        server.failures = [Failure(401)]
        (rejected,) = await passages(load_settings(), Turns())
    assert rejected.status == "wrong"
    assert rejected.sentence == "Cohere rejected COHERE_API_KEY."
