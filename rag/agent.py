"""How an answer comes about: retrieve, gate, write, cite."""

import json
import logging
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from pydantic import ValidationError

from rag.answering import Answerer, Assignment
from rag.citations import CitationWriter, best_passage
from rag.errors import AnsweringError, FootnoteError
from rag.prompts import BROKEN_OFF, LOW_CONFIDENCE, OTHER_LANGUAGE, PROVIDER_DOWN, REFUSAL
from rag.retrieval import Retriever
from rag.terms import looks_english
from rag.types import (
    AgentResponse,
    AnswerEvent,
    Citation,
    Conversation,
    Delta,
    Done,
    Refuser,
    RetrievalContext,
    SearchFilters,
    SearchResult,
    StateChanged,
    ToolCall,
)

CLOSEST_SECTIONS = 3
logger = logging.getLogger(__name__)


class Agent:
    """Answers one question at a time from one course; holds nothing between questions."""

    def __init__(self, retriever: Retriever, answerer: Answerer, extractive: Answerer) -> None:
        self._retriever = retriever
        self._answerer = answerer
        self._extractive = extractive

    async def answer(
        self, question: str, book_id: str, conversation: Conversation
    ) -> AsyncIterator[AnswerEvent]:
        """The answer as it comes about; the last event is always `Done`."""
        started = time.perf_counter()
        yield StateChanged(state="RETRIEVING")
        filters = SearchFilters(book_id=book_id)
        context = await self._retriever.retrieve(question, filters, conversation.messages)
        if not context.has_sufficient_context:
            yield StateChanged(state="NO_RESULTS")
            yield Done(response=timed(refusal(question, context, "gate"), started))
            return
        yield StateChanged(state="GENERATING")
        writing = Writing(self._retriever, question, context, conversation, book_id)
        async for delta in self._write(writing):
            yield delta
        response = timed(writing.response(), started)
        low = response.kind == "answer" and response.confidence_level == "low"
        refused = response.kind == "refusal"
        yield StateChanged(state="NO_RESULTS" if refused else "LOW_CONF" if low else "COMPLETED")
        yield Done(response=response)

    async def _write(self, writing: "Writing") -> AsyncIterator[Delta]:
        try:
            async for delta in writing.by(self._answerer):
                yield delta
        except AnsweringError as error:
            logger.warning("%s", error)
            writing.error = str(error)
            writing.notice = BROKEN_OFF if writing.text else PROVIDER_DOWN
            if not writing.text:
                async for delta in writing.by(self._extractive):
                    yield delta
        for delta in writing.close():
            yield delta


