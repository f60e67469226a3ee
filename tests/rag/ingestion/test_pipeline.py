"""Every run here writes into the real embedded index, whose content is then checked as a whole."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag.embedding import Usage, Vector
from rag.errors import EmbeddingError, FootnoteError, IndexingError, IngestionError
from rag.index import StoredChunk
from rag.index.edge import EdgeIndex
from rag.ingestion.assembly import sha256
from rag.ingestion.course import load_course
from rag.ingestion.pipeline import UNFINISHED, Ingestion, Progress
from rag.types import (
    CourseSummary,
    IngestionJob,
    IngestionMode,
    IngestionRecord,
    IngestionState,
    SearchFilters,
    chunk_id,
    parent_id,
)
from tests.factories import make_chunk
from tests.fakes import WordEmbedder
from tests.rag.ingestion.test_course import write

BOOK = "robotics"
OTHER_BOOK = "cooking"
NODES = "---\nchapter: 1\nlesson: 1\n---\n# Nodes\n\nA node does one job in the graph.\n\n"
TOPICS = "## Topics\n\nTopics carry typed messages.\n\n## Services\n\nServices answer a request.\n"
LESSONS = {
    "01-nodes.md": NODES + TOPICS,
    "02-arms.md": "# Arms\n\nAn arm has several joints.\n\n## Grippers\n\nIt holds things.\n",
    "notes.md": "Loose notes about motors and gears.\n",
}


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[EdgeIndex]]:
    """Opening takes longer than any of these runs, so two indexes serve all of them."""
    folders = [tmp_path_factory.mktemp("index") for _ in range(2)]
    indexes = [EdgeIndex.open(folder, "chunks", 16) for folder in folders]
    yield indexes
    for index in indexes:
        index.close()


async def emptied(index: EdgeIndex) -> EdgeIndex:
    for book in (BOOK, OTHER_BOOK):
        stored = await index.read(filters=SearchFilters(book_id=book))
        await index.delete([entry.chunk.id for entry in stored])
        await index.forget(book)
    return index


@pytest.fixture
async def index(opened: list[EdgeIndex]) -> EdgeIndex:
    return await emptied(opened[0])


@pytest.fixture
def second(opened: list[EdgeIndex]) -> EdgeIndex:
    return opened[1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "course", LESSONS)


async def ingest(
    index: Any,
    folder: Path,
    mode: IngestionMode = "incremental",
    *,
    embedder: WordEmbedder | None = None,
    seen: list[tuple[IngestionJob, Progress]] | None = None,
) -> IngestionJob:
    course = load_course(folder, BOOK)
    job = IngestionJob(job_id=1, book_id=BOOK)
    log = seen if seen is not None else []
    ingestion = Ingestion(index, index, embedder or WordEmbedder())
    return await ingestion.run(course, job, mode, lambda job, at: log.append((job, at)))


async def stored_chunks(index: EdgeIndex) -> list[StoredChunk]:
    return await index.read(filters=SearchFilters(book_id=BOOK))


async def snapshot(index: EdgeIndex) -> dict[str, Any]:
    """All that is stored, without its history."""
    times = {"metadata": {"version", "created_at", "updated_at"}, "embedded_at": True}
    chunks = await stored_chunks(index)
    return {entry.chunk.id: entry.chunk.model_dump(exclude=times) for entry in chunks}


async def fresh_snapshot(second: EdgeIndex, folder: Path) -> dict[str, Any]:
    """What a first run into an empty index stores."""
    await ingest(await emptied(second), folder)
    return await snapshot(second)


async def check_invariants(index: EdgeIndex) -> None:
    """002's invariants, on what lies in the index."""
    stored = {entry.chunk.id: entry for entry in await stored_chunks(index)}
    state = await index.load(BOOK)
    check_records(state, stored)
    for entry in stored.values():
        check_chunk(entry)
    for file in state.records:
        check_chain([e for e in stored.values() if e.chunk.metadata.source_file == file])
    [summary] = [course for course in await index.courses() if course.book_id == BOOK]
    assert summary.total_chunks == len(stored)
    assert not summary.unsettled


