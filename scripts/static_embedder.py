"""A second embedder of quite another kind: wordllama's static vectors, averaged over the words."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from rag.embedding import Vector


class StaticEmbedder:
    """The table and the tokenizer that the wordllama wheel carries, without its code."""

    model = "wordllama-256"
    dimension = 256
    max_tokens = 256

    def __init__(self, package: Path) -> None:
        tokenizer = package / "tokenizers" / "l2_supercat_tokenizer_config.json"
        self._tokenizer = Tokenizer.from_file(str(tokenizer))
        tables = load_file(package / "weights" / "l2_supercat_256.safetensors")
        self._table = next(iter(tables.values())).astype(np.float32)

    def count_tokens(self, text: str) -> int:
        return len(self._ids(text))

    async def embed_passages(self, texts: Sequence[str], usage: Any = None) -> Vector:
        return np.stack([self._vector(text) for text in texts])

    async def embed_query(self, text: str) -> Vector:
        return self._vector(text)

    def _ids(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def _vector(self, text: str) -> Vector:
        mean = self._table[self._ids(text) or [0]].mean(axis=0)
        return (mean / np.linalg.norm(mean)).astype(np.float32)
