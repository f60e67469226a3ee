"""Turning text into vectors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]
"""One unit vector, or a row of them."""


@dataclass
class Usage:
    """What embedding has taken so far. Whoever embeds hands one in, so that of several that embed
    at once each learns its own share, and what was paid before a failure is known too."""

    tokens: int = 0
    cost_usd: float | None = 0.0
    """None as soon as a part of it has no known price."""

    def add(self, tokens: int, usd_per_million: float | None) -> None:
        self.tokens += tokens
        if usd_per_million is None:
            self.cost_usd = None
        elif self.cost_usd is not None:
            self.cost_usd += tokens * usd_per_million / 1_000_000


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

    async def embed_passages(self, texts: Sequence[str], usage: Usage | None = None) -> Vector: ...

    async def embed_query(self, text: str) -> Vector: ...