def check_records(state: IngestionState, stored: dict[str, StoredChunk]) -> None:
    held = {id for record in state.records.values() for id in record.chunk_ids}
    assert held == stored.keys()
    for id, entry in stored.items():
        holders = [file for file, record in state.records.items() if id in record.chunk_ids]
        assert entry.chunk.metadata.source_file == min(holders)
    assert all(record.file_hash != UNFINISHED for record in state.records.values())


def check_chunk(entry: StoredChunk) -> None:
    chunk, metadata = entry.chunk, entry.chunk.metadata
    place = (metadata.book_id, metadata.module, metadata.chapter, metadata.lesson)
    assert metadata.content_hash == sha256(chunk.text)
    assert chunk.id == chunk_id(*place, metadata.content_hash)
    assert metadata.parent_doc_id == parent_id(*place)
    assert chunk.embedded_hash == sha256(chunk.embedding_input)
    assert chunk.token_count == max(1, round(chunk.word_count * 1.3))
    assert chunk.embedded_at is not None
    assert np.allclose(entry.vector, WordEmbedder().vector(chunk.embedding_input), atol=1e-5)


def check_chain(entries: list[StoredChunk]) -> None:
    chunks = sorted((e.chunk for e in entries), key=lambda chunk: chunk.metadata.chunk_index)
    ids = [chunk.id for chunk in chunks]
    for index, chunk in enumerate(chunks):
        metadata = chunk.metadata
        assert (metadata.chunk_index, metadata.total_chunks) == (index, len(chunks))
        assert metadata.prev_chunk_id == (ids[index - 1] if index else None)
        assert metadata.next_chunk_id == (ids[index + 1] if index + 1 < len(ids) else None)


def counts(job: IngestionJob) -> dict[str, int]:
    names = ("processed", "skipped", "failed", "deleted")
    return {name: getattr(job, f"files_{name}") for name in names}


# --- A first run, and nothing to do --------------------------------------------------------------


async def test_a_first_run_indexes_everything(index: EdgeIndex, folder: Path) -> None:
    seen: list[tuple[IngestionJob, Progress]] = []
    job = await ingest(index, folder, seen=seen)
    assert job.status == "completed"
    assert counts(job) == {"processed": 3, "skipped": 0, "failed": 0, "deleted": 0}
    assert job.chunks_created == job.chunks_embedded == 6
    assert [seen[0][0].status, seen[-1][0].status] == ["running", "completed"]
    assert seen[-1][1] == Progress(files_done=3, files_total=3, chunks_done=6)
    await check_invariants(index)


async def test_a_run_reports_its_tokens_and_their_cost(index: EdgeIndex, folder: Path) -> None:
    embedder = WordEmbedder()
    job = await ingest(index, folder, embedder=embedder)
    words = sum(len(text.split()) for text in embedder.embedded)
    assert job.tokens_embedded == words > 0
    assert job.cost_usd == pytest.approx(words / 1_000_000)
    again = await ingest(index, folder, embedder=embedder)
    assert (again.tokens_embedded, again.cost_usd) == (0, 0.0)
    assert [course.embedding_model for course in await index.courses()] == ["word-hash"]


async def test_places_titles_and_addresses_are_stored(index: EdgeIndex, folder: Path) -> None:
    await ingest(index, folder)
    found = {e.chunk.text: e.chunk.metadata for e in await stored_chunks(index)}
    topics = found["Topics carry typed messages."]
    assert (topics.chapter, topics.lesson, topics.chapter_declared) == (1, 1, True)
    assert (topics.section_title, topics.breadcrumb) == ("Topics", "Nodes > Topics")
    assert topics.url == "/read/robotics/01-nodes.md#topics"
    assert topics.source_file_hash == sha256(LESSONS["01-nodes.md"])
    notes = found["Loose notes about motors and gears."]
    assert (notes.chapter, notes.lesson, notes.chapter_declared) == (3, 1, False)
    assert (notes.page_title, notes.section) == ("Notes", "Notes")


