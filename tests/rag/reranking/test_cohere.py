"""Cohere's rerank endpoint, spoken to over a transport of our own."""

import json

import httpx
import pytest
from cohere import AsyncClientV2

from rag.errors import RerankingError
from rag.reranking.cohere import CohereReranker


def reranker(handler: httpx.MockTransport) -> CohereReranker:
    http = httpx.AsyncClient(transport=handler)
    return CohereReranker(
        AsyncClientV2("key", base_url="http://cohere.test", httpx_client=http, max_retries=0)
    )


async def test_relevance_comes_back_in_the_order_of_the_texts() -> None:
    seen: list[dict[str, object]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(json.loads(request.content))
        found = [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.2}]
        return httpx.Response(200, json={"id": "1", "results": found})

    relevance = await reranker(httpx.MockTransport(answer)).relevance("why?", ["one", "two"])
    assert relevance == [0.2, 0.9]
    assert (seen[0]["query"], seen[0]["documents"]) == ("why?", ["one", "two"])


@pytest.mark.parametrize("status", [401, 429, 500])
async def test_a_refusal_is_one_sentence(status: int) -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(status, json={"message": "no"}))
    with pytest.raises(RerankingError, match=f"it answered with status {status}"):
        await reranker(transport).relevance("why?", ["one"])


@pytest.mark.parametrize(
    ("error", "sentence"),
    [(httpx.ConnectError, "unreachable"), (httpx.ReadTimeout, "took too long")],
)
async def test_a_broken_line_is_one_sentence(error: type[httpx.HTTPError], sentence: str) -> None:
    def fail(request: httpx.Request) -> httpx.Response:
        raise error("gone")

    with pytest.raises(RerankingError, match=sentence):
        await reranker(httpx.MockTransport(fail)).relevance("why?", ["one"])
