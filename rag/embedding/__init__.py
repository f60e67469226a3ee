"""Turning text into vectors."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]
"""One unit vector, or a row of them."""


class Embedder(Protocol):
    """A model that places passages and questions in one vector space."""

    @property
    def model(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    @property
    def max_tokens(self) -> int: ...

    def count_tokens(self, text: str) -> int:
        """How much of `max_tokens` a text takes, untruncated."""
        ...

    async def embed_passages(self, texts: Sequence[str]) -> Vector: ...

    async def embed_query(self, text: str) -> Vector: ...