async def test_an_unchanged_course_is_skipped(index: EdgeIndex, folder: Path) -> None:
    await ingest(index, folder)
    embedder = WordEmbedder()
    job = await ingest(index, folder, embedder=embedder)
    assert counts(job) == {"processed": 0, "skipped": 3, "failed": 0, "deleted": 0}
    assert embedder.embedded == []
    await check_invariants(index)


async def test_the_summary_remembers_both_kinds_of_run(index: EdgeIndex, folder: Path) -> None:
    await ingest(index, folder, "full")
    [first] = await index.courses()
    await ingest(index, folder)
    [second] = await index.courses()
    assert (first.title, first.total_chunks) == ("Course", 6)
    assert first.last_full_ingest is not None
    assert first.last_incremental_update is None
    assert second.last_full_ingest == first.last_full_ingest
    assert second.last_incremental_update is not None


async def test_passages_are_ingested_and_lines_that_leave_are_removed(
    index: EdgeIndex, tmp_path: Path
) -> None:
    lines = [f'{{"id": "p{i}", "title": "T", "text": "Passage number {i} here."}}' for i in "123"]
    folder = write(tmp_path / "set", {"corpus.jsonl": "\n".join(lines), "questions.jsonl": "{}"})
    job = await ingest(index, folder)
    assert job.files_discovered == job.files_processed == job.chunks_created == 3
    write(folder, {"corpus.jsonl": "\n".join(lines[1:])})
    assert (await ingest(index, folder)).files_deleted == 1
    await check_invariants(index)
    write(folder, {"corpus.jsonl": "\n".join([lines[1], "{broken"])})
    job = await ingest(index, folder)
    assert counts(job) == {"processed": 0, "skipped": 1, "failed": 1, "deleted": 0}


# --- Changes -----------------------------------------------------------------------------------


async def test_an_edited_paragraph_alone_is_embedded(
    index: EdgeIndex, folder: Path, second: EdgeIndex
) -> None:
    await ingest(index, folder)
    before = {e.chunk.text: e.chunk for e in await stored_chunks(index)}
    edited = LESSONS["01-nodes.md"].replace("typed messages", "many typed messages")
    write(folder, {"01-nodes.md": edited})
    embedder = WordEmbedder()
    job = await ingest(index, folder, embedder=embedder)
    assert embedder.embedded == ["Nodes > Topics\nTopics carry many typed messages."]
    assert counts(job) == {"processed": 1, "skipped": 2, "failed": 0, "deleted": 0}
    assert (job.chunks_created, job.chunks_deleted, job.chunks_embedded) == (1, 1, 1)
    await check_invariants(index)
    assert await snapshot(index) == await fresh_snapshot(second, folder)

    after = {e.chunk.text: e.chunk for e in await stored_chunks(index)}
    old, new = before["Topics carry typed messages."], after["Topics carry many typed messages."]
    assert new.metadata.version == 2
    assert new.metadata.created_at == old.metadata.created_at
    assert new.metadata.updated_at > old.metadata.updated_at
    kept = after["Services answer a request."]
    assert kept.metadata.version == 1
    assert kept.embedded_at == before["Services answer a request."].embedded_at


async def test_a_changed_heading_is_a_change_of_the_same_chunk(
    index: EdgeIndex, folder: Path
) -> None:
    await ingest(index, folder)
    before = {e.chunk.text: e.chunk for e in await stored_chunks(index)}
    write(folder, {"01-nodes.md": LESSONS["01-nodes.md"].replace("## Topics", "## Channels")})
    job = await ingest(index, folder)
    after = {e.chunk.text: e.chunk for e in await stored_chunks(index)}
    old, new = (chunks["Topics carry typed messages."] for chunks in (before, after))
    assert new.id == old.id
    assert (new.metadata.version, new.metadata.section_title) == (2, "Channels")
    assert new.metadata.created_at == old.metadata.created_at
    assert (job.chunks_created, job.chunks_embedded) == (0, 1)
    await check_invariants(index)


