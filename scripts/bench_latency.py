"""How long retrieval takes in a course of 20,000 passages, beside embedding the question alone."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import numpy as np

from rag.embedding import Embedder
from rag.index import StoredChunk
from rag.index.edge import EdgeIndex
from rag.profile import build_profile
from rag.retrieval import Retriever
from rag.types import AgentConfig, CourseSummary, SearchFilters, chunk_id

CHUNKS = 20_000
AT_ONCE = 50
BOOK = "large"


def grown(stored: Sequence[StoredChunk]) -> list[StoredChunk]:
    """As many passages as wanted, from real ones: copies in files of their own, a little off."""
    noise = np.random.default_rng(0)
    copies: list[StoredChunk] = []
    for number in range(CHUNKS):
        original, round_ = stored[number % len(stored)], number // len(stored)
        chunk, place = original.chunk, original.chunk.metadata
        text = f"{chunk.text} ({round_})" if round_ else chunk.text
        content = f"{number:064x}"
        vector = original.vector + 0.02 * noise.standard_normal(original.vector.shape)
        metadata = place.model_copy(
            update={
                "book_id": BOOK,
                "source_file": f"{round_}/{place.source_file}",
                "content_hash": content,
            }
        )
        id = chunk_id(BOOK, place.module, place.chapter, place.lesson, content[::-1])
        copy = chunk.model_copy(update={"id": id, "text": text, "metadata": metadata})
        unit = (vector / np.linalg.norm(vector)).astype(np.float32)
        copies.append(StoredChunk(copy, unit))
    return copies


async def measured(
    stored: Sequence[StoredChunk], embedder: Embedder, work: Path, questions: Sequence[str]
) -> tuple[float, float]:
    """p95 of retrieval over p95 of embedding, and the gain of asking 50 questions at once."""
    index = EdgeIndex.open(work / BOOK, f"bench_{embedder.model}", embedder.dimension)
    try:
        filters = SearchFilters(book_id=BOOK)
        if await index.count(filters) < CHUNKS:
            await index.write(grown(stored))
            profile = await build_profile(index, embedder, BOOK)
            measured = profile.model_dump(mode="json") if profile else None
            await index.save(
                CourseSummary(book_id=BOOK, title=BOOK, total_chunks=CHUNKS, profile=measured)
            )
        config = AgentConfig(system_prompt="Answer.")
        retriever = Retriever(index, index, embedder, config)

        async def retrieve(question: str) -> None:
            await retriever.retrieve(question, filters)

        async def embed(question: str) -> None:
            await embedder.embed_query(question)

        await retrieve(questions[0])
        ratio = await p95_ratio(retrieve, embed, questions)
        return ratio, await gain_at_once(retrieve, questions[:AT_ONCE])
    finally:
        index.close()


Ask = Callable[[str], Awaitable[None]]


async def p95_ratio(retrieve: Ask, embed: Ask, questions: Sequence[str]) -> float:
    """In turn, so that both meet the same load of the machine."""
    times: dict[Ask, list[float]] = {retrieve: [], embed: []}
    for question in questions:
        for ask, taken in times.items():
            started = time.perf_counter()
            await ask(question)
            taken.append(time.perf_counter() - started)
    return float(np.percentile(times[retrieve], 95) / np.percentile(times[embed], 95))


async def gain_at_once(retrieve: Ask, questions: Sequence[str]) -> float:
    started = time.perf_counter()
    for question in questions:
        await retrieve(question)
    apart = time.perf_counter() - started
    started = time.perf_counter()
    await asyncio.gather(*map(retrieve, questions))
    return apart / (time.perf_counter() - started)
