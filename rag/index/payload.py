"""What both engines share: how chunks, filters and records look inside Qdrant. No I/O here."""

import json
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeVar

import numpy as np
from pydantic import ValidationError
from qdrant_edge import SparseVector

from rag import terms
from rag.embedding import Vector
from rag.errors import IndexingError
from rag.index import Candidate, ForeignCourse, StoredChunk
from rag.terms import Terms
from rag.types import (
    NAMESPACE,
    CourseSummary,
    DocumentChunk,
    DocumentMetadata,
    IngestionRecord,
    IngestionState,
    SearchFilters,
)

Payload = dict[str, Any]
FieldKind = Literal["tenant", "keyword", "integer", "datetime", "bool"]

DENSE = "dense"
BM25 = "bm25"
PLACEHOLDER = "placeholder"
"""A record has no vector of its own, but the engine wants at least one."""
PLACEHOLDER_VALUE = [1.0]

CHUNK_INDEXES: dict[str, FieldKind] = {
    "book_id": "tenant",
    "module": "keyword",
    "chapter": "integer",
    "lesson": "integer",
    "hardware_tier": "integer",
    "proficiency_level": "keyword",
    "layer": "keyword",
    "parent_doc_id": "keyword",
    "content_hash": "keyword",
    "source_file_hash": "keyword",
    "source_file": "keyword",
    "available_from": "datetime",
    "assessment": "bool",
}
STATE_INDEXES: dict[str, FieldKind] = {"book_id": "tenant", "kind": "keyword"}

Entry = TypeVar("Entry", IngestionRecord, CourseSummary)

_METADATA_FIELDS = frozenset(DocumentMetadata.model_fields)


# --- Filters -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Equals:
    field: str
    value: str | int


@dataclass(frozen=True)
class AnyOf:
    field: str
    values: list[str]


@dataclass(frozen=True)
class Within:
    """Both ends are included; None leaves an end open."""

    field: str
    low: int | None
    high: int | None


@dataclass(frozen=True)
class NotAfter:
    """The field's moment has come, or it has none."""

    field: str
    moment: datetime


Condition = Equals | AnyOf | Within | NotAfter


def conditions(filters: SearchFilters, *, available_at: datetime | None = None) -> list[Condition]:
    """What a chunk must satisfy; with a moment, also that it is available by then."""
    exact: dict[str, str | int | None] = {
        "book_id": filters.book_id,
        "module": filters.module_filter,
        "lesson": filters.lesson_filter,
        "layer": filters.layer_filter,
        "parent_doc_id": filters.parent_doc_id,
    }
    found: list[Condition] = [Equals(f, value) for f, value in exact.items() if value is not None]
    if filters.hardware_tier_filter is not None:
        found.append(Within("hardware_tier", None, filters.hardware_tier_filter))
    if filters.chapter_min is not None or filters.chapter_max is not None:
        found.append(Within("chapter", filters.chapter_min, filters.chapter_max))
    if filters.proficiency_levels:  # an empty choice is no choice
        found.append(AnyOf("proficiency_level", list(filters.proficiency_levels)))
    if available_at is not None:
        found.append(NotAfter("available_from", available_at))
    return found


# --- Chunks ------------------------------------------------------------------------------------


def chunk_payload(chunk: DocumentChunk) -> Payload:
    """002's payload: metadata and text side by side."""
    fields = chunk.model_dump(mode="json", exclude={"id", "metadata"})
    return {**chunk.metadata.model_dump(mode="json"), **fields}


def stored_chunk(id: object, payload: Payload | None, vector: Sequence[float]) -> StoredChunk:
    fields = payload or {}
    metadata = {name: value for name, value in fields.items() if name in _METADATA_FIELDS}
    own = {name: value for name, value in fields.items() if name not in _METADATA_FIELDS}
    try:
        chunk = DocumentChunk.model_validate({**own, "id": str(id), "metadata": metadata})
    except ValidationError as error:
        raise IndexingError(
            f"The stored chunk {id} is not one of ours; ingest its course again in recreate mode."
        ) from error
    return StoredChunk(chunk, np.asarray(vector, dtype=np.float32))


def in_reading_order(chunks: Iterable[StoredChunk]) -> list[StoredChunk]:
    def place(stored: StoredChunk) -> tuple[str, int]:
        return stored.chunk.metadata.source_file, stored.chunk.metadata.chunk_index

    return sorted(chunks, key=place)


def in_order_asked(ids: Sequence[str], chunks: Iterable[StoredChunk]) -> list[StoredChunk]:
    found = {stored.chunk.id: stored for stored in chunks}
    return [found[id] for id in ids if id in found]


def point_ids(ids: Iterable[str]) -> list[str]:
    """Each id once, without those that no chunk can have (the engines reject what is no UUID)."""
    return [id for id in dict.fromkeys(ids) if _is_uuid(id)]


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