@pytest.mark.parametrize(
    ("change", "url", "chapter"),
    [
        ({"course.toml": 'base_url = "https://x.org"'}, "https://x.org/nodes", "Nodes"),
        ({"course.toml": '[chapters]\n1 = "One"'}, "/read/robotics/01-nodes.md", "One"),
    ],
)
async def test_changed_settings_take_effect_without_embedding(
    index: EdgeIndex, folder: Path, change: dict[str, str], url: str, chapter: str
) -> None:
    await ingest(index, folder)
    write(folder, change)
    embedder = WordEmbedder()
    job = await ingest(index, folder, embedder=embedder)
    assert job.files_processed == 3
    assert embedder.embedded == []
    first = (await stored_chunks(index))[0].chunk.metadata
    assert (first.url, first.chapter_title, first.version) == (url, chapter, 2)
    await check_invariants(index)


async def test_a_deleted_file_leaves_nothing_behind(index: EdgeIndex, folder: Path) -> None:
    await ingest(index, folder)
    (folder / "02-arms.md").unlink()
    job = await ingest(index, folder)
    assert counts(job) == {"processed": 0, "skipped": 2, "failed": 0, "deleted": 1}
    assert job.chunks_deleted == 2
    assert list((await index.load(BOOK)).records) == ["01-nodes.md", "notes.md"]
    await check_invariants(index)


async def test_a_renamed_file_keeps_its_points_where_its_numbers_stay(
    index: EdgeIndex, folder: Path
) -> None:
    await ingest(index, folder)
    before = (await snapshot(index)).keys()
    (folder / "01-nodes.md").rename(folder / "01-zz-nodes.md")
    embedder = WordEmbedder()
    job = await ingest(index, folder, embedder=embedder)
    assert counts(job) == {"processed": 1, "skipped": 2, "failed": 0, "deleted": 1}
    assert (job.chunks_created, job.chunks_deleted) == (0, 0)
    assert embedder.embedded == []
    assert (await snapshot(index)).keys() == before
    await check_invariants(index)


async def test_given_numbers_survive_a_new_file_that_sorts_before(
    index: EdgeIndex, folder: Path
) -> None:
    await ingest(index, folder)
    write(folder, {"about.md": "About this course of robots."})
    await ingest(index, folder)
    records = (await index.load(BOOK)).records
    assert (records["notes.md"].chapter, records["about.md"].chapter) == (3, 4)
    await check_invariants(index)


async def test_full_reads_and_embeds_every_file_again(index: EdgeIndex, folder: Path) -> None:
    await ingest(index, folder)
    before = await snapshot(index)
    embedder = WordEmbedder()
    job = await ingest(index, folder, "full", embedder=embedder)
    assert counts(job) == {"processed": 3, "skipped": 0, "failed": 0, "deleted": 0}
    assert (len(embedder.embedded), job.chunks_embedded, job.chunks_created) == (6, 6, 0)
    assert await snapshot(index) == before
    assert {e.chunk.metadata.version for e in await stored_chunks(index)} == {1}
    await check_invariants(index)


async def test_recreate_removes_leftovers_of_this_course_only(
    index: EdgeIndex, folder: Path
) -> None:
    await ingest(index, folder)
    vector = WordEmbedder().vector("left over")
    leftover = make_chunk("A chunk that no record holds.", book_id=BOOK)
    foreign = make_chunk("A chunk of another course.", book_id=OTHER_BOOK)
    await index.write([StoredChunk(leftover, vector), StoredChunk(foreign, vector)])
    await ingest(index, folder, "full")
    assert len(await index.read(ids=[leftover.id])) == 1
    job = await ingest(index, folder, "recreate")
    assert (job.chunks_deleted, job.chunks_embedded) == (1, 6)
    assert await index.read(ids=[leftover.id]) == []
    assert len(await index.read(ids=[foreign.id])) == 1
    await check_invariants(index)


