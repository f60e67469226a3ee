"""Measures ingestion and search, each as a ratio to something run beside it in the same run.

    make bench                     everything
    make bench ONLY="search"       one measure: embedding, search, ingestion, memory

Absolute times differ from machine to machine and are printed only to give the ratios a scale.
"""

import argparse
import asyncio
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from rich.console import Console
from rich.table import Table

from rag.embedding import Vector
from rag.embedding.local import LocalEmbedder, wheel_folder
from rag.index import StoredChunk
from rag.index.edge import EdgeIndex
from rag.ingestion.course import load_course
from rag.ingestion.pipeline import Ingestion
from rag.types import DocumentChunk, IngestionJob, SearchFilters, chunk_id, parent_id

MODULES = ("ros2", "gazebo", "isaac", "vla")
QUERIES = (
    "How does ownership move between functions?",
    "What is the difference between a struct and an enum?",
    "How do I handle an error that cannot be recovered from?",
    "When are two lifetimes the same?",
    "How do threads send messages to each other?",
    "What does the borrow checker forbid?",
    "How do I write a test that must panic?",
    "Which collections are in the standard library?",
)
SEARCH_SIZES = {2_000: (0.3, 0.2), 20_000: (1.0, 0.5), 100_000: (3.0, 1.5)}
T = TypeVar("T")
console = Console()


@dataclass(frozen=True)
class Row:
    """One line of the table: what was measured, beside what, and what it should be."""

    measure: str
    ours: str
    beside: str
    ratio: str
    bar: str
    aim: str


async def main(data: Path, only: Sequence[str], most: int) -> None:
    measures: dict[str, Callable[[Path, int], Awaitable[list[Row]]]] = {
        "embedding": embedding,
        "search": search,
        "ingestion": ingestion,
        "memory": memory,
    }
    table = Table("measure", "ours", "beside it", "ratio", "bar", "aim")
    for name in only or measures:
        console.print(f"{name} …", style="dim")
        for row in await measures[name](data, most):
            table.add_row(row.measure, row.ours, row.beside, row.ratio, row.bar, row.aim)
    console.print(table)


# --- Embedding, beside sentence-transformers on torch --------------------------------------------


async def embedding(data: Path, most: int) -> list[Row]:
    # Only in the benchmark's own environment.
    from sentence_transformers import SentenceTransformer  # pyright: ignore[reportMissingImports]

    embedder = LocalEmbedder.load()
    reference = SentenceTransformer(str(wheel_folder()), device="cpu")
    reference.max_seq_length = embedder.max_tokens
    texts = [c.embedding_input for c in await real_chunks(data, 256)]

    def encode(given: Sequence[str]) -> Vector:
        return reference.encode(list(given), batch_size=32, normalize_embeddings=True)

    ours: list[float] = []
    theirs: list[float] = []
    vectors = expected = np.empty(0, np.float32)
    for _ in range(2):
        seconds, vectors = await timed_async(lambda: embedder.embed_passages(texts))
        ours.append(seconds)
        seconds, expected = timed(lambda: encode(texts))
        theirs.append(seconds)
    apart = float(np.abs(vectors - expected).max())
    fast, slow = len(texts) / min(ours), len(texts) / min(theirs)
    one: list[float] = []
    beside: list[float] = []
    for query in QUERIES * 10:
        one.append((await timed_async(lambda q=query: embedder.embed_query(q)))[0])
        beside.append(timed(lambda q=query: encode([q]))[0])
    mine, other = statistics.median(one), statistics.median(beside)
    return [
        Row(
            "chunks embedded a second",
            f"{fast:.0f}",
            f"{slow:.0f} (torch)",
            f"{fast / slow:.2f} ×",
            "≥ 1.1 ×",
            "≥ 2 ×",
        ),
        Row("largest difference of a vector's component", f"{apart:.1e}", "0", "", "< 5e-4", ""),
        Row(
            "one query",
            f"{mine * 1000:.1f} ms",
            f"{other * 1000:.1f} ms (torch)",
            f"{mine / other:.2f} ×",
            "≤ 1 ×",
            "≤ 0.5 ×",
        ),
    ]


# --- Searching, beside the embedding of the query ------------------------------------------------


