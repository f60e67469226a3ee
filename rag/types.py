"""The vocabulary of Footnote: one class a concept, with the rules that always hold."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from statistics import fmean
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

ProficiencyLevel = Literal["A1", "A2", "B1", "B2", "C1", "C2"]
TeachingLayer = Literal["L1", "L2", "L3", "L4"]
HardwareTier = Literal[1, 2, 3, 4]
IngestionMode = Literal["incremental", "full", "recreate"]
JobStatus = Literal["queued", "running", "completed", "failed"]
ConfidenceLevel = Literal["high", "medium", "low", "insufficient"]
ConfidenceLabel = Literal["high", "low", "none"]
AnswerKind = Literal["answer", "refusal", "chat"]
Refuser = Literal["gate", "model", "verification"]
Role = Literal["system", "user", "assistant", "tool"]
State = Literal[
    "PENDING", "RETRIEVING", "GENERATING", "COMPLETED", "LOW_CONF", "NO_RESULTS", "ERROR"
]

MAX_QUESTION_CHARACTERS = 4_000
MAX_MESSAGES = 50
MAX_TOPIC_SUMMARY = 200
MAX_CITED_TEXT = 500
TOKENS_PER_WORD = 1.3
NAMESPACE = UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")

Share = Annotated[float, Field(ge=0.0, le=1.0)]


def _aware(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError("a timestamp needs a time zone")
    return moment.astimezone(UTC)


Moment = Annotated[datetime, AfterValidator(_aware)]


def now() -> datetime:
    return datetime.now(UTC)


def chunk_id(book_id: str, module: str, chapter: int, lesson: int, content_hash: str) -> str:
    name = f"{book_id}:{module}:{chapter}:{lesson}:{content_hash[:16]}"
    return str(uuid.uuid5(NAMESPACE, name))


def parent_id(book_id: str, module: str, chapter: int, lesson: int) -> str:
    return str(uuid.uuid5(NAMESPACE, f"{book_id}:{module}:{chapter}:{lesson}:parent"))


# --- What is indexed ---------------------------------------------------------------------------


class DocumentMetadata(BaseModel):
    """Where a chunk stands in its course, and whom it is meant for."""

    book_id: str = Field(min_length=1)
    module: str = Field(min_length=1)
    chapter: int = Field(ge=0)
    lesson: int = Field(ge=0)
    section_title: str | None = None
    hardware_tier: HardwareTier = 1
    proficiency_level: ProficiencyLevel = "A2"
    layer: TeachingLayer = "L1"
    source_file: str = Field(min_length=1)
    parent_doc_id: str
    chunk_index: int = Field(ge=0)
    total_chunks: int = Field(ge=1)
    prev_chunk_id: str | None = None
    next_chunk_id: str | None = None
    content_hash: str
    source_file_hash: str
    version: int = Field(default=1, ge=1)
    created_at: Moment = Field(default_factory=now)
    updated_at: Moment = Field(default_factory=now)
    page_title: str = Field(min_length=1)
    chapter_title: str = Field(min_length=1)
    breadcrumb: str = ""
    url: str = Field(min_length=1)
    chapter_declared: bool = False
    """Whether the course itself numbers this chapter; invented numbers are never shown."""
    available_from: Moment | None = None
    assessment: bool = False

    @model_validator(mode="after")
    def _chain_ends_match_position(self) -> Self:
        if self.chunk_index >= self.total_chunks:
            raise ValueError("chunk_index must be below total_chunks")
        if self.chunk_index == 0 and self.prev_chunk_id is not None:
            raise ValueError("the first chunk has no previous chunk")
        if self.chunk_index == self.total_chunks - 1 and self.next_chunk_id is not None:
            raise ValueError("the last chunk has no next chunk")
        return self

    @property
    def section(self) -> str:
        return self.section_title or self.page_title


class DocumentChunk(BaseModel):
    """One passage of the course, as it is embedded, stored and cited."""

    id: str
    text: str = Field(min_length=10)
    metadata: DocumentMetadata
    word_count: int = Field(ge=1)
    token_count: int = Field(ge=1)
    char_count: int = Field(ge=1)
    embedding_model: str = ""
    embedded_at: Moment | None = None
    embedded_hash: str = ""
    """Hash of the embedding input (headings and text): while it is equal, the vector can stay."""

    @field_validator("text")
    @classmethod
    def _stripped(cls, text: str) -> str:
        if text != text.strip():
            raise ValueError("chunk text is stored stripped")
        return text

    @property
    def embedding_input(self) -> str:
        """What is embedded and indexed for BM25: the passage under its title and headings."""
        return f"{self.metadata.breadcrumb}\n{self.text}".strip()


# --- Searching ---------------------------------------------------------------------------------


class SearchFilters(BaseModel):
    """What a search may be narrowed to; every filter that is set must match."""

    book_id: str
    hardware_tier_filter: HardwareTier | None = None
    module_filter: str | None = None
    chapter_min: int | None = Field(default=None, ge=0)
    chapter_max: int | None = Field(default=None, ge=0)
    lesson_filter: int | None = Field(default=None, ge=0)
    proficiency_levels: list[ProficiencyLevel] | None = None
    layer_filter: TeachingLayer | None = None
    parent_doc_id: str | None = None

    @model_validator(mode="after")
    def _range_is_not_empty(self) -> Self:
        if (
            self.chapter_min is not None
            and self.chapter_max is not None
            and self.chapter_min > self.chapter_max
        ):
            raise ValueError("chapter_min is above chapter_max")
        return self

    def described(self) -> str | None:
        """The filters beyond the course, for the retrieval log."""
        given = self.model_dump(exclude={"book_id"}, exclude_none=True)
        return ", ".join(f"{name}={value}" for name, value in given.items()) or None


class SearchQuery(SearchFilters):
    """A search request as a person or a program states it."""

    text: str = Field(min_length=3)
    limit: int = Field(default=5, ge=1, le=20)

    @field_validator("text")
    @classmethod
    def _not_blank(cls, text: str) -> str:
        if len(text.strip()) < 3:
            raise ValueError("a search needs at least 3 characters")
        return text.strip()

    @property
    def filters(self) -> SearchFilters:
        return SearchFilters(**self.model_dump(exclude={"text", "limit"}))


class SearchResult(BaseModel):
    """One passage that was found, with its place in the course and its scores."""

    chunk_id: str
    text: str = Field(min_length=1)
    score: Share
    similarity: Share
    rank: int = Field(ge=1)
    source_file: str
    section_title: str | None
    page_title: str = Field(min_length=1)
    chapter_title: str = Field(min_length=1)
    chapter_declared: bool = False
    breadcrumb: str = ""
    url: str = Field(min_length=1)
    module: str
    chapter: int
    lesson: int
    hardware_tier: int
    proficiency_level: str
    layer: str
    chunk_index: int
    total_chunks: int
    parent_doc_id: str | None
    prev_chunk_id: str | None
    next_chunk_id: str | None
    content_hash: str | None
    context: str = ""
    """The passage with its neighbours in the same section, where they were fetched."""

    @classmethod
    def of(
        cls, chunk: DocumentChunk, *, score: float, similarity: float, rank: int
    ) -> SearchResult:
        fields = chunk.metadata.model_dump(include=set(cls.model_fields))
        return cls(
            chunk_id=chunk.id,
            text=chunk.text,
            score=min(max(score, 0.0), 1.0),
            similarity=min(max(similarity, 0.0), 1.0),
            rank=rank,
            **fields,
        )

    @property
    def section(self) -> str:
        return self.section_title or self.page_title


class SearchResponse(BaseModel):
    """What a search found, best first; `total_found` counts what matches the filters."""

    query: str
    results: list[SearchResult]
    total_found: int = Field(ge=0)
    hardware_tier_filter: int | None
    module_filter: str | None
    book_id: str

    @model_validator(mode="after")
    def _ordered_by_score(self) -> Self:
        scores = [result.score for result in self.results]
        if scores != sorted(scores, reverse=True):
            raise ValueError("results must be ordered by score")
        return self


# --- Confidence --------------------------------------------------------------------------------


class ConfidenceMetrics(BaseModel):
    """How well the retrieved passages fit the question, and what follows from it."""

    average_similarity: Share = 0.0
    min_similarity: Share = 0.0
    max_similarity: Share = 0.0
    num_chunks: int = Field(default=0, ge=0)
    chunk_diversity: Share = 0.0
    confidence_level: ConfidenceLevel = "insufficient"
    should_answer: bool = False
    p_answerable: Share | None = None
    policy: Literal["seed", "calibrated"] = "seed"

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        slack = 1e-6
        if not (
            self.min_similarity - slack <= self.average_similarity <= self.max_similarity + slack
        ):
            raise ValueError("the average similarity lies between the smallest and the largest")
        if self.should_answer and self.confidence_level == "insufficient":
            raise ValueError("an insufficient confidence never answers")
        return self

    @property
    def confidence(self) -> float:
        return self.average_similarity if self.p_answerable is None else self.p_answerable

    @property
    def label(self) -> ConfidenceLabel:
        labels: dict[ConfidenceLevel, ConfidenceLabel] = {
            "high": "high",
            "medium": "high",
            "low": "low",
            "insufficient": "none",
        }
        return labels[self.confidence_level]


class RetrievalContext(BaseModel):
    """The passages retrieved for one question, ordered for the agent, with the gate's verdict."""

    query: str
    results: list[SearchResult]
    metrics: ConfidenceMetrics
    retrieved_at: Moment = Field(default_factory=now)
    filter_applied: str | None = None
    query_time_ms: float = Field(default=0.0, ge=0.0)
    min_relevance_score: Share = 0.3

    @property
    def average_score(self) -> float:
        return fmean(r.similarity for r in self.results) if self.results else 0.0

    @property
    def total_found(self) -> int:
        return len(self.results)

    @property
    def has_sufficient_context(self) -> bool:
        return self.metrics.should_answer

    @property
    def has_relevant_results(self) -> bool:
        return bool(self.results) and self.results[0].similarity >= self.min_relevance_score

    def tool_json(self, numbers: Sequence[int]) -> str:
        """What the model reads: each passage under the number it is to be cited by."""
        results = [
            {
                "n": n,
                "chunk_text": result.context or result.text,
                "page_title": result.page_title,
                "section_heading": result.section_title,
                "source_url": result.url,
                "similarity_score": round(result.similarity, 3),
                "rank": result.rank,
            }
            for n, result in zip(numbers, self.results, strict=True)
        ]
        document = {"results": results, "total_results": len(results), "query": self.query}
        return json.dumps(document, ensure_ascii=False, indent=2)

    def format_for_agent(self) -> str:
        if not self.results:
            return "No relevant content found in the book."
        lines: list[str] = []
        for n, result in enumerate(self.results, 1):
            lines += [f"[{n}] Source: {result.url}", f"    Score: {result.score:.2f}"]
            lines += [f"    Content: {result.text}", ""]
        return "\n".join(lines)

    def format_sources_footer(self) -> str:
        if not self.results:
            return ""
        lines = [f"[{n}] {r.url} (score: {r.score:.2f})" for n, r in enumerate(self.results, 1)]
        return "\n".join(["", "---", "**Sources:**", *lines])


