"""Small stand-ins for what is slow or costs money."""

import zlib
from collections.abc import Sequence

import numpy as np

from rag.embedding import Usage, Vector


class WordEmbedder:
    """Hashes words into a small unit vector; a token is a word. It remembers what it embedded."""

    def __init__(
        self, *, dimension: int = 16, max_tokens: int = 64, model: str = "word-hash"
    ) -> None:
        self.model = model
        self.dimension = dimension
        self.max_tokens = max_tokens
        self.embedded: list[str] = []

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    async def embed_passages(self, texts: Sequence[str], usage: Usage | None = None) -> Vector:
        self.embedded += texts
        if usage is not None:
            usage.add(sum(map(self.count_tokens, texts)), usd_per_million=1.0)
        return np.stack([self.vector(text) for text in texts])

    async def embed_query(self, text: str) -> Vector:
        return self.vector(text)

    def vector(self, text: str) -> Vector:
        vector = np.zeros(self.dimension, np.float32)
        for word in text.lower().split():
            vector[zlib.crc32(word.encode()) % self.dimension] += 1.0
        length = float(np.linalg.norm(vector))
        return vector / np.float32(length) if length else vector