async def search(data: Path, most: int) -> list[Row]:
    embedder = LocalEmbedder.load()
    seeds = await real_chunks(data, 1_000)
    vectors = await embedder.embed_passages([c.embedding_input for c in seeds])
    rows: list[Row] = []
    for size, (bar, aim) in SEARCH_SIZES.items():
        if size > most:
            continue
        with tempfile.TemporaryDirectory() as folder:
            filled = EdgeIndex.open(Path(folder), "bench", embedder.dimension)
            for batch in grown(seeds, vectors, size):
                await filled.write(batch)
            filled.close()
            index = EdgeIndex.open(Path(folder), "bench", embedder.dimension)
            embed, find = await search_times(embedder, index)
            index.close()
        p50 = statistics.median(find) / statistics.median(embed)
        beside = f"{statistics.median(embed) * 1000:.1f} ms (one query embedded)"
        rows.append(
            Row(
                f"hybrid filtered search, {size:,} chunks",
                f"{statistics.median(find) * 1000:.1f} ms",
                beside,
                f"{p50:.2f} ×",
                f"≤ {bar} ×",
                f"≤ {aim} ×",
            )
        )
    return rows


async def search_times(
    embedder: LocalEmbedder, index: EdgeIndex
) -> tuple[list[float], list[float]]:
    embed: list[float] = []
    find: list[float] = []
    for number, query in enumerate(QUERIES * 12):
        filters = SearchFilters(
            book_id="bench", module_filter=MODULES[number % 4], hardware_tier_filter=3
        )
        seconds, vector = await timed_async(lambda q=query: embedder.embed_query(q))
        embed.append(seconds)
        seconds, _ = await timed_async(
            lambda v=vector, q=query, f=filters: index.search(v, {q: 1.0}, f, 50)
        )
        find.append(seconds)
    return embed[8:], find[8:]


def grown(seeds: list[DocumentChunk], vectors: Vector, size: int) -> Iterator[list[StoredChunk]]:
    """As many chunks as asked for: real texts with some words exchanged, real vectors moved."""
    chance = random.Random(7)
    noise = np.random.default_rng(7)
    words = [word for chunk in seeds for word in chunk.text.split()]
    batch: list[StoredChunk] = []
    for number in range(size):
        seed = number % len(seeds)
        text = seeds[seed].text.split()
        for _ in range(8):
            text[chance.randrange(len(text))] = chance.choice(words)
        moved = vectors[seed] + noise.normal(0, 0.02, vectors.shape[1]).astype(np.float32)
        batch.append(
            StoredChunk(placed(seeds[seed], " ".join(text), number), moved / np.linalg.norm(moved))
        )
        if len(batch) == 500 or number == size - 1:
            yield batch
            batch = []


def placed(seed: DocumentChunk, text: str, number: int) -> DocumentChunk:
    module, chapter, lesson = MODULES[number % 4], number // 400, number // 20 % 20
    place = ("bench", module, chapter, lesson)
    metadata = seed.metadata.model_copy(
        update={
            "book_id": "bench",
            "module": module,
            "chapter": chapter,
            "lesson": lesson,
            "hardware_tier": 1 + number % 4,
            "chunk_index": 0,
            "total_chunks": 1,
            "prev_chunk_id": None,
            "next_chunk_id": None,
            "parent_doc_id": parent_id(*place),
        }
    )
    id = chunk_id(*place, f"{number:016d}")
    return seed.model_copy(update={"id": id, "text": text.strip(), "metadata": metadata})


# --- Ingesting again, beside the first time ------------------------------------------------------


async def ingestion(data: Path, most: int) -> list[Row]:
    embedder = LocalEmbedder.load()
    with tempfile.TemporaryDirectory() as scratch:
        book = Path(scratch) / "book"
        shutil.copytree(data / "rust_book" / "corpus", book)
        index = EdgeIndex.open(Path(scratch) / "index", "bench", embedder.dimension)
        first, _ = await timed_async(lambda: ingested(index, embedder, book))
        again, _ = await timed_async(lambda: ingested(index, embedder, book))
        edit_a_paragraph(book)
        _, edited = await timed_async(lambda: ingested(index, embedder, book))
        index.close()
    return [
        Row(
            "rust_book again, unchanged",
            f"{again:.2f} s",
            f"{first:.1f} s (first time)",
            f"1/{first / again:.0f}",
            "≤ 1/20",
            "≤ 1/100",
        ),
        Row(
            "rust_book with one paragraph edited",
            f"{edited.chunks_embedded} embedded",
            f"{edited.chunks_created} changed",
            "",
            "only these",
            "",
        ),
    ]


