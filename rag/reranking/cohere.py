"""Reranks with Cohere's API."""

from collections.abc import Sequence

import httpx
from cohere import AsyncClientV2
from cohere.core.api_error import ApiError

from rag.errors import RerankingError

DEFAULT_MODEL = "rerank-v3.5"


class CohereReranker:
    """One of Cohere's rerank models."""

    def __init__(self, client: AsyncClientV2, model: str = DEFAULT_MODEL) -> None:
        self._client = client
        self._model = model

    async def relevance(self, question: str, texts: Sequence[str]) -> list[float]:
        try:
            response = await self._client.rerank(
                model=self._model, query=question, documents=list(texts), top_n=len(texts)
            )
        except (ApiError, httpx.HTTPError) as error:
            raise RerankingError(f"Cohere could not rerank: {_reason(error)}.") from error
        scores = {result.index: result.relevance_score for result in response.results}
        return [scores.get(place, 0.0) for place in range(len(texts))]


def _reason(error: ApiError | httpx.HTTPError) -> str:
    if isinstance(error, ApiError):
        return f"it answered with status {error.status_code}"
    return "it took too long" if isinstance(error, httpx.TimeoutException) else "it is unreachable"
