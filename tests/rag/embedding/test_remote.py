"""Sizes, prices, batches and failures of the embedders behind an API."""

import asyncio
from pathlib import Path

import numpy as np
import pytest

from rag.embedding import Usage, Vector, cohere, openai
from rag.embedding.local import LocalEmbedder
from rag.embedding.remote import (
    CHUNK_TOKENS,
    BatchLimits,
    Provider,
    RemoteModel,
    RequestFailed,
    acceptable,
    asked_delay,
    batches,
    embed_batches,
    estimated_tokens,
    remote_model,
    unit_rows,
)
from rag.errors import EmbeddingError

COURSE = Path(__file__).parents[3] / "courses" / "physical-ai-robotics"
ACME = Provider("Acme", "http://acme", "ACME_KEY", "ACME_MODEL")
TWO = RemoteModel("acme-2", 2, 512, 0.1)
MODELS = cohere.MODELS | openai.MODELS


# --- Models ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "wanted", "dimension", "requested"),
    [
        ("embed-english-v3.0", None, 1024, None),
        ("embed-english-v3.0", 1024, 1024, None),
        ("embed-multilingual-v3.0", None, 1024, None),
        ("embed-english-light-v3.0", None, 384, None),
        ("embed-v4.0", None, 1536, None),
        ("embed-v4.0", 512, 512, 512),
        ("text-embedding-3-small", None, 1536, None),
        ("text-embedding-3-small", 1536, 1536, None),
        ("text-embedding-3-small", 256, 256, 256),
        ("text-embedding-3-large", None, 3072, None),
        ("nomic-embed-text", 768, 768, None),
    ],
)
def test_a_models_dimension(
    name: str, wanted: int | None, dimension: int, requested: int | None
) -> None:
    model = remote_model(name, MODELS, wanted)
    assert (model.dimension, model.requested_dimension) == (dimension, requested)


@pytest.mark.parametrize(
    ("name", "wanted", "sentence"),
    [
        ("nomic-embed-text", None, "say in FOOTNOTE_EMBEDDING_DIMENSION how many dimensions"),
        ("embed-english-v3.0", 512, "makes vectors of 1024 dimensions, not of the 512"),
        ("text-embedding-3-small", 3072, "makes vectors of 1536 dimensions, not of the 3072"),
        ("text-embedding-ada-002", 512, "makes vectors of 1536 dimensions, not of the 512"),
    ],
)
def test_a_dimension_that_a_model_does_not_have(
    name: str, wanted: int | None, sentence: str
) -> None:
    with pytest.raises(EmbeddingError, match=sentence):
        remote_model(name, MODELS, wanted)


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("embed-english-v3.0", 512),
        ("embed-v4.0", CHUNK_TOKENS),
        ("text-embedding-3-small", CHUNK_TOKENS),
        ("nomic-embed-text", 512),
    ],
)
def test_passages_are_as_long_as_the_model_allows_but_no_longer_than_is_good(
    name: str, limit: int
) -> None:
    dimension = None if name in MODELS else 768
    assert remote_model(name, MODELS, dimension).max_tokens == limit


@pytest.mark.parametrize(
    ("name", "override", "price"),
    [
        ("text-embedding-3-small", None, 0.02),
        ("text-embedding-3-small", 0.0, 0.0),
        ("embed-english-v3.0", 0.25, 0.25),
        ("nomic-embed-text", None, None),
        ("nomic-embed-text", 0.5, 0.5),
    ],
)
def test_prices_are_listed_and_can_be_overridden(
    name: str, override: float | None, price: float | None
) -> None:
    dimension = None if name in MODELS else 768
    assert remote_model(name, MODELS, dimension, override).usd_per_million == price


def test_usage_adds_up() -> None:
    usage = Usage()
    usage.add(1_000_000, 0.1)
    usage.add(500_000, 0.02)
    assert (usage.tokens, usage.cost_usd) == (1_500_000, pytest.approx(0.11))


def test_a_cost_with_an_unknown_part_is_unknown() -> None:
    usage = Usage()
    usage.add(10, None)
    usage.add(10, 0.1)
    assert (usage.tokens, usage.cost_usd) == (20, None)


# --- Texts -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("   ", 1),
        ("robot", 1),
        ("robots", 2),
        ("A robot.", 3),
        ("incomprehensibilities", 5),
        ("2026", 2),
        ("a\n\nb", 3),
        ("x = [1, 2]", 7),
        ("né", 3),
        ("机器人", 6),
        ("🤖", 2),
    ],
)
def test_estimated_tokens(text: str, count: int) -> None:
    assert estimated_tokens(text) == count


def test_the_estimate_is_on_the_safe_side_of_a_real_tokenizer() -> None:
    local = LocalEmbedder.load()
    pages = [path.read_text("utf-8") for path in COURSE.rglob("*.md")]
    passages = [
        page[start : start + 1_500] for page in pages for start in range(0, len(page), 1_500)
    ]
    ratios = sorted(estimated_tokens(text) / local.count_tokens(text) for text in passages)
    assert len(ratios) > 20
    assert ratios[len(ratios) // 20] > 1.0
    assert ratios[len(ratios) // 2] < 1.4


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("As it is.", "As it is."),
        ("", "."),
        (" \n", "."),
        ("\ud83d alone", "? alone"),
        ("x" * 50, "x" * 10),
        ("äöüäöü", "äöüäö"),
        ("aäöüäöü", "aäöüä"),
    ],
)
def test_acceptable_texts(text: str, sent: str) -> None:
    assert acceptable(text, 10) == sent


