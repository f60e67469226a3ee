"""Makes a document's passages into chunks with their place, chain and history. No I/O here."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime

from rag.ingestion.chunking import Piece
from rag.ingestion.hierarchy import Place
from rag.ingestion.links import section_url
from rag.ingestion.loaders import Document
from rag.types import TOKENS_PER_WORD, DocumentChunk, DocumentMetadata, chunk_id, parent_id

# A passage has changed when one of its other fields has: these follow its neighbours and history.
_NOT_ITS_OWN = {
    "version",
    "created_at",
    "updated_at",
    "source_file_hash",
    "chunk_index",
    "total_chunks",
    "prev_chunk_id",
    "next_chunk_id",
}


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def piece_ids(book_id: str, place: Place, pieces: Sequence[Piece]) -> list[str]:
    """The id of every passage, in order."""
    return [
        chunk_id(book_id, place.module, place.chapter, place.lesson, sha256(piece.text))
        for piece in pieces
    ]


def make_chunks(
    book_id: str,
    document: Document,
    place: Place,
    pieces: Mapping[str, Piece],
    moment: datetime,
) -> list[DocumentChunk]:
    """One chain of chunks over the passages a file owns, given by their ids."""
    ids = list(pieces)
    chunks: list[DocumentChunk] = []
    for index, (id, piece) in enumerate(pieces.items()):
        metadata = DocumentMetadata(
            book_id=book_id,
            module=place.module,
            chapter=place.chapter,
            lesson=place.lesson,
            section_title=piece.section_title,
            hardware_tier=document.hardware_tier,
            proficiency_level=document.proficiency_level,
            layer=document.layer,
            source_file=document.source_file,
            parent_doc_id=parent_id(book_id, place.module, place.chapter, place.lesson),
            chunk_index=index,
            total_chunks=len(ids),
            prev_chunk_id=ids[index - 1] if index else None,
            next_chunk_id=ids[index + 1] if index + 1 < len(ids) else None,
            content_hash=sha256(piece.text),
            source_file_hash=document.file_hash,
            created_at=moment,
            updated_at=moment,
            page_title=document.title,
            chapter_title=document.chapter_title,
            breadcrumb=piece.breadcrumb,
            url=section_url(document.url, piece.anchor),
            chapter_declared=document.chapter_declared,
            available_from=document.available_from,
            assessment=document.assessment,
        )
        chunks.append(_chunk(id, piece.text, metadata))
    return chunks


def _chunk(id: str, text: str, metadata: DocumentMetadata) -> DocumentChunk:
    words = len(text.split())
    chunk = DocumentChunk(
        id=id,
        text=text,
        metadata=metadata,
        word_count=words,
        token_count=max(1, round(words * TOKENS_PER_WORD)),
        char_count=len(text),
    )
    return chunk.model_copy(update={"embedded_hash": sha256(chunk.embedding_input)})


def with_history(chunk: DocumentChunk, before: DocumentChunk | None) -> DocumentChunk:
    """The chunk as the successor of what stood there: created then, changed now if it differs."""
    if before is None:
        return chunk
    old, new = before.metadata, chunk.metadata
    same = old.model_dump(exclude=_NOT_ITS_OWN) == new.model_dump(exclude=_NOT_ITS_OWN)
    history = {
        "created_at": old.created_at,
        "updated_at": old.updated_at if same else new.updated_at,
        "version": old.version if same else old.version + 1,
    }
    return chunk.model_copy(update={"metadata": new.model_copy(update=history)})