def check_dimension(vector: Vector, dimension: int) -> None:
    if vector.shape != (dimension,):
        raise IndexingError(
            f"A vector of shape {vector.shape} does not fit an index of {dimension} dimensions."
        )


# --- Searching ---------------------------------------------------------------------------------


def document_terms(chunk: DocumentChunk) -> SparseVector | None:
    """None for a passage without a word to index."""
    found = terms.BM25.embed_document(_encodable(chunk.embedding_input))
    return found if found.indices else None


def query_terms(asked: Terms) -> SparseVector | None:
    """None when nothing in it is indexed: stop words, emoji."""
    weights = terms.query_vector({_encodable(text): weight for text, weight in asked.items()})
    return SparseVector(list(weights), list(weights.values())) if weights else None


def _encodable(text: str) -> str:
    """Lone surrogates, which a chat client may send, cannot cross into the engine."""
    return text.encode("utf-8", "replace").decode("utf-8")


RANKED_FIELDS = ["source_file", "content_hash"]
"""What ranking needs to know of a chunk."""
RankedFields = tuple[str, str]


def ranked_fields(payload: Payload | None) -> RankedFields:
    source_file, content_hash = (str((payload or {}).get(name, "")) for name in RANKED_FIELDS)
    return source_file, content_hash


def candidates(
    known: Mapping[str, RankedFields], cosines: Mapping[str, float], bm25: Mapping[str, float]
) -> list[Candidate]:
    """What was found by either score; a chunk that is gone by now is left out."""
    found = [id for id in cosines.keys() | bm25.keys() if id in known]
    return [Candidate(id, *known[id], cosines.get(id, 0.0), bm25.get(id, 0.0)) for id in found]


# --- Records of what is indexed ----------------------------------------------------------------


def state_collection(collection: str) -> str:
    return f"{collection}_state"


def other_state_collections(collection: str, names: Iterable[str]) -> list[str]:
    """Of all names, the state collections that share this one's prefix but not its model."""
    prefix = collection.rsplit("__", 2)[0]
    form = re.compile(rf"{re.escape(prefix)}__[^_]+__\d+_state")
    own = state_collection(collection)
    return sorted(name for name in names if name != own and form.fullmatch(name))


def foreign_courses(state_name: str, payloads: Iterable[Payload | None]) -> list[ForeignCourse]:
    """The courses of such a collection, whose name tells what an old summary does not."""
    _, model, dimension = state_name.removesuffix("_state").rsplit("__", 2)
    return [
        ForeignCourse(course.book_id, course.embedding_model or model, int(dimension))
        for course in course_summaries(payloads)
    ]


def state_id(book_id: str, source_file: str | None = None) -> str:
    """The point of a file's record, or without a file of the course's summary."""
    place = [book_id] if source_file is None else [book_id, source_file]
    return str(uuid.uuid5(NAMESPACE, json.dumps(place)))


def state_point(entry: IngestionRecord | CourseSummary) -> tuple[str, Payload]:
    payload = entry.model_dump(mode="json")
    if isinstance(entry, CourseSummary):
        return state_id(entry.book_id), {**payload, "kind": "course"}
    file = state_id(entry.book_id, entry.source_file)
    return file, {**payload, "chunk_count": entry.chunk_count, "kind": "file"}


def course_summaries(payloads: Iterable[Payload | None]) -> list[CourseSummary]:
    summaries = [_entry(CourseSummary, payload) for payload in payloads]
    return sorted(summaries, key=lambda summary: summary.book_id)


def ingestion_state(
    book_id: str, collection: str, payloads: Iterable[Payload | None]
) -> IngestionState:
    """A course's state from all its points."""
    found = [payload for payload in payloads if payload is not None]
    records = [_entry(IngestionRecord, entry) for entry in found if entry["kind"] == "file"]
    summaries = [_entry(CourseSummary, entry) for entry in found if entry["kind"] == "course"]
    # Files without a summary are those of a first run that broke off.
    unknown = CourseSummary(book_id=book_id, title=book_id, unsettled=bool(records))
    summary = summaries[0] if summaries else unknown
    records.sort(key=lambda record: record.source_file)
    return IngestionState(
        book_id=book_id,
        collection_name=collection,
        records={record.source_file: record for record in records},
        last_full_ingest=summary.last_full_ingest,
        last_incremental_update=summary.last_incremental_update,
        unsettled=summary.unsettled,
    )


def _entry(kind: type[Entry], payload: Payload | None) -> Entry:
    try:
        return kind.model_validate(payload)
    except ValidationError as error:
        raise IndexingError(
            "The index's record of a course is damaged; ingest the course again in recreate mode."
        ) from error