@pytest.mark.parametrize(
    ("texts", "limits", "sizes"),
    [
        ([], BatchLimits(3, 10), []),
        (["one"] * 7, BatchLimits(3, 100), [3, 3, 1]),
        (["one two three"] * 7, BatchLimits(96, 10), [3, 3, 1]),
        (["one", "word " * 50, "two"], BatchLimits(96, 10), [1, 1, 1]),
    ],
)
def test_batches_by_count_and_tokens(
    texts: list[str], limits: BatchLimits, sizes: list[int]
) -> None:
    found = batches(texts, limits)
    assert [len(batch) for batch in found] == sizes
    assert [text for batch in found for text in batch] == texts


async def test_after_a_failure_the_waiting_batches_are_not_sent() -> None:
    sent: list[str] = []

    async def embed(texts: list[str]) -> Vector:
        sent.append(texts[0])
        await asyncio.sleep(0)
        if texts == ["bad"]:
            raise EmbeddingError("No quota.")
        await asyncio.sleep(60)
        return np.ones((1, 2), np.float32)

    groups = [["good"], ["bad"], *([f"later {n}"] for n in range(20))]
    with pytest.raises(EmbeddingError, match=r"^No quota\.$"):
        await embed_batches(groups, 2, asyncio.Semaphore(2), embed)
    assert len(sent) <= 3  # the one that gets the free place is cancelled at once


# --- Replies -----------------------------------------------------------------------------------


def test_rows_become_unit_vectors() -> None:
    rows = unit_rows(ACME, TWO, [[3.0, 4.0], [0.0, 0.5]], 2)
    np.testing.assert_allclose(rows, [[0.6, 0.8], [0.0, 1.0]], rtol=1e-6)
    assert rows.dtype == np.float32


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([], "Acme sent 0 vectors for 2 texts."),
        ([[1.0, 0.0]], "Acme sent 1 vectors for 2 texts."),
        ([[0.0, 0.0], [1.0, 0.0]], "Acme sent a vector without a direction."),
        ([[float("nan"), 0.0], [1.0, 0.0]], "Acme sent a vector without a direction."),
        (
            [[1.0, 0.0, 0.0]] * 2,
            "The embedding model acme-2 makes vectors of 3 dimensions, not of 2:"
            " set FOOTNOTE_EMBEDDING_DIMENSION.",
        ),
    ],
)
def test_a_reply_that_does_not_fit_is_one_sentence(rows: list[list[float]], sentence: str) -> None:
    with pytest.raises(EmbeddingError) as caught:
        unit_rows(ACME, TWO, rows, 2)
    assert str(caught.value) == sentence


# --- Failures ----------------------------------------------------------------------------------

TRIAL = "You are using a Trial key, which is limited to 1000 API calls / month."


@pytest.mark.parametrize(
    ("failure", "delay", "sentence"),
    [
        (RequestFailed(), 0.0, "Acme at http://acme cannot be reached."),
        (RequestFailed(timed_out=True), 0.0, "Acme at http://acme did not answer in time."),
        (RequestFailed(401), None, "Acme rejected ACME_KEY."),
        (RequestFailed(403), None, "Acme rejected ACME_KEY."),
        (RequestFailed(402), None, "The quota of ACME_KEY at Acme is used up."),
        (RequestFailed(429, TRIAL), None, "The quota of ACME_KEY at Acme is used up."),
        (
            RequestFailed(429, "You exceeded it. insufficient_quota"),
            None,
            "The quota of ACME_KEY at Acme is used up.",
        ),
        (
            RequestFailed(429, "Rate limit reached", {"Retry-After": "7"}),
            7.0,
            "Acme is over its rate limit for ACME_KEY.",
        ),
        (RequestFailed(404), None, "Acme does not know the embedding model acme-2 (ACME_MODEL)."),
        (RequestFailed(500), 0.0, "Acme failed with status 500; try again later."),
        (
            RequestFailed(503, "", {"retry-after-ms": "1500"}),
            1.5,
            "Acme failed with status 503; try again later.",
        ),
        (RequestFailed(408, "Slow."), 0.0, "Acme refused to embed (408): Slow."),
        (RequestFailed(400, "A\n bad  text."), None, "Acme refused to embed (400): A bad text."),
        (RequestFailed(422), None, "Acme refused to embed (422): it does not say why."),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_failure_means(failure: RequestFailed, delay: float | None, sentence: str) -> None:
    assert asked_delay(failure) == delay
    assert failure.explained(ACME, "acme-2") == sentence


def test_a_long_refusal_is_shortened() -> None:
    assert len(RequestFailed(400, "word " * 1_000).explained(ACME, "acme-2")) < 300


def test_a_mistake_of_ours_is_not_repeated() -> None:
    assert asked_delay(TypeError("oops")) is None
