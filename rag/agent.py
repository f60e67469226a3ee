"""How an answer comes about: retrieve, gate, write, verify, cite."""

import logging
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal

from rag.answering import Answerer
from rag.confidence import Calibration
from rag.embedding import Embedder
from rag.errors import AnsweringError, FootnoteError
from rag.prompts import (
    BROKEN_OFF,
    HELP_REPLY,
    ONLY_QUOTES,
    OTHER_LANGUAGE,
    PROVIDER_DOWN,
    REFUSAL,
    UNCONFIRMED,
)
from rag.retrieval import Retriever
from rag.smalltalk import asks_for_help, asks_for_simpler, small_talk
from rag.terms import looks_english
from rag.types import (
    AgentResponse,
    AnswerEvent,
    Citation,
    ConfidenceMetrics,
    Conversation,
    Delta,
    Done,
    Message,
    Refuser,
    RetrievalContext,
    SearchFilters,
    SearchResult,
    StateChanged,
    ToolCall,
)
from rag.writing import Judge, Writing

CLOSEST_SECTIONS = 3
VerifyWithModel = Literal["off", "low", "always"]
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Agent:
    """Answers one question at a time from one course; holds nothing between questions."""

    retriever: Retriever
    answerer: Answerer
    extractive: Answerer
    embedder: Embedder
    judge: Judge | None = None
    verify_with_model: VerifyWithModel = "low"

    async def answer(
        self, question: str, book_id: str, conversation: Conversation
    ) -> AsyncIterator[AnswerEvent]:
        """The answer as it comes about; the last event is always `Done`."""
        started = time.perf_counter()
        if reply := await self._chat(question, book_id):
            yield StateChanged(state="COMPLETED")
            yield Done(response=timed(AgentResponse(content=reply, kind="chat"), started, question))
            return
        yield StateChanged(state="RETRIEVING")
        try:
            context = await self._context(question, book_id, conversation)
        except FootnoteError:
            yield StateChanged(state="ERROR")
            raise
        if not context.has_sufficient_context:
            yield StateChanged(state="NO_RESULTS")
            refused = refusal(question, context, "gate")
            yield Done(response=timed(refused, started, question))
            return
        yield StateChanged(state="GENERATING")
        writing = self._writing(question, context, conversation, book_id)
        async for delta in self._write(writing, context.metrics):
            yield delta
        response = timed(outcome(writing, context), started, question)
        yield StateChanged(state=state_of(response))
        yield Done(response=response)

    async def _chat(self, question: str, book_id: str) -> str | None:
        """What needs no search at all: a greeting, thanks, or what this is."""
        if not asks_for_help(question):
            return small_talk(question)
        title, chapters = await self.retriever.outline(book_id)
        named = "\n".join(f"- {chapter}" for chapter in chapters)
        return HELP_REPLY.format(title=title, chapters=named)

    async def _context(
        self, question: str, book_id: str, conversation: Conversation
    ) -> RetrievalContext:
        if asks_for_simpler(question) and (known := await self._known(conversation)):
            return known
        filters = SearchFilters(book_id=book_id)
        return await self.retriever.retrieve(question, filters, conversation.messages)

    async def _known(self, conversation: Conversation) -> RetrievalContext | None:
        """The passages that the last answer cited, under the question it answered."""
        exchange = last_cited(conversation.messages)
        if exchange is None:
            return None
        asked, answered = exchange
        started = time.perf_counter()
        passages = await self.retriever.passages(answered.cited_chunk_ids)
        if not passages:
            return None
        return RetrievalContext(
            query=asked.content,
            results=passages,
            metrics=metrics_again(answered.confidence or 0.0, len(passages)),
            query_time_ms=(time.perf_counter() - started) * 1000,
        )

    def _writing(
        self, question: str, context: RetrievalContext, conversation: Conversation, book_id: str
    ) -> Writing:
        said_again = context.query != question
        # Whoever only quotes cannot say it in other words: it answers the earlier question again.
        asked = context.query if said_again and self.answerer.verbatim else question
        writing = Writing(self.retriever, self.embedder, asked, context, conversation, book_id)
        if said_again:
            writing.notice = ONLY_QUOTES if self.answerer.verbatim else None
        else:
            writing.retrievals.append(ToolCall.of(context))
        return writing

    async def _write(self, writing: Writing, metrics: ConfidenceMetrics) -> AsyncIterator[Delta]:
        async for delta in self._written(writing, metrics):
            if delta.text:
                yield delta
        if writing.notice in (PROVIDER_DOWN, UNCONFIRMED):
            async for delta in writing.quoted_by(self.extractive):
                yield delta
        for delta in writing.close():
            yield delta

    async def _written(self, writing: Writing, metrics: ConfidenceMetrics) -> AsyncIterator[Delta]:
        """What the answerer achieves by itself; where that is nothing, the notice says why."""
        if self.answerer.verbatim:
            async for delta in writing.quoted_by(self.answerer):
                yield delta
            return
        try:
            async for delta in writing.checked_by(self.answerer, self._judge_for(metrics)):
                yield delta
        except AnsweringError as error:
            logger.warning("%s", error)
            writing.error = str(error)
            writing.notice = BROKEN_OFF if writing.text else PROVIDER_DOWN
            return
        confident = metrics.confidence_level in ("high", "medium")
        if not writing.text and not writing.refused and confident:
            writing.notice = UNCONFIRMED

    def _judge_for(self, metrics: ConfidenceMetrics) -> Judge | None:
        wanted = self.verify_with_model == "always" or (
            self.verify_with_model == "low" and metrics.confidence_level == "low"
        )
        return self.judge if wanted else None


