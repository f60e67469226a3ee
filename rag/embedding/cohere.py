"""Embeds with Cohere's API, which tells passages and questions apart."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, cast

import httpx
from cohere import AsyncClientV2, EmbedByTypeResponse
from cohere.core.api_error import ApiError

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

DEFAULT_MODEL = "embed-english-v3.0"
OWN_URL = "https://api.cohere.com"
# Prices in US dollars, not guaranteed by anyone: FOOTNOTE_EMBEDDING_USD_PER_MILLION overrides them.
MODELS = {
    "embed-english-v3.0": KnownModel(1024, 512, 0.10),
    "embed-multilingual-v3.0": KnownModel(1024, 512, 0.10),
    "embed-english-light-v3.0": KnownModel(384, 512, 0.10),
    "embed-multilingual-light-v3.0": KnownModel(384, 512, 0.10),
    "embed-v4.0": KnownModel(1536, 128_000, 0.12, may_shorten=True),
}
BATCH = BatchLimits(texts=96, tokens=48_000)
LONGEST_TEXT_BYTES = 64_000
"""Cohere cuts a text to its model's limit by itself; this only keeps requests small."""

InputType = Literal["search_document", "search_query"]


class CohereEmbedder:
    """One of Cohere's embedding models."""

    def __init__(
        self,
        client: AsyncClientV2,
        model: RemoteModel,
        address: str = OWN_URL,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.model = model.name
        self.dimension = model.dimension
        self.max_tokens = model.max_tokens
        self._client = client
        self._used = model
        self._provider = Provider("Cohere", address, "COHERE_API_KEY", "COHERE_MODEL")
        self._sleep = sleep
        self._slots = asyncio.Semaphore(REQUESTS_AT_ONCE)

    def count_tokens(self, text: str) -> int:
        return estimated_tokens(text)

    async def embed_passages(self, texts: Sequence[str], usage: Usage | None = None) -> Vector:
        groups = batches([acceptable(text, LONGEST_TEXT_BYTES) for text in texts], BATCH)
        embed = partial(self._embed, "search_document", FOR_PASSAGES, usage or Usage())
        return await embed_batches(groups, self.dimension, self._slots, embed)

    async def embed_query(self, text: str) -> Vector:
        texts = [acceptable(text, LONGEST_TEXT_BYTES)]
        return (await self._embed("search_query", FOR_A_QUERY, Usage(), texts))[0]

    async def _embed(
        self, input_type: InputType, patience: Patience, usage: Usage, texts: list[str]
    ) -> Vector:
        request = partial(self._request, input_type, texts)
        try:
            reply = await persistently(request, asked_delay, patience, self._sleep)
        except RequestFailed as failure:
            raise EmbeddingError(failure.explained(self._provider, self.model)) from failure
        usage.add(reply.tokens, self._used.usd_per_million)
        return unit_rows(self._provider, self._used, reply.rows, len(texts))

    async def _request(self, input_type: InputType, texts: list[str]) -> Reply:
        options: dict[str, Any] = {}
        if self._used.requested_dimension is not None:
            options["output_dimension"] = self._used.requested_dimension
        try:
            answer = await self._client.embed(
                model=self.model,
                input_type=input_type,
                texts=texts,
                embedding_types=["float"],
                truncate="END",
                **options,
            )
            return Reply(answer.embeddings.float_ or [], billed_tokens(answer, texts))
        except httpx.TimeoutException as error:
            raise RequestFailed(timed_out=True) from error
        except httpx.HTTPError as error:
            raise RequestFailed from error
        except ApiError as error:
            raise failure_of(error) from error
        except (AttributeError, TypeError) as error:  # the SDK hands on whatever it was sent
            raise EmbeddingError("Cohere sent a reply that holds no vectors.") from error


def failure_of(error: ApiError) -> RequestFailed:
    body: object = error.body
    if isinstance(body, dict):
        body = cast("dict[str, object]", body).get("message") or body
    return RequestFailed(error.status_code or 0, str(body or ""), error.headers or {})


def billed_tokens(answer: EmbedByTypeResponse, texts: Sequence[str]) -> int:
    """What Cohere bills, or our estimate where it does not say."""
    billed = answer.meta.billed_units if answer.meta else None
    said = billed.input_tokens if billed else None
    return round(said or 0) or sum(map(estimated_tokens, texts))
