"""Writing an answer from passages: what the agent asks of whoever writes."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from rag.types import Message, RetrievalContext, SearchResult


@dataclass
class Assignment:
    """One question with everything an answerer may use, and what it reports back."""

    question: str
    context: RetrievalContext
    history: Sequence[Message]
    passages: list[SearchResult]
    """What can be cited, by position: passage 1 is the first; a further retrieval adds to it."""
    retrieve: Callable[[dict[str, Any]], Awaitable[str]]
    """The retrieval tool: its arguments in, its JSON out; never raises."""
    topic_summary: str = ""
    """What the conversation was about before what `history` still holds."""
    tokens_used: int = field(default=0)


class Answerer(Protocol):
    """Writes an answer in pieces, with `[n]` or `[n|"words"]` after what rests on passage n."""

    @property
    def model(self) -> str: ...

    @property
    def verbatim(self) -> bool:
        """Whether it only ever quotes, so that nothing needs to be checked."""
        ...

    def write(self, assignment: Assignment) -> AsyncIterator[str]: ...
