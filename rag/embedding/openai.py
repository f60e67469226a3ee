"""Embeds with OpenAI's API, or any server that speaks its language."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import cast

import openai
from openai import AsyncOpenAI, omit
from openai.types import CreateEmbeddingResponse, create_embedding_response

from rag.backoff import Patience, Sleep, persistently
from rag.embedding import Usage, Vector
from rag.embedding.remote import (
    FOR_A_QUERY,
    FOR_PASSAGES,
    REQUESTS_AT_ONCE,
    BatchLimits,
    KnownModel,
    Provider,
    RemoteModel,
    Reply,
    RequestFailed,
    acceptable,
    asked_delay,
    batches,
    embed_batches,
    estimated_tokens,
    unit_rows,
)
from rag.errors import EmbeddingError

DEFAULT_MODEL = "text-embedding-3-small"
# Prices in US dollars as listed in April 2026.
MODELS = {
    "text-embedding-3-small": KnownModel(1536, 8192, 0.02, may_shorten=True),
    "text-embedding-3-large": KnownModel(3072, 8192, 0.13, may_shorten=True),
    "text-embedding-ada-002": KnownModel(1536, 8192, 0.10),
}
BATCH = BatchLimits(texts=256, tokens=100_000)
"""Well below what OpenAI takes (2,048 texts, 300,000 tokens), so that a failed request costs little
and the requests of a group run side by side."""
NO_QUOTA = "insufficient_quota"
LONGEST_TEXT_BYTES = 8_000
"""OpenAI refuses a text of more than 8,192 tokens, and no token is shorter than a byte."""


class OpenAIEmbedder:
    """One of OpenAI's embedding models, or a compatible server's."""

    def __init__(
        self, client: AsyncOpenAI, model: RemoteModel, sleep: Sleep = asyncio.sleep
    ) -> None:
        self.model = model.name
        self.dimension = model.dimension
        self.max_tokens = model.max_tokens
        self._client = client
        self._used = model
        self._provider = Provider(
            "OpenAI", str(client.base_url), "OPENAI_API_KEY", "FOOTNOTE_EMBEDDING_MODEL"
        )
        self._sleep = sleep
        self._slots = asyncio.Semaphore(REQUESTS_AT_ONCE)

    def count_tokens(self, text: str) -> int:
        return estimated_tokens(text)

    async def embed_passages(self, texts: Sequence[str], usage: Usage | None = None) -> Vector:
        groups = batches([acceptable(text, LONGEST_TEXT_BYTES) for text in texts], BATCH)
        embed = partial(self._embed, FOR_PASSAGES, usage or Usage())
        return await embed_batches(groups, self.dimension, self._slots, embed)

    async def embed_query(self, text: str) -> Vector:
        texts = [acceptable(text, LONGEST_TEXT_BYTES)]
        return (await self._embed(FOR_A_QUERY, Usage(), texts))[0]

    async def _embed(self, patience: Patience, usage: Usage, texts: list[str]) -> Vector:
        request = partial(self._request, texts)
        try:
            reply = await persistently(request, asked_delay, patience, self._sleep)
        except RequestFailed as failure:
            raise EmbeddingError(failure.explained(self._provider, self.model)) from failure
        usage.add(reply.tokens, self._used.usd_per_million)
        return unit_rows(self._provider, self._used, reply.rows, len(texts))

    async def _request(self, texts: list[str]) -> Reply:
        shortened = self._used.requested_dimension
        try:
            answer = await self._client.embeddings.create(
                model=self.model,
                input=texts,
                dimensions=omit if shortened is None else shortened,
            )
            ordered = sorted(answer.data, key=lambda entry: entry.index)
            return Reply([entry.embedding for entry in ordered], billed_tokens(answer, texts))
        except openai.APITimeoutError as error:
            raise RequestFailed(timed_out=True) from error
        except openai.APIStatusError as error:
            raise failure_of(error) from error
        except openai.APIConnectionError as error:
            raise RequestFailed from error
        except (openai.OpenAIError, ValueError, AttributeError, TypeError) as error:
            # The SDK takes apart whatever it was sent.
            raise EmbeddingError("OpenAI sent a reply that holds no vectors.") from error


def failure_of(error: openai.APIStatusError) -> RequestFailed:
    body = cast("dict[str, object]", error.body) if isinstance(error.body, dict) else {}
    message = str(body.get("message") or error.message)
    if error.code == NO_QUOTA:
        message += " (no quota)"  # shares its status with a rate limit
    return RequestFailed(error.status_code, message, error.response.headers)


def billed_tokens(answer: CreateEmbeddingResponse, texts: Sequence[str]) -> int:
    """What OpenAI bills, or our estimate where a compatible server does not say."""
    said = cast("create_embedding_response.Usage | None", answer.usage)
    return (said.total_tokens if said else 0) or sum(map(estimated_tokens, texts))