async def test_one_file_is_added_without_removing_the_others(
    index: EdgeIndex, folder: Path, tmp_path: Path
) -> None:
    await ingest(index, folder)
    extra = write(tmp_path / "extra", {"extra.md": "One more page about wheels."})
    job = await ingest(index, extra / "extra.md")
    assert counts(job) == {"processed": 1, "skipped": 0, "failed": 0, "deleted": 0}
    assert len((await index.load(BOOK)).records) == 4
    await check_invariants(index)


async def test_an_empty_page_is_recorded_without_chunks(index: EdgeIndex, folder: Path) -> None:
    write(folder, {"notes.md": "# Only a heading\n"})
    job = await ingest(index, folder)
    assert job.files_processed == 3
    assert (await index.load(BOOK)).records["notes.md"].chunk_ids == []
    await check_invariants(index)


async def test_many_files_go_through_in_groups(index: EdgeIndex, tmp_path: Path) -> None:
    pages = {f"{i:03}-page.md": f"Page {i} has its own words w{i}." for i in range(150)}
    job = await ingest(index, write(tmp_path / "many", pages))
    assert job.files_processed == job.chunks_created == 150
    await check_invariants(index)


# --- Chunks that several files share -------------------------------------------------------------

SHARED = "These words stand in both files."
TWINS = {
    "01-a/01-x.md": f"# X\n\n## One\n\nOnly in the first file.\n\n## Two\n\n{SHARED}\n",
    "01-a/01-y.md": f"# Y\n\n## One\n\nStart of the second file.\n\n## Two\n\n{SHARED}\n\n"
    "## Three\n\nEnd of the second file.\n",
}


async def owner_of_shared(index: EdgeIndex) -> str:
    [entry] = [e for e in await stored_chunks(index) if e.chunk.text == SHARED]
    return entry.chunk.metadata.source_file


async def test_the_first_path_owns_a_shared_chunk(index: EdgeIndex, tmp_path: Path) -> None:
    job = await ingest(index, write(tmp_path / "twins", TWINS))
    assert job.chunks_created == 4
    assert await owner_of_shared(index) == "01-a/01-x.md"
    records = (await index.load(BOOK)).records
    assert len(records["01-a/01-x.md"].chunk_ids) == 2
    assert len(records["01-a/01-y.md"].chunk_ids) == 3
    await check_invariants(index)


SHARING_CHANGES: dict[str, tuple[dict[str, str | None], str]] = {
    "the owner is deleted": ({"01-a/01-x.md": None}, "01-a/01-y.md"),
    "the owner drops it": ({"01-a/01-x.md": "# X\n\nOther words now."}, "01-a/01-y.md"),
    "the other is deleted": ({"01-a/01-y.md": None}, "01-a/01-x.md"),
    "the other drops it": ({"01-a/01-y.md": "# Y\n\nOther words now."}, "01-a/01-x.md"),
    "an earlier file brings it too": (
        {"01-a/01-b.md": f"# B\n\nBefore it.\n\n## Two\n\n{SHARED}"},
        "01-a/01-b.md",
    ),
    "a later file brings it too": ({"01-a/01-z.md": f"# Z\n\n{SHARED}"}, "01-a/01-x.md"),
    "the owner is renamed": (
        {"01-a/01-x.md": None, "01-a/01-z.md": TWINS["01-a/01-x.md"]},
        "01-a/01-y.md",
    ),
    "both change": (
        {
            "01-a/01-x.md": "# X\n\nNothing shared.",
            "01-a/01-y.md": TWINS["01-a/01-y.md"].replace("End", "Finish"),
        },
        "01-a/01-y.md",
    ),
}


def apply(folder: Path, changes: dict[str, str | None]) -> None:
    for name, text in changes.items():
        if text is None:
            (folder / name).unlink(missing_ok=True)
        else:
            write(folder, {name: text})


@pytest.mark.parametrize("case", SHARING_CHANGES)
async def test_ownership_follows_changes(
    index: EdgeIndex, second: EdgeIndex, tmp_path: Path, case: str
) -> None:
    changes, owner = SHARING_CHANGES[case]
    folder = write(tmp_path / "twins", TWINS)
    await ingest(index, folder)
    apply(folder, changes)
    await ingest(index, folder)
    assert await owner_of_shared(index) == owner
    await check_invariants(index)
    assert await snapshot(index) == await fresh_snapshot(second, folder)