# --- Conversations -----------------------------------------------------------------------------


class Message(BaseModel):
    """One turn of a conversation."""

    model_config = ConfigDict(frozen=True)

    role: Role
    content: str
    timestamp: Moment = Field(default_factory=now)
    name: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None
    confidence: float | None = None
    cited_chunk_ids: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _fields_fit_role(self) -> Self:
        if self.role == "user" and not self.content.strip():
            raise ValueError("a user message cannot be empty")
        if self.tool_calls is not None and self.role != "assistant":
            raise ValueError("only an assistant message carries tool calls")
        if self.tool_call_id is not None and self.role != "tool":
            raise ValueError("only a tool message carries a tool call id")
        return self


class ToolCall(BaseModel):
    """One entry of the retrieval log."""

    tool_name: Literal["retrieve_documentation"] = "retrieve_documentation"
    query: str
    results_count: int = Field(ge=0)
    avg_similarity: Share
    timestamp: Moment = Field(default_factory=now)

    @classmethod
    def of(cls, context: RetrievalContext) -> ToolCall:
        return cls(
            query=context.query,
            results_count=len(context.results),
            avg_similarity=context.average_score,
        )


class Conversation(BaseModel):
    """What a thread remembers: user and assistant messages in turn, and the retrieval log."""

    id: str
    created_at: Moment = Field(default_factory=now)
    updated_at: Moment = Field(default_factory=now)
    model: str = ""
    messages: list[Message] = Field(default_factory=list[Message], max_length=MAX_MESSAGES)
    retrieval_history: list[ToolCall] = Field(default_factory=list[ToolCall])
    turn_count: int = Field(default=0, ge=0)
    topic_summary: str = Field(default="", max_length=MAX_TOPIC_SUMMARY)
    metadata: dict[str, Any] = Field(default_factory=dict)

    @field_validator("messages")
    @classmethod
    def _roles_alternate(cls, messages: list[Message]) -> list[Message]:
        roles = [message.role for message in messages]
        if any(role not in ("user", "assistant") for role in roles):
            raise ValueError("only user and assistant messages are stored")
        if any(first == second for first, second in pairwise(roles)):
            raise ValueError("user and assistant messages alternate")
        return messages

    def with_exchange(self, question: str, response: AgentResponse) -> Conversation:
        """The conversation after one more question and its answer."""
        answered = Message(
            role="assistant",
            content=response.content,
            confidence=response.confidence,
            cited_chunk_ids=response.cited_chunk_ids,
        )
        messages = [*self.messages, Message(role="user", content=question), answered]
        turns = self.turn_count + 1
        return self.model_copy(
            update={
                "messages": messages[-MAX_MESSAGES:],
                "retrieval_history": [*self.retrieval_history, *response.retrievals][
                    -MAX_MESSAGES:
                ],
                "turn_count": turns,
                "updated_at": now(),
                "model": response.model,
                "topic_summary": _topics(self, response) if turns >= 5 else self.topic_summary,
            }
        )

    def to_openai_messages(self) -> list[dict[str, str]]:
        return [{"role": message.role, "content": message.content} for message in self.messages]


