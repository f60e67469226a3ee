"""What the embedders behind an API share: sizes, prices, batches and failures."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rag.backoff import Patience, retry_after
from rag.embedding import Vector
from rag.errors import EmbeddingError

CHUNK_TOKENS = 640
"""A passage of 400 tokens by the rule words × 1.3, in the tokens of `estimated_tokens`. Longer
passages are found less well, so a model that takes more gets no more."""
UNKNOWN_MODEL_TOKENS = 512
REQUESTS_AT_ONCE = 4
FOR_PASSAGES = Patience(attempts=6)
FOR_A_QUERY = Patience(attempts=3, longest_delay_seconds=4.0)
"""A student is waiting."""
LONGEST_MESSAGE = 200

_PAYMENT_REQUIRED = 402
_REJECTED_KEY = (401, 403, 498)
_UNKNOWN_MODEL = 404
_RATE_LIMIT = 429
_OVERLOADED = (408, 409, _RATE_LIMIT)
_QUOTA = re.compile(r"quota|/ ?month|per month|monthly|billing|credit", re.IGNORECASE)
_PARTS = re.compile(r"[A-Za-z]+|\d+|\n+| {2,}|[^\sA-Za-z\d]")


# --- Models ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class KnownModel:
    """What a provider documents of one of its models."""

    dimension: int
    max_tokens: int
    usd_per_million: float | None
    may_shorten: bool = False
    """Whether it makes vectors of fewer dimensions on request."""


@dataclass(frozen=True)
class RemoteModel:
    """A model as it is used here."""

    name: str
    dimension: int
    max_tokens: int
    usd_per_million: float | None
    requested_dimension: int | None = None
    """Set where the provider has to be told."""


def remote_model(
    name: str,
    known: Mapping[str, KnownModel],
    dimension: int | None = None,
    usd_per_million: float | None = None,
) -> RemoteModel:
    """The model with what is known of it; `dimension` and price override what they can."""
    facts = known.get(name)
    if facts is None:
        if dimension is None:
            raise EmbeddingError(
                f"Nothing is known of the embedding model {name}: say in"
                " FOOTNOTE_EMBEDDING_DIMENSION how many dimensions its vectors have."
            )
        return RemoteModel(name, dimension, UNKNOWN_MODEL_TOKENS, usd_per_million)
    shortened = dimension if dimension != facts.dimension else None
    if shortened and (shortened > facts.dimension or not facts.may_shorten):
        raise EmbeddingError(
            f"The embedding model {name} makes vectors of {facts.dimension} dimensions,"
            f" not of the {dimension} of FOOTNOTE_EMBEDDING_DIMENSION."
        )
    return RemoteModel(
        name,
        shortened or facts.dimension,
        min(facts.max_tokens, CHUNK_TOKENS),
        facts.usd_per_million if usd_per_million is None else usd_per_million,
        shortened,
    )


# --- Texts -------------------------------------------------------------------------------------


def estimated_tokens(text: str) -> int:
    """Counts without the provider's tokenizer, on the safe side: a fifth more than a WordPiece
    tokenizer finds in course material, and almost never less."""
    return sum(_part_tokens(part) for part in _PARTS.findall(text))


def _part_tokens(part: str) -> int:
    if not part.isascii():
        return 2
    if part.isalpha():
        return 1 + (len(part) - 1) // 5
    return (len(part) + 1) // 2 if part.isdigit() else 1


def acceptable(text: str, longest_bytes: int) -> str:
    """What no provider rejects: not empty, well-formed, and not endless."""
    encoded = text.encode("utf-8", "replace")[:longest_bytes]
    return encoded.decode("utf-8", "ignore") if encoded.strip() else "."


@dataclass(frozen=True)
class BatchLimits:
    """The most that goes into one request."""

    texts: int
    tokens: int


def batches(texts: Sequence[str], limits: BatchLimits) -> list[list[str]]:
    """The texts in their order, in as few requests as the limits allow."""
    found: list[list[str]] = []
    room = 0
    for text in texts:
        tokens = estimated_tokens(text)
        if not found or len(found[-1]) == limits.texts or tokens > room:
            found.append([])
            room = limits.tokens
        found[-1].append(text)
        room -= tokens
    return found


async def embed_batches(
    groups: Sequence[list[str]],
    dimension: int,
    slots: asyncio.Semaphore,
    embed: Callable[[list[str]], Awaitable[Vector]],
) -> Vector:
    """All rows in order; once a request has failed for good, the waiting ones are not sent."""

    async def one(group: list[str]) -> Vector:
        async with slots:
            return await embed(group)

    try:
        async with asyncio.TaskGroup() as running:
            tasks = [running.create_task(one(group)) for group in groups]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return np.concatenate([np.empty((0, dimension), np.float32), *(t.result() for t in tasks)])


# --- Replies -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reply:
    """What a provider sent, before anything is made of it."""

    rows: Sequence[Sequence[float]]
    tokens: int


def unit_rows(
    provider: "Provider", model: RemoteModel, rows: Sequence[Sequence[float]], count: int
) -> Vector:
    """One unit vector a text, or an error that says what the provider did instead."""
    if len(rows) != count:
        raise EmbeddingError(f"{provider.name} sent {len(rows)} vectors for {count} texts.")
    lengths = {len(row) for row in rows}
    if lengths != {model.dimension}:
        found = " or ".join(map(str, sorted(lengths)))
        raise EmbeddingError(
            f"The embedding model {model.name} makes vectors of {found} dimensions, not of"
            f" {model.dimension}: set FOOTNOTE_EMBEDDING_DIMENSION."
        )
    vectors = np.array(rows, np.float32)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.all(np.isfinite(norms) & (norms > 0)):
        raise EmbeddingError(f"{provider.name} sent a vector without a direction.")
    return vectors / norms


# --- Failures ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Provider:
    """How a provider and its settings are called where something goes wrong."""

    name: str
    address: str
    key_setting: str
    model_setting: str


@dataclass
class RequestFailed(Exception):
    """A failed request in no vendor's terms; without a status there was no answer at all."""

    status: int | None = None
    message: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    timed_out: bool = False

    @property
    def no_quota(self) -> bool:
        limited = self.status == _RATE_LIMIT and _QUOTA.search(self.message)
        return self.status == _PAYMENT_REQUIRED or bool(limited)

    def explained(self, provider: Provider, model: str) -> str:
        """One sentence for whoever runs Footnote."""
        if self.status is None:
            failure = "did not answer in time" if self.timed_out else "cannot be reached"
            return f"{provider.name} at {provider.address} {failure}."
        if self.no_quota:
            return f"The quota of {provider.key_setting} at {provider.name} is used up."
        if self.status in _REJECTED_KEY:
            return f"{provider.name} rejected {provider.key_setting}."
        if self.status == _UNKNOWN_MODEL:
            return (
                f"{provider.name} does not know the embedding model {model}"
                f" ({provider.model_setting})."
            )
        if self.status == _RATE_LIMIT:
            return f"{provider.name} is over its rate limit for {provider.key_setting}."
        if self.status >= 500:
            return f"{provider.name} failed with status {self.status}; try again later."
        return f"{provider.name} refused to embed ({self.status}): {self._short_message}"

    @property
    def _short_message(self) -> str:
        words = " ".join(self.message.split())[:LONGEST_MESSAGE].rstrip(".")
        return f"{words or 'it does not say why'}."


def asked_delay(error: Exception) -> float | None:
    """Only a passing failure is worth another try: no answer, too much at once, a server's own."""
    if not isinstance(error, RequestFailed) or error.no_quota:
        return None
    if error.status is None:
        return 0.0
    passing = error.status in _OVERLOADED or error.status >= 500
    return retry_after(error.headers) if passing else None
