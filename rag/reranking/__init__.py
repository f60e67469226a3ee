"""A second look at the best passages by a model that reads question and passage together."""

from collections.abc import Sequence
from typing import Protocol


class Reranker(Protocol):
    """Says how relevant each text is to the question, from 0 to 1, in the order given.

    It raises `RerankingError` when it cannot; the passages then stay in their own order.
    """

    async def relevance(self, question: str, texts: Sequence[str]) -> list[float]: ...