def _topics(conversation: Conversation, response: AgentResponse) -> str:
    known = conversation.topic_summary.split("; ") if conversation.topic_summary else []
    sections = [citation.section for citation in response.citations]
    topics = list(dict.fromkeys([*known, *sections]))
    while len("; ".join(topics)) > MAX_TOPIC_SUMMARY:
        topics.pop(0)
    return "; ".join(topics)


# --- Questions and answers ---------------------------------------------------------------------


class Question(BaseModel):
    """What a student asked, and where: all the core ever learns of a platform."""

    model_config = ConfigDict(frozen=True)

    text: str
    course: str | None = None
    """The course's id; None means the only one."""
    conversation_key: str
    message_id: str
    author: str = ""
    private: bool = False


class Citation(BaseModel):
    """One place of the book that an answer rests on; `[n]` in the answer's text points here."""

    n: int = Field(ge=1)
    page_title: str = Field(min_length=1)
    chapter_title: str = Field(min_length=1)
    chapter: int | None = None
    """The chapter's number, where the course itself numbers its chapters."""
    section: str
    url: str
    module: str
    chunk_id: str
    chunk_index: int = 0
    chunk_text: str = Field(max_length=MAX_CITED_TEXT)
    similarity: Share

    @classmethod
    def of(cls, result: SearchResult, n: int) -> Citation:
        return cls(
            n=n,
            page_title=result.page_title,
            chapter_title=result.chapter_title,
            chapter=result.chapter if result.chapter_declared else None,
            section=result.section,
            url=result.url,
            module=result.module,
            chunk_id=result.chunk_id,
            chunk_index=result.chunk_index,
            chunk_text=result.text[:MAX_CITED_TEXT],
            similarity=result.similarity,
        )

    @property
    def label(self) -> str:
        """`Ch. 3 · Communication patterns`, as a student reads it inline."""
        place = self.chapter_title if self.chapter is None else f"Ch. {self.chapter}"
        return place if place == self.section else f"{place} · {self.section}"

    @property
    def chapter_name(self) -> str:
        if self.chapter is None:
            return self.chapter_title
        return f"Chapter {self.chapter}: {self.chapter_title}"