COPIES = {"01-a/01-x.md": "# X\n\nThe one text.\n", "01-a/fr/02-x.md": "# X\n\nThe one text.\n"}


async def test_a_copy_is_stored_once_and_survives_its_original(
    index: EdgeIndex, second: EdgeIndex, tmp_path: Path
) -> None:
    folder = write(tmp_path / "copies", COPIES)
    job = await ingest(index, folder)
    assert [e.chunk.metadata.source_file for e in await stored_chunks(index)] == ["01-a/01-x.md"]
    assert job.warnings == ["01-a/fr/02-x.md has the same text as another file, kept once."]
    assert counts(await ingest(index, folder))["skipped"] == 2
    await check_invariants(index)
    (folder / "01-a/01-x.md").unlink()
    await ingest(index, folder)
    assert [e.chunk.metadata.source_file for e in await stored_chunks(index)] == ["01-a/fr/02-x.md"]
    await check_invariants(index)
    assert await snapshot(index) == await fresh_snapshot(second, folder)


async def test_a_footer_is_stored_once(index: EdgeIndex, second: EdgeIndex, tmp_path: Path) -> None:
    footer = "Licensed under CC BY 4.0, see the licence."
    pages = {f"{n:02}-page.md": f"# Page {n}\n\nOwn words {n}.\n\n{footer}\n" for n in range(8)}
    folder = write(tmp_path / "footers", pages)
    await ingest(index, folder)
    holders = [
        e.chunk.metadata.source_file for e in await stored_chunks(index) if footer in e.chunk.text
    ]
    assert holders == ["00-page.md"]
    (folder / "00-page.md").unlink()
    job = await ingest(index, folder)
    assert counts(job) == {"processed": 1, "skipped": 6, "failed": 0, "deleted": 1}
    assert await snapshot(index) == await fresh_snapshot(second, folder)
    await check_invariants(index)


async def test_an_included_file_is_read_again_when_it_changes(
    index: EdgeIndex, tmp_path: Path
) -> None:
    files = {
        "a.md": "```\n{{#include x.rs}}\n```\n",
        "x.rs": "fn old_name() {}",
        "b.md": "Other text.",
    }
    folder = write(tmp_path / "book", files)
    await ingest(index, folder)
    write(folder, {"x.rs": "fn new_name() {}"})
    assert counts(await ingest(index, folder))["processed"] == 1
    assert any("new_name" in entry.chunk.text for entry in await stored_chunks(index))


async def test_files_of_every_format_make_one_course(index: EdgeIndex, tmp_path: Path) -> None:
    files = {
        "01-a.md": "# A\n\nMarkdown text here.",
        "02-b.rst": "B\n=\n\nStructured text here.",
        "03-c.ipynb": '{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": '
        '[{"cell_type": "markdown", "metadata": {}, "source": "# C\\n\\nNotebook text here."}]}',
        "04-d.qmd": "# D\n\nQuarto text here.",
        "05-e.Rmd": "# E\n\nR Markdown text here.",
        "passages.jsonl": '{"id": "f", "title": "F", "text": "A passage of text."}',
    }
    job = await ingest(index, write(tmp_path / "mixed", files))
    assert counts(job) == {"processed": 6, "skipped": 0, "failed": 0, "deleted": 0}
    stored = {e.chunk.metadata.page_title: e.chunk.text for e in await stored_chunks(index)}
    assert stored == {
        "A": "Markdown text here.",
        "B": "Structured text here.",
        "C": "Notebook text here.",
        "D": "Quarto text here.",
        "E": "R Markdown text here.",
        "F": "A passage of text.",
    }
    await check_invariants(index)


# --- Failures ----------------------------------------------------------------------------------