class Writing:
    """One answer in the making: its text so far, what it cites and what it searched for."""

    def __init__(
        self,
        retriever: Retriever,
        question: str,
        context: RetrievalContext,
        conversation: Conversation,
        book_id: str,
    ) -> None:
        self._retriever = retriever
        self._book_id = book_id
        self._context = context
        self._started = time.perf_counter()
        self._retrievals = [ToolCall.of(context)]
        self._assignment = Assignment(
            question=question,
            context=context,
            history=conversation.messages,
            passages=list(context.results),
            retrieve=self.retrieve,
        )
        self._citations = CitationWriter(self._assignment.passages)
        self._model = ""
        self.text = ""
        self.notice: str | None = None
        self.error: str | None = None

    async def by(self, answerer: Answerer) -> AsyncIterator[Delta]:
        """What the answerer writes, with its markers resolved; a refusal is not shown as text."""
        self._model = answerer.model
        self._citations = CitationWriter(self._assignment.passages)
        held = ""
        async for piece in answerer.write(self._assignment):
            held += piece
            # Only an answer's beginning can be the refusal: once text is shown, all of it is.
            if not self.text and may_be_refusal(held):
                continue
            delta, held = self._shown(*self._citations.feed(held)), ""
            if delta.text:
                yield delta
        if held and not is_refusal(held):
            yield self._shown(*self._citations.feed(held))

    def close(self) -> Iterator[Delta]:
        """The end of the text; an answer without a single citation gets its best passage."""
        rest = self._shown(*self._citations.finish())
        if rest.text:
            yield rest
        if self.text.strip() and not self._citations.citations:
            number = self._citations.cite(best_passage(self.text, self._assignment.passages))
            # Behind a closing fence a marker would open the code block again.
            last_line = self.text.rstrip().rpartition("\n")[2]
            space = "\n\n" if last_line.lstrip().startswith(("```", "~~~", "|")) else " "
            yield self._shown(f"{space}[{number}]", self._citations.citations)

    async def retrieve(self, arguments: dict[str, Any]) -> str:
        """The model's own search; what it finds can be cited under the numbers that follow."""
        # Models fill in optional arguments with nothing rather than leaving them out.
        given = {name: value for name, value in arguments.items() if value not in (None, "", [])}
        query = str(given.get("query", "")).strip()
        try:
            filters = tool_filters(given, self._book_id)
            top_k, threshold = tool_bounds(given)
            if not query:
                raise ValueError("query must not be empty")
            context = await self._retriever.retrieve(query, filters, (), top_k, threshold)
        except (FootnoteError, ValueError) as error:
            return json.dumps({"error": tool_error(error), "query": query}, ensure_ascii=False)
        self._retrievals.append(ToolCall.of(context))
        return context.tool_json(self._numbered(context.results))

    def response(self) -> AgentResponse:
        figures = {
            "model": self._model,
            "tokens_used": self._assignment.tokens_used,
            "retrieval_count": len(self._assignment.passages),
            "retrievals": self._retrievals,
            "generation_time_ms": (time.perf_counter() - self._started) * 1000,
            "error": self.error,
        }
        return self._outcome().model_copy(update=figures)

    def _outcome(self) -> AgentResponse:
        if not self.text.strip():
            return refusal(self._assignment.question, self._context, "model")
        metrics = self._context.metrics
        notice = self.notice
        if notice is None and metrics.confidence_level == "low":
            notice = LOW_CONFIDENCE
        return AgentResponse(
            content=self.text.strip(),
            kind="answer",
            query=self._assignment.question,
            citations=self._citations.citations,
            cited_chunk_ids=self._citations.cited_chunk_ids,
            metrics=metrics,
            notice=notice,
            retrieval_time_ms=self._context.query_time_ms,
        )

    def _shown(self, text: str, citations: list[Citation]) -> Delta:
        self.text += text
        return Delta(text=text, citations=citations)

    def _numbered(self, results: list[SearchResult]) -> list[int]:
        """The passages' numbers, new ones added behind those that are already known."""
        passages = self._assignment.passages
        places = {passage.chunk_id: n for n, passage in enumerate(passages, 1)}
        for result in results:
            if result.chunk_id not in places:
                passages.append(result)
                places[result.chunk_id] = len(passages)
        return [places[result.chunk_id] for result in results]


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


def timed(response: AgentResponse, started: float) -> AgentResponse:
    return response.model_copy(update={"total_time_ms": (time.perf_counter() - started) * 1000})


def is_refusal(text: str) -> bool:
    return _plain(text).startswith(_plain(REFUSAL))


def may_be_refusal(text: str) -> bool:
    """Whether a text that has only begun is the refusal, or can still become it."""
    return _plain(REFUSAL).startswith(_plain(text)) or is_refusal(text)


def _plain(text: str) -> str:
    return text.replace("’", "'").strip(' \n\t"“”*_.').lower()


def tool_filters(arguments: dict[str, Any], book_id: str) -> SearchFilters:
    return SearchFilters(
        book_id=book_id,
        module_filter=arguments.get("module"),
        chapter_min=arguments.get("chapter_min"),
        chapter_max=arguments.get("chapter_max"),
        lesson_filter=arguments.get("lesson"),
        proficiency_levels=arguments.get("proficiency_levels"),
        layer_filter=arguments.get("layer"),
        hardware_tier_filter=arguments.get("hardware_tier"),
    )


def tool_bounds(arguments: dict[str, Any]) -> tuple[int, float]:
    try:
        top_k = int(arguments.get("top_k", 5))
        threshold = float(arguments.get("similarity_threshold", 0.0))
    except (TypeError, OverflowError) as error:
        raise ValueError("top_k and similarity_threshold must be numbers") from error
    if not 1 <= top_k <= 20:
        raise ValueError("top_k must be between 1 and 20")
    if not 0.0 <= threshold <= 1.0:
        raise ValueError("similarity_threshold must be between 0.0 and 1.0")
    return top_k, threshold


def tool_error(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return "; ".join(
            f"{e['loc'][0] if e['loc'] else 'input'}: {e['msg']}" for e in error.errors()
        )
    return str(error)