class AgentResponse(BaseModel):
    """The complete answer to one question: text with `[n]` markers, its citations, its figures."""

    content: str = Field(min_length=1)
    kind: AnswerKind
    refused_by: Refuser | None = None
    query: str = ""
    citations: list[Citation] = Field(default_factory=list[Citation])
    closest: list[Citation] = Field(default_factory=list[Citation])
    """For a refusal: the sections nearest to the question."""
    cited_chunk_ids: list[str] = Field(default_factory=list)
    metrics: ConfidenceMetrics = Field(default_factory=ConfidenceMetrics)
    notice: str | None = None
    """A sentence about the answer itself: low confidence, no model, no memory."""
    model: str = ""
    tokens_used: int = Field(default=0, ge=0)
    retrieval_count: int = Field(default=0, ge=0)
    retrievals: list[ToolCall] = Field(default_factory=list[ToolCall])
    retrieval_time_ms: float = 0.0
    generation_time_ms: float = 0.0
    total_time_ms: float = 0.0
    session_id: str = ""
    created_at: Moment = Field(default_factory=now)
    error: str | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.kind == "refusal") != (self.refused_by is not None):
            raise ValueError("a refusal says who refused, and nothing else does")
        if self.kind == "refusal" and self.metrics.should_answer:
            raise ValueError("a refusal's metrics do not say that it should answer")
        known = {citation.n for citation in self.citations}
        if len(known) != len(self.citations):
            raise ValueError("citations have distinct numbers")
        return self

    @property
    def should_answer(self) -> bool:
        return self.kind != "refusal"

    @property
    def confidence(self) -> float:
        return self.metrics.confidence

    @property
    def confidence_level(self) -> ConfidenceLevel:
        return self.metrics.confidence_level

    @property
    def confidence_label(self) -> ConfidenceLabel:
        return self.metrics.label


