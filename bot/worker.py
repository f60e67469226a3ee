"""Takes questions from the inbox and carries their answers back to the platform they came from."""

import asyncio
import logging
import time
import uuid
from collections import OrderedDict
from collections.abc import Coroutine, Mapping
from typing import Any
from weakref import WeakValueDictionary

from adapters.delivery import Delivery, Draft, Envelope, Place
from bot.inbox import Inbox, Letter
from bot.service import CourseBot
from rag.errors import CourseError, StoreUnavailable
from rag.prompts import FAILURE, NO_COURSE
from rag.types import AgentResponse, Delta, Done, Message, StateChanged

AT_ONCE = 8
POLL_MS = 1_000
UPDATE_SECONDS = 1.0
ANSWER_SECONDS = 240
STOP_SECONDS = 10.0
RECLAIM_MS = 300_000
RETRY_SECONDS = 2.0
MAX_ATTEMPTS = 3
REMEMBERED_MESSAGES = 1_000

logger = logging.getLogger(__name__)


class Worker:
    """Answers several questions at once, those of one conversation one after the other."""

    def __init__(
        self,
        inbox: Inbox,
        bot: CourseBot,
        deliveries: Mapping[str, Delivery],
        update_seconds: float = UPDATE_SECONDS,
    ) -> None:
        self._inbox = inbox
        self._bot = bot
        self._deliveries = deliveries
        self._update_seconds = update_seconds
        self._tasks: set[asyncio.Task[object]] = set()
        self._held: set[str] = set()
        """Entries that are being worked on, or wait for their next attempt."""
        self._postponed: set[str] = set()
        # A lock lives as long as a question of its conversation holds or awaits it.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._answered_directly: OrderedDict[str, None] = OrderedDict()

    async def submit(self, envelope: Envelope) -> None:
        """Store a question; without Redis it is answered at once, without memory."""
        message_id = envelope.question.message_id
        if message_id in self._answered_directly:
            return
        try:
            await self._inbox.put(envelope)
        except StoreUnavailable as error:
            # A mention's two events come together, and both have found Redis gone by now.
            if message_id in self._answered_directly:
                return
            logger.warning("Answering without the inbox: %s", error)
            self._answered_directly[message_id] = None
            if len(self._answered_directly) > REMEMBERED_MESSAGES:
                self._answered_directly.popitem(last=False)
            self._start(self._deliver(envelope, None))

    async def run(self, reclaim_all: bool) -> None:
        """Work until cancelled. `reclaim_all`: no other process can be working on this inbox."""
        idle_ms = 0 if reclaim_all else RECLAIM_MS
        next_reclaim = 0.0
        while not told_to_stop():
            try:
                if time.monotonic() >= next_reclaim:
                    await self._inbox.prepare()
                    self._held -= self._postponed
                    self._postponed.clear()
                    self._handle_all(await self._inbox.reclaim(idle_ms, self._held))
                    idle_ms = RECLAIM_MS
                    next_reclaim = time.monotonic() + RECLAIM_MS / 1000
                free = AT_ONCE - len(self._tasks)
                if free > 0:
                    taken = await self._inbox.take(free, POLL_MS)
                    self._handle_all(taken or await self._inbox.mislaid(self._held))
                else:
                    await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            except StoreUnavailable as error:
                logger.warning("The inbox is out of reach, trying again: %s", error)
                next_reclaim = 0.0
                await asyncio.sleep(RETRY_SECONDS)

    async def stop(self) -> None:
        """Let what is under way end; what was not begun stays in the inbox."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=STOP_SECONDS)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _handle_all(self, letters: list[Letter]) -> None:
        for letter in letters:
            self._held.add(letter.entry)
            self._start(self._handle(letter))

    def _start(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _handle(self, letter: Letter) -> None:
        question = letter.envelope.question
        try:
            async with self._turns.setdefault(question.conversation_key, asyncio.Lock()):
                # Redis may have stored a question although its confirmation was lost.
                delivered = question.message_id in self._answered_directly or await self._deliver(
                    letter.envelope, letter
                )
            if delivered or letter.attempt >= MAX_ATTEMPTS:
                await self._inbox.finish(letter)
                self._held.discard(letter.entry)
            else:
                self._postponed.add(letter.entry)
        except StoreUnavailable as error:
            logger.warning("An answered question could not be taken off: %s", error)
            self._postponed.add(letter.entry)

    async def _deliver(self, envelope: Envelope, letter: Letter | None) -> bool:
        """Answer one question on its platform; False if the platform could not be reached."""
        request_id = uuid.uuid4().hex[:8]
        try:
            delivery = self._deliveries[envelope.platform]
            place = await self._begin(delivery, envelope, letter)
            response = await self._answer(delivery, envelope, letter, place, request_id)
            await delivery.update(envelope, place, response)
        except Exception:  # the worker's edge: one question's failure is never the others'
            logger.exception("Request %s could not be delivered", request_id)
            return False
        return True

    async def _begin(self, delivery: Delivery, envelope: Envelope, letter: Letter | None) -> Place:
        """Where the reply stands: the one begun before a crash, or a new one."""
        if letter and letter.reply:
            return letter.reply
        place = await delivery.find(envelope) if letter and letter.attempt > 1 else None
        place = place or await delivery.begin(envelope, Draft())
        await self._note(letter, place)
        return place

    async def _note(self, letter: Letter | None, place: Place) -> None:
        if letter is None:
            return
        try:
            await self._inbox.note_reply(letter, place)
        except StoreUnavailable as error:
            logger.warning("The reply's place was not stored: %s", error)

    async def _answer(
        self,
        delivery: Delivery,
        envelope: Envelope,
        letter: Letter | None,
        place: Place,
        request_id: str,
    ) -> AgentResponse:
        """The finished answer; while it grows, the student sees it grow."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._grow(delivery, envelope, letter, place)
        except CourseError as error:
            logger.error("Request %s: %s", request_id, error)
            return AgentResponse(content=NO_COURSE, kind="chat", error=str(error))
        except Exception as error:  # a student gets a sentence, the log gets the cause
            logger.exception("Request %s failed", request_id)
            content = FAILURE.format(id=request_id)
            return AgentResponse(content=content, kind="chat", error=type(error).__name__)

    async def _grow(
        self, delivery: Delivery, envelope: Envelope, letter: Letter | None, place: Place
    ) -> AgentResponse:
        draft, shown_at = Draft(), time.monotonic()
        events = self._bot.answer(envelope.question, lambda: earlier(delivery, envelope))
        async for event in events:
            match event:
                case Done(response=response):
                    return response
                case StateChanged(state=state):
                    draft = draft.model_copy(update={"state": state})
                case Delta(text=text, citations=citations):
                    draft = draft.model_copy(
                        update={
                            "text": draft.text + text,
                            "citations": [*draft.citations, *citations],
                        }
                    )
            if time.monotonic() - shown_at >= self._update_seconds:
                await self._show(delivery, envelope, letter, place, draft)
                shown_at = time.monotonic()
        raise RuntimeError("an answer ended without its Done event")

    async def _show(
        self,
        delivery: Delivery,
        envelope: Envelope,
        letter: Letter | None,
        place: Place,
        draft: Draft,
    ) -> None:
        """A glimpse of the unfinished answer; one that fails is no reason to lose the answer."""
        try:
            shown = await delivery.update(envelope, place, draft)
        except Exception:
            logger.warning("A draft could not be shown", exc_info=True)
            return
        if not shown.items() <= place.items():
            place.update(shown)
            await self._note(letter, place)


def told_to_stop() -> bool:
    """Whether this task was cancelled: redis-py swallows a cancellation while it connects."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def earlier(delivery: Delivery, envelope: Envelope) -> list[Message]:
    """The thread so far; a platform that does not hand it out costs the memory, not the answer."""
    try:
        return await delivery.history(envelope)
    except Exception:
        logger.warning("The thread's history could not be read", exc_info=True)
        return []
