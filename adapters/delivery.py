"""The contract between a platform adapter and the bot: what goes in, and how replies come out."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pydantic import BaseModel, Field

from rag.types import AgentResponse, Citation, Message, Question, SearchResult, State

Place = dict[str, str]
"""Where on its platform a question was asked, or where its reply stands; can be stored as JSON."""


class Envelope(BaseModel):
    """A question with the place it came from, as it waits in the inbox."""

    platform: str
    question: Question
    place: Place


class Draft(BaseModel):
    """An answer that is still being written."""

    state: State = "PENDING"
    text: str = ""
    citations: list[Citation] = Field(default_factory=list[Citation])


Reply = Draft | AgentResponse


@dataclass(frozen=True)
class Delivery:
    """The four things an adapter can do with a reply."""

    begin: Callable[[Envelope, Draft], Awaitable[Place]]
    """Post the first, unfinished message; returns where it stands."""
    update: Callable[[Envelope, Place, Reply], Awaitable[Place]]
    """Show more of it, or the finished answer, in the same place (and further messages if long)."""
    find: Callable[[Envelope], Awaitable[Place | None]]
    """Its own reply to this question, if one was begun before a crash."""
    history: Callable[[Envelope], Awaitable[list[Message]]]
    """The thread's earlier messages, user and assistant in turn, to rebuild a lost conversation."""


Submit = Callable[[Envelope], Awaitable[None]]
"""Returns once the question is safely stored; a question seen before is dropped quietly."""

Lookup = Callable[[str, str | None], Awaitable[list[SearchResult]]]
"""The sections of a course (None: the only one) that fit some words; no answer is written."""

Suggest = Callable[[str, str | None], Awaitable[list[str]]]
"""Chapter and section names of a course that contain some letters, for autocompletion."""

Participates = Callable[[str], Awaitable[bool]]
"""Whether the bot has answered under this conversation key: a reply there is meant for it."""
