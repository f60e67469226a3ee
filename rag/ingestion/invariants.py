"""What always holds of a course that is not being ingested right now. No I/O here."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from rag.types import CourseSummary, DocumentChunk, IngestionState, parent_id


def violations(
    chunks: Iterable[DocumentChunk], state: IngestionState, summary: CourseSummary | None = None
) -> list[str]:
    """Every rule that the stored chunks and records of one course break, one sentence each."""
    by_id = {chunk.id: chunk for chunk in chunks}
    found = [*_records(by_id, state), *_parents(by_id.values()), *_files(by_id)]
    if summary is not None and summary.unsettled:
        found.append("Its last ingestion broke off, or could not read a file it had to read.")
    if summary is not None and summary.total_chunks != len(by_id):
        found.append(
            f"The course counts {summary.total_chunks} passages, but {len(by_id)} are stored."
        )
    return found


def _records(by_id: dict[str, DocumentChunk], state: IngestionState) -> Iterator[str]:
    """Records and chunks name each other, and the first path that holds a chunk owns it."""
    holders: dict[str, list[str]] = defaultdict(list)
    for file, record in sorted(state.records.items()):
        if not record.file_hash:
            yield f"{file} was not read to its end."
        for id in record.chunk_ids:
            holders[id].append(file)
            if id not in by_id:
                yield f"{file} lists the passage {id}, which is not stored."
    for id, chunk in by_id.items():
        owner = chunk.metadata.source_file
        if id not in holders:
            yield f"The passage {id} of {owner} is in no file's record."
        elif owner != min(holders[id]):
            yield f"The passage {id} belongs to {min(holders[id])}, but says {owner}."


def _parents(chunks: Iterable[DocumentChunk]) -> Iterator[str]:
    for chunk in chunks:
        at = chunk.metadata
        if at.parent_doc_id != parent_id(at.book_id, at.module, at.chapter, at.lesson):
            yield f"The passage {chunk.id} of {at.source_file} has the parent of another lesson."


def _files(by_id: dict[str, DocumentChunk]) -> Iterator[str]:
    files: dict[str, list[DocumentChunk]] = defaultdict(list)
    for chunk in by_id.values():
        files[chunk.metadata.source_file].append(chunk)
    for file, chunks in sorted(files.items()):
        chunks.sort(key=lambda chunk: chunk.metadata.chunk_index)
        yield from _positions(file, chunks)
        yield from _chain(file, chunks, by_id)


def _positions(file: str, chunks: Sequence[DocumentChunk]) -> Iterator[str]:
    positions = [chunk.metadata.chunk_index for chunk in chunks]
    if positions != list(range(len(chunks))):
        yield f"The passages of {file} stand at {positions}, not one after the other."
    for total in sorted({chunk.metadata.total_chunks for chunk in chunks} - {len(chunks)}):
        yield f"A passage of {file} counts {total} in its file, but {len(chunks)} are stored."
    for chunk in chunks:
        if chunk.metadata.chunk_index >= chunk.metadata.total_chunks:
            yield f"The passage {chunk.id} of {file} stands behind the end of its file."


def _chain(
    file: str, chunks: Sequence[DocumentChunk], by_id: dict[str, DocumentChunk]
) -> Iterator[str]:
    """From the first chunk to the last and back, each exactly once."""
    if chunks[0].metadata.prev_chunk_id is not None:
        yield f"The first passage of {file} has one before it."
    if chunks[-1].metadata.next_chunk_id is not None:
        yield f"The last passage of {file} has one after it."
    for chunk in chunks:
        before, after = chunk.metadata.prev_chunk_id, chunk.metadata.next_chunk_id
        for neighbour in (before, after):
            if neighbour is not None and neighbour not in by_id:
                yield f"The passage {chunk.id} of {file} leads to {neighbour}, which is not stored."
        if after in by_id and by_id[after].metadata.prev_chunk_id != chunk.id:
            yield f"The passage after {chunk.id} of {file} does not lead back to it."
        if before in by_id and by_id[before].metadata.next_chunk_id != chunk.id:
            yield f"The passage before {chunk.id} of {file} does not lead on to it."
    if (reached := _reached(chunks[0], by_id)) != len(chunks):
        yield f"The chain of {file} reaches {reached} of its {len(chunks)} passages."


def _reached(first: DocumentChunk, by_id: dict[str, DocumentChunk]) -> int:
    """How many chunks the chain visits before it ends or comes round."""
    seen: set[str] = set()
    at: DocumentChunk | None = first
    while at is not None and at.id not in seen:
        seen.add(at.id)
        at = by_id.get(at.metadata.next_chunk_id or "")
    return len(seen)