class StateChanged(BaseModel):
    """The answer entered another of its states."""

    model_config = ConfigDict(frozen=True)
    state: State


class Delta(BaseModel):
    """More of the answer's text, with every citation it introduces."""

    model_config = ConfigDict(frozen=True)
    text: str
    citations: list[Citation] = Field(default_factory=list[Citation])


class Done(BaseModel):
    """The whole answer; always the last event."""

    model_config = ConfigDict(frozen=True)
    response: AgentResponse


AnswerEvent = StateChanged | Delta | Done


class AgentConfig(BaseModel):
    """How the agent behaves."""

    model: str = Field(default="gpt-4o-mini", min_length=1)
    system_prompt: str = Field(min_length=1)
    temperature: Share = 0.0
    max_tokens: int | None = Field(default=None, ge=1)
    top_k: int = Field(default=5, ge=1, le=100)
    score_threshold: Share = 0.0
    min_relevance_score: Share = 0.3
    max_turns: int = Field(default=50, ge=1)
    max_tool_calls: int = Field(default=3, ge=0)
    context_tokens: int = Field(default=16_000, ge=1_000)
    """How much of the model's window rules, conversation, passages and answer may take."""

    @field_validator("system_prompt")
    @classmethod
    def _prompt_not_blank(cls, prompt: str) -> str:
        if not prompt.strip():
            raise ValueError("the system prompt must not be empty")
        return prompt


