"""A sound course breaks no rule; each kind of damage is named."""

import re
from typing import Any

import pytest

from rag.ingestion.invariants import violations
from rag.types import CourseSummary, DocumentChunk, IngestionRecord, IngestionState
from tests.factories import make_chunk

FILE = "01-ros2/01-nodes.md"
OTHER = "01-ros2/02-topics.md"


def chain(file: str, *texts: str) -> list[DocumentChunk]:
    """The chunks of one file, linked as ingestion links them."""
    ids = [make_chunk(text, source_file=file).id for text in texts]
    return [
        make_chunk(
            text,
            source_file=file,
            chunk_index=at,
            total_chunks=len(texts),
            prev_chunk_id=ids[at - 1] if at else None,
            next_chunk_id=ids[at + 1] if at + 1 < len(ids) else None,
        )
        for at, text in enumerate(texts)
    ]


def record(file: str, chunks: list[DocumentChunk], file_hash: str = "hash") -> IngestionRecord:
    return IngestionRecord(
        source_file=file,
        file_hash=file_hash,
        chunk_ids=[chunk.id for chunk in chunks],
        book_id="robotics",
        module="ros2",
        chapter=1,
        lesson=1,
    )


def state_of(*records: IngestionRecord) -> IngestionState:
    by_file = {record.source_file: record for record in records}
    return IngestionState(book_id="robotics", collection_name="chunks", records=by_file)


NODES = chain(FILE, "A node does one job.", "Nodes form a graph.", "The graph is dynamic.")
TOPICS = chain(OTHER, "Topics carry messages.")


def changed(at: int, **metadata: Any) -> list[DocumentChunk]:
    """The nodes' chunks with one of them damaged, past its own validation."""
    damaged = NODES[at].model_copy(
        update={"metadata": NODES[at].metadata.model_copy(update=metadata)}
    )
    return [damaged if place == at else chunk for place, chunk in enumerate(NODES)]


def test_a_sound_course_breaks_no_rule() -> None:
    state = state_of(record(FILE, NODES), record(OTHER, TOPICS))
    summary = CourseSummary(book_id="robotics", title="Robotics", total_chunks=4)
    assert violations([*NODES, *TOPICS], state, summary) == []


def test_an_empty_course_breaks_no_rule() -> None:
    assert violations([], state_of(record(FILE, []))) == []


def test_a_shared_passage_belongs_to_its_first_file() -> None:
    state = state_of(record(FILE, NODES), record(OTHER, [*NODES, *TOPICS]))
    assert violations([*NODES, *TOPICS], state) == []
    earlier = state_of(record(FILE, NODES), record("00-intro.md", NODES[:1]))
    assert any("belongs to 00-intro.md" in problem for problem in violations(NODES, earlier))


@pytest.mark.parametrize(
    ("chunks", "problem"),
    [
        (changed(2, chunk_index=3), "stands behind the end of its file"),
        (changed(1, chunk_index=0), r"stand at \[0, 0, 2\]"),
        (changed(0, total_chunks=7), "counts 7 in its file, but 3 are stored"),
        (changed(0, prev_chunk_id=NODES[2].id), "first passage of .* has one before it"),
        (changed(2, next_chunk_id=NODES[0].id), "last passage of .* has one after it"),
        (changed(1, prev_chunk_id="gone"), "leads to gone, which is not stored"),
        (changed(1, next_chunk_id="gone"), "leads to gone, which is not stored"),
        (changed(1, prev_chunk_id=None), "does not lead back to it"),
        (changed(0, next_chunk_id=None), "does not lead on to it"),
        (changed(1, next_chunk_id=NODES[0].id), "reaches 2 of its 3 passages"),
        (changed(1, parent_doc_id=TOPICS[0].id), "has the parent of another lesson"),
        (NODES[:2], "which is not stored"),
        (NODES[1:], "which is not stored"),
        ([*NODES, *TOPICS], "is in no file's record"),
    ],
)
def test_damage_is_named(chunks: list[DocumentChunk], problem: str) -> None:
    found = "\n".join(violations(chunks, state_of(record(FILE, NODES))))
    assert re.search(problem, found), found


def test_an_interrupted_file_is_named() -> None:
    assert violations(NODES, state_of(record(FILE, NODES, file_hash=""))) == [
        f"{FILE} was not read to its end."
    ]


def test_a_wrong_total_is_named() -> None:
    summary = CourseSummary(book_id="robotics", title="Robotics", total_chunks=9)
    assert violations(NODES, state_of(record(FILE, NODES)), summary) == [
        "The course counts 9 passages, but 3 are stored."
    ]