def outcome(writing: Writing, context: RetrievalContext) -> AgentResponse:
    if writing.text.strip():
        response = writing.response()
    else:
        refused_by: Refuser = "model" if writing.refused else "verification"
        response = refusal(writing.assignment.question, context, refused_by)
    return response.model_copy(update=writing.figures())


def refusal(question: str, context: RetrievalContext, refused_by: Refuser) -> AgentResponse:
    """The honest "that is not in the book", with the sections that come closest."""
    metrics = context.metrics.model_copy(
        update={"should_answer": False, "confidence_level": "insufficient"}
    )
    return AgentResponse(
        content=REFUSAL,
        kind="refusal",
        refused_by=refused_by,
        query=question,
        closest=closest_sections(context.results),
        metrics=metrics,
        notice=None if looks_english(question) else OTHER_LANGUAGE,
        retrieval_count=len(context.results),
        retrievals=[ToolCall.of(context)],
        retrieval_time_ms=context.query_time_ms,
    )


def closest_sections(results: list[SearchResult]) -> list[Citation]:
    sections = {(result.url, result.section): result for result in reversed(results)}
    nearest = sorted(sections.values(), key=lambda result: result.rank)[:CLOSEST_SECTIONS]
    return [Citation.of(result, n) for n, result in enumerate(nearest, 1)]


def last_cited(messages: list[Message]) -> tuple[Message, Message] | None:
    """The last answer with citations, and the question before it."""
    for place in range(len(messages) - 1, 0, -1):
        if messages[place].cited_chunk_ids:
            return messages[place - 1], messages[place]
    return None


def metrics_again(confidence: float, passages: int) -> ConfidenceMetrics:
    """The figures of an answer that is given once more: as sure as it was the first time."""
    level = Calibration.shipped().level(confidence)
    return ConfidenceMetrics(
        num_chunks=passages,
        confidence_level="low" if level == "insufficient" else level,
        should_answer=True,
        p_answerable=confidence,
        policy="calibrated",
    )


def state_of(response: AgentResponse) -> Literal["COMPLETED", "LOW_CONF", "NO_RESULTS"]:
    if response.kind == "refusal":
        return "NO_RESULTS"
    return "LOW_CONF" if response.confidence_level == "low" else "COMPLETED"


def timed(response: AgentResponse, started: float, question: str) -> AgentResponse:
    elapsed = (time.perf_counter() - started) * 1000
    return response.model_copy(update={"total_time_ms": elapsed, "query": question})