# --- Ingestion ---------------------------------------------------------------------------------


class IngestionRecord(BaseModel):
    """What is indexed of one source file."""

    source_file: str
    file_hash: str
    chunk_ids: list[str]
    ingested_at: Moment = Field(default_factory=now)
    book_id: str
    module: str
    chapter: int
    lesson: int

    @property
    def chunk_count(self) -> int:
        return len(self.chunk_ids)


class CourseSummary(BaseModel):
    """One course of the index: its description and when it was last brought up to date."""

    book_id: str
    title: str
    last_full_ingest: Moment | None = None
    last_incremental_update: Moment | None = None
    total_chunks: int = Field(default=0, ge=0)
    embedding_model: str = ""
    profile: dict[str, Any] | None = None
    """The course's figures for the confidence gate, as `rag.profile` keeps them."""
    unsettled: bool = False
    """Whether the next ingestion has to read every file again: a run broke off, or could not read
    a file that shares chunks with one that changed."""


class IngestionState(BaseModel):
    """Which files of a course are indexed, for incremental updates."""

    book_id: str
    collection_name: str
    records: dict[str, IngestionRecord] = Field(default_factory=dict)
    last_full_ingest: Moment | None = None
    last_incremental_update: Moment | None = None
    unsettled: bool = False

    @property
    def total_chunks(self) -> int:
        """Distinct points: a chunk that two files share is stored once."""
        return len({chunk for record in self.records.values() for chunk in record.chunk_ids})

    def changed_files(self, hashes: dict[str, str]) -> tuple[list[str], list[str], list[str]]:
        """The new, the modified and the deleted files."""
        new = [path for path in hashes if path not in self.records]
        modified = [
            path
            for path, file_hash in hashes.items()
            if path in self.records and self.records[path].file_hash != file_hash
        ]
        deleted = [path for path in self.records if path not in hashes]
        return new, modified, deleted

    def chunks_only_in(self, files: Iterable[str]) -> list[str]:
        """The chunk ids of these files that no other file's record still holds."""
        leaving = set(files)
        kept = {
            chunk
            for path, record in self.records.items()
            if path not in leaving
            for chunk in record.chunk_ids
        }
        ids = [
            chunk
            for path in files
            if path in self.records
            for chunk in self.records[path].chunk_ids
            if chunk not in kept
        ]
        return list(dict.fromkeys(ids))


class FileFailure(BaseModel):
    """A file that could not be ingested, and why."""

    source_file: str
    reason: str


class IngestionJob(BaseModel):
    """One ingestion run, from queued to its end."""

    job_id: int = Field(ge=1)
    book_id: str
    mode: IngestionMode = "incremental"
    status: JobStatus = "queued"
    files_discovered: int = Field(default=0, ge=0)
    files_processed: int = Field(default=0, ge=0)
    files_skipped: int = Field(default=0, ge=0)
    files_failed: int = Field(default=0, ge=0)
    files_deleted: int = Field(default=0, ge=0)
    chunks_created: int = Field(default=0, ge=0)
    chunks_deleted: int = Field(default=0, ge=0)
    chunks_embedded: int = Field(default=0, ge=0)
    tokens_embedded: int = Field(default=0, ge=0)
    cost_usd: float | None = Field(default=0.0, ge=0)
    """What the embedder's provider charges, or None where its price is not known."""
    failures: list[FileFailure] = Field(default_factory=list[FileFailure])
    warnings: list[str] = Field(default_factory=list)
    started_at: Moment = Field(default_factory=now)
    completed_at: Moment | None = None
    duration_seconds: int | None = None
    error_message: str | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.status == "completed":
            if self.completed_at is None:
                raise ValueError("a completed job has its time of completion")
            handled = self.files_processed + self.files_skipped + self.files_failed
            if handled != self.files_discovered:
                raise ValueError("processed + skipped + failed files are the discovered ones")
        if self.status in ("queued", "running") and self.completed_at is not None:
            raise ValueError("a job that is not over has no time of completion")
        return self