async def test_a_file_that_fails_is_reported_and_keeps_its_chunks(
    index: EdgeIndex, folder: Path
) -> None:
    await ingest(index, folder)
    write(folder, {"02-arms.md": "---\nhardware_tier: 9\n---\nText", "new.md": "A new page here."})
    job = await ingest(index, folder)
    assert job.status == "completed"
    assert counts(job) == {"processed": 1, "skipped": 2, "failed": 1, "deleted": 0}
    [failure] = job.failures
    assert failure.source_file == "02-arms.md"
    assert failure.reason.startswith("hardware_tier in its front matter is 9")
    assert "An arm has several joints." in {e.chunk.text for e in await stored_chunks(index)}
    await check_invariants(index)
    write(folder, {"02-arms.md": LESSONS["02-arms.md"]})
    assert counts(await ingest(index, folder))["failed"] == 0
    await check_invariants(index)


@pytest.mark.parametrize("mode", ["incremental", "full", "recreate"])
async def test_a_course_of_which_nothing_can_be_read_is_left_as_it_was(
    index: EdgeIndex, folder: Path, mode: IngestionMode
) -> None:
    await ingest(index, folder)
    before = await snapshot(index)
    for name in LESSONS:
        (folder / name).write_bytes(b"\0")
    (folder / "notes.md").unlink()
    with pytest.raises(
        IngestionError, match=r"Nothing could be read: 01-nodes\.md: it is not a text"
    ):
        await ingest(index, folder, mode)
    assert await snapshot(index) == before
    await check_invariants(index)


