"""One answer in the making: written, checked, cited, and counted."""

import json
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any

from pydantic import ValidationError

from rag.answering import Answerer, Assignment
from rag.checking import Checked, Checker
from rag.citations import CitationWriter
from rag.embedding import Embedder
from rag.errors import AnsweringError, FootnoteError
from rag.prompts import LOW_CONFIDENCE, REFUSAL
from rag.retrieval import Retriever
from rag.types import (
    AgentResponse,
    Citation,
    Conversation,
    Delta,
    RetrievalContext,
    SearchFilters,
    SearchResult,
    ToolCall,
)
from rag.units import Unit, UnitCutter

Judge = Callable[[Sequence[Checked]], Awaitable[tuple[list[bool], int]]]
"""A verdict a sentence, and the tokens it took."""

_OTHER_REFUSAL = re.compile(
    r"^(?:i['’]?m sorry|sorry|unfortunately)?[\s,]*(?:but )?(?:i|the (?:passages?|book|text)) "
    r"(?:do(?:es)?n['’]t|do(?:es)? not|cannot|can['’]t|could not|couldn['’]t) "
    r"(?:have|contain|provide|find|answer|include|mention)\b",
    re.IGNORECASE,
)
logger = logging.getLogger(__name__)


class Writing:
    """What is known of an answer while it comes about: its text, its citations, its searches."""

    def __init__(
        self,
        retriever: Retriever,
        embedder: Embedder,
        question: str,
        context: RetrievalContext,
        conversation: Conversation,
        book_id: str,
    ) -> None:
        self._retriever = retriever
        self._embedder = embedder
        self._book_id = book_id
        self._context = context
        self._started = time.perf_counter()
        self.retrievals: list[ToolCall] = []
        self.assignment = Assignment(
            question=question,
            context=context,
            history=conversation.messages,
            passages=list(context.results),
            retrieve=self.retrieve,
            topic_summary=conversation.topic_summary,
        )
        self._citations = CitationWriter(self.assignment.passages)
        self._model = ""
        self.text = ""
        self.refused = False
        """Whether the model said that the passages do not hold the answer."""
        self.notice: str | None = None
        self.error: str | None = None

    async def quoted_by(self, answerer: Answerer) -> AsyncIterator[Delta]:
        """What is in the book's own words needs no check, only its citations."""
        self._begin(answerer)
        async for piece in answerer.write(self.assignment):
            yield self._shown(*self._citations.feed(piece))

    async def checked_by(self, answerer: Answerer, judge: Judge | None) -> AsyncIterator[Delta]:
        """What a model writes, sentence by sentence, as far as its passages bear it out."""
        self._begin(answerer)
        checked = self._checked(answerer)
        async for item in checked if judge is None else self._judged(checked, judge):
            gap = item.gap if self.text else ""
            yield self._shown(*self._citations.feed(gap + item.text))

    def close(self) -> Iterator[Delta]:
        """The end of the text."""
        rest = self._shown(*self._citations.finish())
        if rest.text:
            yield rest

    def _begin(self, answerer: Answerer) -> None:
        self._model = answerer.model
        self._citations = CitationWriter(self.assignment.passages)

    async def _checked(self, answerer: Answerer) -> AsyncIterator[Checked]:
        checker = Checker(self.assignment.passages, self._asked, self._embedder)
        async for unit in units_of(answerer.write(self.assignment)):
            if is_refusal(unit.text):
                # Only at its beginning does a refusal speak for the whole answer.
                self.refused = self.refused or not (self.text or checker.dropped)
                continue
            item = await checker.check(unit)
            if item is not None and not self.refused:
                yield item
        for text, fault in checker.dropped:
            logger.info("Not shown: %r (%s)", text, fault)

    async def _judged(
        self, checked: AsyncIterator[Checked], judge: Judge
    ) -> AsyncIterator[Checked]:
        """What the judge also finds supported; if it cannot say, nothing is."""
        items = [item async for item in checked]
        if not items:
            return
        try:
            verdicts, tokens = await judge(items)
        except AnsweringError as error:
            logger.warning("The answer could not be judged: %s", error)
            self.error = str(error)
            return
        self.assignment.tokens_used += tokens
        for item, supported in zip(items, verdicts, strict=True):
            if supported:
                yield item

    @property
    def _asked(self) -> str:
        """The question, and what it leans on when it stands for an earlier one."""
        return f"{self.assignment.question}\n{self._context.query}"

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
        self.retrievals.append(ToolCall.of(context))
        return context.tool_json(self._numbered(context.results))

    def response(self) -> AgentResponse:
        """The answer as it stands; only when there is text."""
        metrics = self._context.metrics
        low = LOW_CONFIDENCE if metrics.confidence_level == "low" else None
        return AgentResponse(
            content=self.text.strip(),
            kind="answer",
            query=self.assignment.question,
            citations=self._citations.citations,
            cited_chunk_ids=self._citations.cited_chunk_ids,
            metrics=metrics,
            notice=self.notice or low,
        )

    def figures(self) -> dict[str, Any]:
        """What is recorded with every answer, refusals included."""
        return {
            "model": self._model,
            "tokens_used": self.assignment.tokens_used,
            "retrieval_count": len(self.assignment.passages),
            "retrievals": self.retrievals,
            "retrieval_time_ms": self._context.query_time_ms,
            "generation_time_ms": (time.perf_counter() - self._started) * 1000,
            "error": self.error,
        }

    def _shown(self, text: str, citations: list[Citation]) -> Delta:
        self.text += text
        return Delta(text=text, citations=citations)

    def _numbered(self, results: list[SearchResult]) -> list[int]:
        """The passages' numbers, new ones added behind those that are already known."""
        passages = self.assignment.passages
        places = {passage.chunk_id: n for n, passage in enumerate(passages, 1)}
        for result in results:
            if result.chunk_id not in places:
                passages.append(result)
                places[result.chunk_id] = len(passages)
        return [places[result.chunk_id] for result in results]


async def units_of(pieces: AsyncIterator[str]) -> AsyncIterator[Unit]:
    cutter = UnitCutter()
    async for piece in pieces:
        for unit in cutter.feed(piece):
            yield unit
    for unit in cutter.finish():
        yield unit


def is_refusal(text: str) -> bool:
    """Whether a sentence says that the book does not hold the answer, in our words or others."""
    plain = text.replace("’", "'").strip(' \n\t"“”*_.').lower()
    return plain.startswith(REFUSAL.lower().rstrip(".")) or bool(_OTHER_REFUSAL.match(plain))


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
