"""What can be done with Footnote from outside: by its own process, or through a running one.

One set of typed callables on both sides of the HTTP API: what the server is given, the client
gives back.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field

from rag.types import (
    AgentResponse,
    AnswerEvent,
    CourseSummary,
    IngestionJob,
    IngestionMode,
    Question,
    SearchQuery,
    SearchResponse,
)

Status = Literal["ok", "off", "wrong"]


class IngestRequest(BaseModel):
    """A course folder, or one file of it, that is to be brought into the index."""

    path: Path
    course: str | None = None
    mode: IngestionMode = "incremental"


class IngestionProgress(BaseModel):
    """How far a job has come; while it is queued, another one works on the same course."""

    job: IngestionJob
    files_done: int = Field(default=0, ge=0)
    chunks_done: int = Field(default=0, ge=0)


class Removal(BaseModel):
    """A course that is gone, with all its passages."""

    course: str
    chunks_deleted: int


class Finding(BaseModel):
    """One thing that was looked at."""

    part: str
    status: Status
    sentence: str


@dataclass(frozen=True)
class Operations:
    """All that the commands need of Footnote, wherever it runs."""

    answer: Callable[[Question], AsyncIterator[AnswerEvent]]
    search: Callable[[SearchQuery], Awaitable[SearchResponse]]
    ingest: Callable[[IngestRequest], AsyncIterator[IngestionProgress]]
    """Ends with the completed job; whoever stops listening stops the job."""
    courses: Callable[[], Awaitable[list[CourseSummary]]]
    remove: Callable[[str], Awaitable[Removal]]
    jobs: Callable[[], Awaitable[list[IngestionJob]]]
    """Newest first."""
    health: Callable[[], Awaitable[list[Finding]]]
    """The stores, and whether every course keeps the index's rules."""


def answer_document(response: AgentResponse) -> dict[str, Any]:
    """The AgentResponse with the chat API's fields beside its own."""
    sources = [
        {
            "chunk_text": citation.chunk_text,
            "similarity_score": citation.similarity,
            "chapter": citation.chapter_name,
            "section": citation.section,
            "url": citation.url,
            "chunk_index": citation.chunk_index,
        }
        for citation in response.citations
    ]
    return response.model_dump(mode="json") | {
        "response": response.content,
        "sources": sources,
        "confidence": response.confidence,
        "confidence_level": response.confidence_level,
        "confidence_label": response.confidence_label,
        "should_answer": response.should_answer,
        "timestamp": response.created_at.isoformat(),
    }