class BrokenEmbedder(WordEmbedder):
    """Fails when a part of the work is already paid for."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    async def embed_passages(self, texts: Sequence[str], usage: Usage | None = None) -> Vector:
        if usage is not None:
            usage.add(40, usd_per_million=0.1)
        raise self._error


@pytest.mark.parametrize(
    ("error", "raised", "message"),
    [
        (EmbeddingError("The provider is down."), EmbeddingError, "The provider is down."),
        (ZeroDivisionError("oops"), IngestionError, "Ingestion stopped unexpectedly"),
    ],
)
async def test_a_run_that_cannot_go_on_fails_with_its_reason(
    index: EdgeIndex, folder: Path, error: Exception, raised: type[Exception], message: str
) -> None:
    seen: list[tuple[IngestionJob, Progress]] = []
    with pytest.raises(raised, match=message):
        await ingest(index, folder, embedder=BrokenEmbedder(error), seen=seen)
    last = seen[-1][0]
    assert last.status == "failed"
    assert last.completed_at is not None
    assert last.tokens_embedded == 40
    assert message in (last.error_message or "")
    await ingest(index, folder)
    await check_invariants(index)


@dataclass
class InterruptedIndex:
    """The real index, until it has written `steps` times."""

    index: EdgeIndex
    steps: int
    written: list[str] = field(default_factory=list[str])

    def _step(self, name: str) -> None:
        if len(self.written) >= self.steps:
            raise IndexingError(f"Interrupted at {name}.")
        self.written.append(name)

    async def read(
        self, *, ids: Sequence[str] | None = None, filters: SearchFilters | None = None
    ) -> list[StoredChunk]:
        return await self.index.read(ids=ids, filters=filters)

    async def write(self, chunks: Sequence[StoredChunk]) -> None:
        self._step("write")
        await self.index.write(chunks)

    async def delete(self, ids: Sequence[str]) -> None:
        self._step("delete")
        await self.index.delete(ids)

    async def courses(self) -> list[CourseSummary]:
        return await self.index.courses()

    async def load(self, book_id: str) -> IngestionState:
        return await self.index.load(book_id)

    async def save(self, entry: IngestionRecord | CourseSummary) -> None:
        self._step("save")
        await self.index.save(entry)

    async def forget(self, book_id: str, source_file: str | None = None) -> None:
        self._step("forget")
        await self.index.forget(book_id, source_file)


Changes = dict[str, str | None]


async def interrupt_everywhere(
    opened: list[EdgeIndex], folder: Path, lessons: dict[str, str], changes: Changes, then: Changes
) -> list[str]:
    """Break a run at its first, second, … step; each time the next run must repair it."""
    index, second = opened
    for steps in range(100):
        apply(folder, {**dict.fromkeys(changes), **lessons})
        await ingest(await emptied(index), folder)
        apply(folder, changes)
        interrupted = InterruptedIndex(index, steps)
        with suppress(FootnoteError):
            await ingest(interrupted, folder)
        apply(folder, then)
        await ingest(index, folder)
        await check_invariants(index)
        assert await snapshot(index) == await fresh_snapshot(second, folder)
        if len(interrupted.written) < steps:
            return interrupted.written
    raise AssertionError("the run never ends")


async def test_an_interrupted_run_is_repaired_by_the_next(
    opened: list[EdgeIndex], tmp_path: Path
) -> None:
    lessons = {name: text for name, text in LESSONS.items() if name != "notes.md"} | TWINS
    changes: Changes = {
        "01-nodes.md": LESSONS["01-nodes.md"].replace("typed", "small"),
        "02-arms.md": None,
        "01-a/01-x.md": "# X\n\nOther words now.",
    }
    steps = await interrupt_everywhere(opened, tmp_path, lessons, changes, then={})
    assert set(steps) == {"write", "delete", "save", "forget"}


async def test_a_file_that_changes_again_after_an_interruption_leaves_no_orphans(
    opened: list[EdgeIndex], tmp_path: Path
) -> None:
    page = LESSONS["01-nodes.md"]
    first: Changes = {"01-nodes.md": page.replace("typed", "small")}
    again: Changes = {"01-nodes.md": page.replace("typed", "large")}
    steps = await interrupt_everywhere(opened, tmp_path, LESSONS, first, then=again)
    assert steps == ["save", "save", "write", "delete", "save", "save"]


async def test_a_shared_chunk_survives_the_interrupted_removal_of_its_owner(
    opened: list[EdgeIndex], tmp_path: Path
) -> None:
    gone: Changes = {"01-a/01-x.md": None}
    steps = await interrupt_everywhere(opened, tmp_path, TWINS, gone, then={})
    assert steps == ["save", "write", "save", "delete", "forget", "save"]


async def test_a_file_that_is_back_before_its_removal_ended_owns_its_chunks_again(
    opened: list[EdgeIndex], tmp_path: Path
) -> None:
    gone: Changes = {"01-a/01-x.md": None}
    back: Changes = {"01-a/01-x.md": TWINS["01-a/01-x.md"]}
    steps = await interrupt_everywhere(opened, tmp_path, TWINS, gone, then=back)
    assert steps == ["save", "write", "save", "delete", "forget", "save"]


async def test_after_an_interruption_every_file_is_read_but_only_what_is_missing_embedded(
    index: EdgeIndex, folder: Path
) -> None:
    await ingest(index, folder)
    apply(folder, {"01-nodes.md": LESSONS["01-nodes.md"].replace("typed", "small")})
    with pytest.raises(IndexingError):
        await ingest(InterruptedIndex(index, steps=3), folder)  # its chunks are in, no more
    embedder = WordEmbedder()
    job = await ingest(index, folder, embedder=embedder)
    assert embedder.embedded == []
    assert counts(job) == {"processed": 1, "skipped": 2, "failed": 0, "deleted": 0}
    await check_invariants(index)


async def test_an_heir_that_cannot_be_read_gets_its_chunks_once_it_can(
    index: EdgeIndex, second: EdgeIndex, tmp_path: Path
) -> None:
    folder = write(tmp_path / "course", TWINS)
    await ingest(index, folder)
    heir = folder / "01-a/01-y.md"
    text = heir.read_bytes()
    heir.write_bytes(b"\xff\xfe\x00binary\x00")
    apply(folder, {"01-a/01-x.md": "# X\n\nOther words now."})
    assert (await ingest(index, folder)).files_failed == 1
    heir.write_bytes(text)
    await ingest(index, folder)
    await check_invariants(index)
    assert await snapshot(index) == await fresh_snapshot(second, folder)
