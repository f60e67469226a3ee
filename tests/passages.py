"""Passages, contexts and assignments as retrieval hands them to whoever answers."""

import json
from collections.abc import Sequence
from typing import Any

from rag.answering import Assignment
from rag.types import ConfidenceLevel, ConfidenceMetrics, Message, RetrievalContext, SearchResult
from tests.factories import make_chunk

TOPICS = "A topic is a named channel that carries one message type in one direction."
SERVICES = "A service is a two-way call: a client sends a request and gets one response."


def make_passage(text: str = TOPICS, rank: int = 1, **overrides: Any) -> SearchResult:
    """A passage of a section of its own, unless told otherwise."""
    section = overrides.pop("section_title", f"Section {rank}")
    url = overrides.pop("url", f"/read/robotics/nodes.md#section-{rank}")
    chunk = make_chunk(text, section_title=section, url=url, **overrides)
    return SearchResult.of(chunk, score=1.0 / rank, similarity=0.7, rank=rank)


def make_passages(*texts: str) -> list[SearchResult]:
    return [make_passage(text, rank) for rank, text in enumerate(texts, 1)]


def make_context(
    *texts: str, question: str = "What is a topic?", level: ConfidenceLevel = "high"
) -> RetrievalContext:
    metrics = ConfidenceMetrics(
        average_similarity=0.7,
        min_similarity=0.7,
        max_similarity=0.7,
        num_chunks=len(texts),
        confidence_level=level,
        should_answer=level != "insufficient",
        p_answerable=0.9 if level != "insufficient" else 0.1,
        policy="calibrated",
    )
    return RetrievalContext(query=question, results=make_passages(*texts), metrics=metrics)


class Searches:
    """A retrieval tool that returns what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    async def __call__(self, arguments: dict[str, Any]) -> str:
        self.asked.append(arguments)
        return json.dumps({"results": [], "total_results": 0, "query": arguments.get("query")})


def make_assignment(
    *texts: str,
    question: str = "What is a topic?",
    history: Sequence[Message] = (),
    searches: Searches | None = None,
) -> Assignment:
    context = make_context(*(texts or (TOPICS, SERVICES)), question=question)
    return Assignment(
        question=question,
        context=context,
        history=history,
        passages=list(context.results),
        retrieve=searches or Searches(),
    )
