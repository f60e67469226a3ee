"""What LlamaIndex's and LangChain's default pipelines find with the same embedder.

Runs in `.venv-bench-quality`, which has those two beside Footnote's own packages; prints one JSON
document: for each pipeline and course the files of every question, best first.

    .venv-bench-quality/bin/python scripts/bench_others.py ../shared/data --work .bench
"""

import argparse
import asyncio
import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from evaluation_courses import Course, courses_in

from rag.embedding.local import LocalEmbedder

RETRIEVED = 50
"""Passages asked for, so that the first ten distinct files are known."""
Files = list[str]


class CachedEmbedder:
    """Footnote's own embedder as plain calls; vectors are kept, since passages take long."""

    def __init__(self, cache: Path) -> None:
        self._embedder = LocalEmbedder.load()
        self._cache = cache
        self._known: dict[str, Any] = {}
        if cache.exists():
            with np.load(cache) as kept:
                self._known = {name: kept[name] for name in kept.files}

    def passages(self, texts: Sequence[str]) -> list[list[float]]:
        keys = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
        missing = {k: t for k, t in zip(keys, texts, strict=True) if k not in self._known}
        if missing:
            vectors = asyncio.run(self._embedder.embed_passages(list(missing.values())))
            self._known.update(zip(missing, vectors, strict=True))
            np.savez(self._cache, **self._known)
        return [self._known[key].tolist() for key in keys]

    def query(self, text: str) -> list[float]:
        return self.passages([text])[0]


def texts_of(course: Course) -> dict[str, str]:
    paths = sorted(p for p in course.folder.rglob("*") if p.suffix in (".md", ".mdx"))
    return {
        path.relative_to(course.folder).as_posix(): path.read_text(encoding="utf-8")
        for path in paths
    }


def llama_index(course: Course, embedder: CachedEmbedder) -> Callable[[str], Files]:
    """`VectorStoreIndex.from_documents` and its retriever, all defaults."""
    base = import_module("llama_index.core.embeddings").BaseEmbedding
    core = import_module("llama_index.core")
    schema = import_module("llama_index.core.schema")

    class Adapter(base):
        def _get_query_embedding(self, query: str) -> list[float]:
            return embedder.query(query)

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return embedder.query(query)

        def _get_text_embedding(self, text: str) -> list[float]:
            return embedder.passages([text])[0]

        def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
            return embedder.passages(texts)

    documents = [
        schema.Document(text=text, metadata={"file_path": name})
        for name, text in texts_of(course).items()
    ]
    model = Adapter(model_name="all-MiniLM-L6-v2", embed_batch_size=512)
    index = core.VectorStoreIndex.from_documents(documents, embed_model=model)
    retriever = index.as_retriever(similarity_top_k=RETRIEVED)
    return lambda question: [n.node.metadata["file_path"] for n in retriever.retrieve(question)]


def langchain(course: Course, embedder: CachedEmbedder, **sizes: int) -> Callable[[str], Files]:
    """Its recommended splitter and its vector store."""
    embeddings = import_module("langchain_core.embeddings").Embeddings
    stores = import_module("langchain_core.vectorstores")
    splitters = import_module("langchain_text_splitters")

    class Adapter(embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return embedder.passages(texts)

        def embed_query(self, text: str) -> list[float]:
            return embedder.query(text)

    splitter = splitters.RecursiveCharacterTextSplitter(**sizes)
    texts = texts_of(course)
    names = [{"file_path": name} for name in texts]
    store = stores.InMemoryVectorStore(Adapter())
    store.add_documents(splitter.create_documents(list(texts.values()), names))
    return lambda question: [
        found.metadata["file_path"] for found in store.similarity_search(question, k=RETRIEVED)
    ]


PIPELINES: dict[str, Callable[[Course, CachedEmbedder], Callable[[str], Files]]] = {
    "LlamaIndex": llama_index,
    # As in its introduction to retrieval, and as the splitter cuts when it is told nothing.
    "LangChain": partial(langchain, chunk_size=1000, chunk_overlap=200),
    "LangChain's defaults": langchain,
}


def main(data: Path, work: Path) -> None:
    work.mkdir(parents=True, exist_ok=True)
    found: dict[str, dict[str, list[Files]]] = {}
    for name, pipeline in PIPELINES.items():
        found[name] = {}
        for course in courses_in(data):
            embedder = CachedEmbedder(work / f"{name}_{course.name}.npz")
            ask = pipeline(course, embedder)
            found[name][course.name] = [
                list(dict.fromkeys(ask(asked.question)))[:10] for asked in course.questions
            ]
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("data", type=Path)
    arguments.add_argument("--work", type=Path, default=Path(".bench"))
    given = arguments.parse_args()
    main(given.data, given.work)