async def ingested(index: EdgeIndex, embedder: LocalEmbedder, folder: Path) -> IngestionJob:
    course = load_course(folder, "bench")
    job = IngestionJob(job_id=1, book_id="bench")
    ingestion = Ingestion(index, index, embedder)
    return await ingestion.run(course, job, "incremental", lambda job, progress: None)


def edit_a_paragraph(book: Path) -> None:
    page = max(book.rglob("*.md"), key=lambda path: path.stat().st_size)
    paragraphs = page.read_text("utf-8").split("\n\n")
    plain = [n for n, text in enumerate(paragraphs) if len(text) > 200 and text[0].isalpha()]
    paragraphs[plain[len(plain) // 2]] += " This sentence was added."
    page.write_text("\n\n".join(paragraphs), "utf-8")


# --- Peak memory, beside half the data -----------------------------------------------------------


async def memory(data: Path, most: int) -> list[Row]:
    """In processes of their own, since a process never gives its peak back."""
    docs = data / "ros2_documentation" / "corpus"
    with tempfile.TemporaryDirectory() as scratch:
        twice = Path(scratch) / "twice"
        shutil.copytree(docs, twice / "one")
        shutil.copytree(docs, twice / "two")
        for page in (twice / "two").rglob("*.rst"):
            # Other words, or the second copy would be recognised as a duplicate of the first.
            page.write_text(page.read_text("utf-8").replace(" the ", " this "), "utf-8")
        idle = await asyncio.to_thread(peak_of, None)
        once = await asyncio.to_thread(peak_of, docs)
        double = await asyncio.to_thread(peak_of, twice)
    return [
        Row(
            "peak memory, twice ros2_documentation",
            f"{double:.0f} MB",
            f"{once:.0f} MB (once; {idle:.0f} MB before)",
            f"{double / once:.2f} ×",
            "far below 2 ×",
            "",
        ),
    ]


def peak_of(folder: Path | None) -> float:
    command = [sys.executable, __file__, "--peak-of", str(folder or "")]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(answer.stdout.split()[-1])


async def print_peak(folder: str) -> None:
    embedder = LocalEmbedder.load()
    with tempfile.TemporaryDirectory() as scratch:
        index = EdgeIndex.open(Path(scratch), "bench", embedder.dimension)
        if folder:
            await ingested(index, embedder, Path(folder))
        index.close()
    sys.stdout.write(f"{peak_megabytes():.0f}\n")


def peak_megabytes() -> float:
    """Of this program alone: what getrusage says on Linux includes what started it."""
    if sys.platform == "linux":
        status = Path("/proc/self/status").read_text("ascii")
        (kilobytes,) = (row.split()[1] for row in status.splitlines() if row.startswith("VmHWM"))
        return int(kilobytes) / 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 / 1024


# --- What they share -----------------------------------------------------------------------------


async def real_chunks(data: Path, count: int) -> list[DocumentChunk]:
    """Chunks of rust_book as ingestion cuts them."""
    from tests.fakes import WordEmbedder

    model = LocalEmbedder.load()
    cutter = WordEmbedder(dimension=8, max_tokens=model.max_tokens)
    cutter.count_tokens = model.count_tokens  # the real limits, without the real embedding
    with tempfile.TemporaryDirectory() as scratch:
        index = EdgeIndex.open(Path(scratch), "cut", cutter.dimension)
        course = load_course(data / "rust_book" / "corpus", "bench")
        job = IngestionJob(job_id=1, book_id="bench")
        await Ingestion(index, index, cutter).run(course, job, "full", lambda job, progress: None)
        stored = await index.read(filters=SearchFilters(book_id="bench"))
        index.close()
    chunks = [entry.chunk for entry in stored]
    return random.Random(7).sample(chunks, min(count, len(chunks)))


def timed(work: Callable[[], T]) -> tuple[float, T]:
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


async def timed_async(work: Callable[[], Awaitable[T]]) -> tuple[float, T]:
    started = time.perf_counter()
    result = await work()
    return time.perf_counter() - started, result


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("only", nargs="*")
    arguments.add_argument("--data", type=Path, default=Path("../shared/data"))
    arguments.add_argument("--most", type=int, default=100_000, help="chunks at the most")
    arguments.add_argument("--peak-of", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.peak_of is not None:
        asyncio.run(print_peak(given.peak_of))
    else:
        asyncio.run(main(given.data, given.only, given.most))
