"""What fits the model's window: the newest of the conversation, the best of the passages."""

from collections.abc import Sequence

from rag.types import Message, RetrievalContext

RESERVED_FOR_ANSWER = 1_000
BYTES_PER_TOKEN = 3
"""English has about four letters a token, Chinese one sign of three bytes: this errs high."""
TOKENS_PER_MESSAGE = 6


def estimated_tokens(text: str) -> int:
    return len(text.encode()) // BYTES_PER_TOKEN + TOKENS_PER_MESSAGE


def fitting_passages(context: RetrievalContext, budget: int) -> RetrievalContext:
    """As many of the best passages as half of the budget holds, and always the first."""
    kept: int = len(context.results)
    while kept > 1 and _tokens_of(context, kept) > budget // 2:
        kept -= 1
    return context.model_copy(update={"results": context.results[:kept]})


def _tokens_of(context: RetrievalContext, kept: int) -> int:
    return sum(estimated_tokens(result.context or result.text) for result in context.results[:kept])


def fitting_history(history: Sequence[Message], budget: int) -> list[Message]:
    """The newest exchanges, oldest dropped first; what is left begins with a question."""
    kept: list[Message] = []
    for message in reversed(history):
        budget -= estimated_tokens(message.content)
        if budget < 0:
            break
        kept.insert(0, message)
    while kept and kept[0].role != "user":
        kept.pop(0)
    return kept
