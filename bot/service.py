"""The bot itself: a question in, the events of its answer out, the conversation remembered."""

import logging
import re
import unicodedata
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

from bot.conversations import Conversations, new_conversation
from bot.courses import Courses
from rag.agent import Agent
from rag.errors import StoreUnavailable
from rag.prompts import BLANK_QUESTION, NO_MEMORY, NO_WORDS_QUESTION, TOO_LONG_QUESTION
from rag.types import (
    MAX_QUESTION_CHARACTERS,
    AgentResponse,
    AnswerEvent,
    Conversation,
    Done,
    Message,
    Question,
    StateChanged,
)

LAST_MESSAGE = "last_message_id"
TERMINAL_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
Rebuild = Callable[[], Awaitable[list[Message]]]
"""Reads a thread's earlier messages from its platform, for a conversation that has expired."""

logger = logging.getLogger(__name__)


class CourseBot:
    """Answers questions about courses; the one way through for every platform."""

    def __init__(self, agent: Agent, conversations: Conversations, courses: Courses) -> None:
        self._agent = agent
        self._conversations = conversations
        self._courses = courses

    async def answer(
        self, question: Question, rebuild: Rebuild | None = None
    ) -> AsyncIterator[AnswerEvent]:
        """The answer as it comes about; the last event is always `Done`."""
        yield StateChanged(state="PENDING")
        await self._join(question)
        text = readable(question.text)
        if objection := objection_to(text):
            yield StateChanged(state="ERROR")
            yield Done(response=AgentResponse(content=objection, kind="chat", query=text))
            return
        course = await self._courses.resolve(question.course)
        conversation, remembered = await self._recall(question, rebuild)
        async for event in self._agent.answer(text, course.book_id, conversation):
            if isinstance(event, Done):
                response = event.response.model_copy(update={"session_id": conversation.id})
                remembered &= await self._remember(question, conversation, text, response)
                yield Done(response=response if remembered else without_memory(response))
            else:
                yield event

    async def _join(self, question: Question) -> None:
        """Whatever the reply will be, a student need not call the bot again to go on from it."""
        with suppress(StoreUnavailable):
            await self._conversations.join(question.conversation_key)

    async def _recall(
        self, question: Question, rebuild: Rebuild | None
    ) -> tuple[Conversation, bool]:
        """The thread's conversation, and whether memory could be reached."""
        try:
            known = await self._conversations.load(question.conversation_key)
        except StoreUnavailable:
            return new_conversation(), False
        if known is not None:
            return without_question(known, question.message_id), True
        if rebuild is None or question.private:
            return new_conversation(), True
        return rebuilt(await rebuild()), True

    async def _remember(
        self, question: Question, conversation: Conversation, text: str, response: AgentResponse
    ) -> bool:
        continued = conversation.with_exchange(text, response)
        continued.metadata[LAST_MESSAGE] = question.message_id
        try:
            await self._conversations.save(question.conversation_key, continued)
        except StoreUnavailable as error:
            logger.warning("The conversation was not saved: %s", error)
            return False
        return True


def readable(text: str) -> str:
    """The text without control characters, which no model and no index should see, and without
    the colours of an error that was copied out of a terminal."""
    plain = TERMINAL_COLOUR.sub("", text)
    kept = (c if c in "\n\t" or unicodedata.category(c)[0] != "C" else " " for c in plain)
    return "".join(kept).strip()


def objection_to(text: str) -> str | None:
    """Why a message cannot be answered at all, in one sentence; None if it can."""
    if not text:
        return BLANK_QUESTION
    if len(text) > MAX_QUESTION_CHARACTERS:
        return TOO_LONG_QUESTION.format(length=len(text), limit=MAX_QUESTION_CHARACTERS)
    if not any(c.isalnum() for c in text):
        return NO_WORDS_QUESTION
    return None


def without_question(conversation: Conversation, message_id: str) -> Conversation:
    """The conversation before this question, if a crashed attempt already added its answer."""
    if conversation.metadata.get(LAST_MESSAGE) != message_id:
        return conversation
    return conversation.model_copy(
        update={
            "messages": conversation.messages[:-2],
            "turn_count": max(conversation.turn_count - 1, 0),
        }
    )


def rebuilt(messages: list[Message]) -> Conversation:
    conversation = new_conversation()
    turns = sum(message.role == "user" for message in messages)
    return conversation.model_copy(update={"messages": messages, "turn_count": turns})


def without_memory(response: AgentResponse) -> AgentResponse:
    notice = " ".join(part for part in (response.notice, NO_MEMORY) if part)
    return response.model_copy(update={"notice": notice})
