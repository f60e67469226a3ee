"""Small valid objects for tests; every field can be overridden by name."""

import hashlib
from typing import Any

from rag.types import DocumentChunk, DocumentMetadata, chunk_id, parent_id


def make_chunk(text: str = "Nodes exchange typed messages.", **overrides: Any) -> DocumentChunk:
    """A valid chunk; names of metadata fields override its metadata, the others the chunk."""
    text_hash = hashlib.sha256(text.encode()).hexdigest()
    index = overrides.get("chunk_index", 0)
    metadata: dict[str, Any] = {
        "book_id": "robotics",
        "module": "ros2",
        "chapter": 1,
        "lesson": 1,
        "source_file": "01-ros2/01-nodes.md",
        "chunk_index": index,
        "total_chunks": index + 1,
        "content_hash": text_hash,
        "source_file_hash": "0" * 64,
        "page_title": "Nodes and topics",
        "chapter_title": "ROS 2",
        "breadcrumb": "Nodes and topics",
        "url": "/read/robotics/01-ros2/01-nodes.md",
    }
    fields = DocumentMetadata.model_fields
    metadata |= {name: value for name, value in overrides.items() if name in fields}
    place: tuple[str, str, int, int] = (
        metadata["book_id"],
        metadata["module"],
        metadata["chapter"],
        metadata["lesson"],
    )
    metadata.setdefault("parent_doc_id", parent_id(*place))
    words = len(text.split())
    chunk: dict[str, Any] = {
        "id": chunk_id(*place, metadata["content_hash"]),
        "text": text,
        "word_count": words,
        "token_count": max(1, round(words * 1.3)),
        "char_count": len(text),
    }
    chunk |= {name: value for name, value in overrides.items() if name not in fields}
    return DocumentChunk(**chunk, metadata=DocumentMetadata(**metadata))
