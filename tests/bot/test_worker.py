"""From the inbox to the platform and back, crashes and outages included."""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager, suppress

import pytest
from redis.asyncio import Redis

from adapters.delivery import Draft, Envelope
from bot.conversations import Conversations
from bot.inbox import STREAM, Inbox, Letter
from bot.service import CourseBot
from bot.worker import MAX_ATTEMPTS, Worker
from rag.errors import StoreUnavailable
from rag.prompts import FAILURE, NO_COURSE, NO_MEMORY
from rag.types import AgentResponse, Message
from tests.bot.conftest import EchoAgent, FakePlatform, make_bot, make_envelope

PATIENCE_SECONDS = 20


@pytest.fixture
def platform() -> FakePlatform:
    return FakePlatform()


@pytest.fixture
async def inbox(redis: Redis) -> Inbox:
    inbox = Inbox(redis)
    await inbox.prepare()
    return inbox


@pytest.fixture
def worker(inbox: Inbox, bot: CourseBot, platform: FakePlatform) -> Worker:
    return make_worker(inbox, bot, platform)


def make_worker(inbox: Inbox, bot: CourseBot, platform: FakePlatform) -> Worker:
    """A worker that shows a draft after every event."""
    return Worker(inbox, bot, {"slack": platform.delivery}, update_seconds=0)


@asynccontextmanager
async def running(worker: Worker, reclaim_all: bool = False) -> AsyncGenerator[None]:
    working = asyncio.create_task(worker.run(reclaim_all))
    try:
        yield
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await worker.stop()


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await condition():
            await asyncio.sleep(0.005)


async def all_answered(redis: Redis) -> None:
    async def empty() -> bool:
        return await redis.xlen(STREAM) == 0

    await until(empty)


async def asked(agent: EchoAgent, *questions: str) -> None:
    async def begun() -> bool:
        return sorted(agent.asked) == sorted(questions)

    await until(begun)


async def until_read(redis: Redis) -> None:
    """Until a worker has taken everything there is."""

    async def read() -> bool:
        (group,) = await redis.xinfo_groups(STREAM)
        return group["lag"] == 0 and group["pending"] > 0

    await until(read)


# --- The way of an answer ----------------------------------------------------------------------


async def test_an_answer_begins_grows_and_is_finished_in_one_place(
    worker: Worker, platform: FakePlatform, redis: Redis
) -> None:
    await worker.submit(make_envelope("What is a topic?"))
    async with running(worker):
        await all_answered(redis)
    assert platform.begun == [{"ts": "1"}]
    *drafts, finished = platform.shown["1"]
    assert [draft.text for draft in drafts if isinstance(draft, Draft)] == [
        "",
        "",
        "You asked: ",
        "You asked: What is a topic?",
    ]
    assert isinstance(finished, AgentResponse)
    assert finished.content == "You asked: What is a topic?"


async def test_a_message_delivered_twice_is_answered_once(
    worker: Worker, platform: FakePlatform, redis: Redis
) -> None:
    async with running(worker):
        await worker.submit(make_envelope())
        await worker.submit(make_envelope())
        await all_answered(redis)
        await worker.submit(make_envelope())
        await worker.submit(make_envelope("Another one?"))
        await all_answered(redis)
    assert platform.answers() == ["You asked: What is a topic?", "You asked: Another one?"]


async def test_one_conversation_is_answered_in_order_and_others_meanwhile(
    worker: Worker, agent: EchoAgent, platform: FakePlatform, redis: Redis
) -> None:
    agent.held_back["first"] = asyncio.Event()
    for text in ("first", "second", "third"):
        await worker.submit(make_envelope(text))
    await worker.submit(make_envelope("elsewhere", conversation_key="slack:T1:C1:200.2"))
    async with running(worker):
        await asked(agent, "first", "elsewhere")
        agent.held_back["first"].set()
        await all_answered(redis)
    assert agent.asked[2:] == ["second", "third"]
    assert agent.remembered[-1] == ["first", "You asked: first", "second", "You asked: second"]
    assert len(platform.begun) == 4


async def test_an_expired_thread_is_read_back_from_its_platform(
    worker: Worker, agent: EchoAgent, platform: FakePlatform, redis: Redis
) -> None:
    platform.thread = [
        Message(role="user", content="What is a node?"),
        Message(role="assistant", content="A process."),
    ]
    await worker.submit(make_envelope("And a topic?"))
    async with running(worker):
        await all_answered(redis)
    assert agent.remembered == [["What is a node?", "A process."]]


# --- When something fails ----------------------------------------------------------------------


async def test_a_failure_becomes_a_sentence_with_an_id_and_the_question_is_done(
    worker: Worker, agent: EchoAgent, platform: FakePlatform, redis: Redis
) -> None:
    agent.failure = RuntimeError("secret details of the provider")
    await worker.submit(make_envelope())
    async with running(worker):
        await all_answered(redis)
    (content,) = platform.answers()
    assert re.fullmatch(re.escape(FAILURE).replace(r"\{id\}", "[0-9a-f]{8}"), content)
    assert "secret" not in str(platform.shown)


async def test_an_unknown_course_becomes_a_sentence(
    worker: Worker, platform: FakePlatform, redis: Redis
) -> None:
    await worker.submit(make_envelope(course="chess"))
    async with running(worker):
        await all_answered(redis)
    assert platform.answers() == [NO_COURSE]


async def test_a_draft_that_cannot_be_shown_does_not_cost_the_answer(
    worker: Worker, platform: FakePlatform, redis: Redis
) -> None:
    platform.refuses = lambda reply: isinstance(reply, Draft) and bool(reply.text)
    await worker.submit(make_envelope())
    async with running(worker):
        await all_answered(redis)
    assert platform.answers() == ["You asked: What is a topic?"]


async def test_a_history_that_cannot_be_read_does_not_cost_the_answer(
    worker: Worker, platform: FakePlatform, redis: Redis
) -> None:
    platform.forgets = True
    await worker.submit(make_envelope())
    async with running(worker):
        await all_answered(redis)
    assert platform.answers() == ["You asked: What is a topic?"]


async def test_what_could_not_be_delivered_stays_and_is_retried_in_the_same_place(
    worker: Worker, inbox: Inbox, bot: CourseBot, platform: FakePlatform, redis: Redis
) -> None:
    platform.refuses = lambda reply: isinstance(reply, AgentResponse)
    await worker.submit(make_envelope())
    async with running(worker):
        await until_read(redis)
    assert platform.answers() == []
    assert await redis.xlen(STREAM) == 1

    platform.refuses = lambda _: False
    async with running(make_worker(inbox, bot, platform), reclaim_all=True):
        await all_answered(redis)
    assert platform.begun == [{"ts": "1"}]
    assert platform.answers() == ["You asked: What is a topic?"]
    conversation = await Conversations(redis, 60).load(make_envelope().question.conversation_key)
    assert conversation is not None
    assert conversation.turn_count == 1


async def test_what_can_never_be_delivered_is_given_up_in_the_end(
    inbox: Inbox, bot: CourseBot, platform: FakePlatform, redis: Redis
) -> None:
    platform.refuses = lambda _: True
    await inbox.put(make_envelope())
    await inbox.take(count=1, wait_ms=1)
    for _ in range(2, MAX_ATTEMPTS):
        await inbox.reclaim(idle_ms=0)
    async with running(make_worker(inbox, bot, platform), reclaim_all=True):
        await all_answered(redis)
    assert platform.answers() == []


async def test_an_unknown_platform_hurts_nobody_else(
    worker: Worker, platform: FakePlatform, redis: Redis
) -> None:
    foreign = make_envelope("lost", conversation_key="icq:1").model_copy(update={"platform": "icq"})
    await worker.submit(foreign)
    await worker.submit(make_envelope())

    async def one_left() -> bool:
        return await redis.xlen(STREAM) == 1

    async with running(worker):
        await until(one_left)
    assert platform.answers() == ["You asked: What is a topic?"]


# --- After a crash -----------------------------------------------------------------------------


async def test_after_a_crash_the_reply_whose_place_was_noted_is_edited(
    worker: Worker, inbox: Inbox, platform: FakePlatform, redis: Redis
) -> None:
    await inbox.put(make_envelope())
    (letter,) = await inbox.take(count=1, wait_ms=1)
    await inbox.note_reply(letter, {"ts": "begun before the crash"})
    async with running(worker, reclaim_all=True):
        await all_answered(redis)
    assert platform.begun == []
    assert list(platform.shown) == ["begun before the crash"]
    assert platform.answers() == ["You asked: What is a topic?"]


async def test_after_a_crash_the_reply_that_the_platform_finds_is_edited(
    worker: Worker, inbox: Inbox, platform: FakePlatform, redis: Redis
) -> None:
    await inbox.put(make_envelope())
    await inbox.take(count=1, wait_ms=1)
    platform.found = {"ts": "posted but never noted"}
    async with running(worker, reclaim_all=True):
        await all_answered(redis)
    assert platform.begun == []
    assert list(platform.shown) == ["posted but never noted"]


async def test_after_a_crash_before_any_reply_a_new_one_begins(
    worker: Worker, inbox: Inbox, platform: FakePlatform, redis: Redis
) -> None:
    await inbox.put(make_envelope())
    await inbox.take(count=1, wait_ms=1)
    async with running(worker, reclaim_all=True):
        await all_answered(redis)
    assert platform.answers() == ["You asked: What is a topic?"]


async def test_further_messages_of_a_long_answer_are_noted_too(
    inbox: Inbox, bot: CourseBot, agent: EchoAgent, redis: Redis
) -> None:
    platform = LongWinded()
    question = make_envelope().question.text
    agent.held_back[question] = asyncio.Event()
    await inbox.put(make_envelope())
    async with running(make_worker(inbox, bot, platform)):
        await asked(agent, question)

        async def noted() -> bool:
            (key,) = await redis.keys("footnote:{inbox}:reply:*")
            return "1.2" in str(await redis.hget(key, "place"))

        await until(noted)
        agent.held_back[question].set()
        await all_answered(redis)


class LongWinded(FakePlatform):
    """Needs a second message for every reply."""

    async def _update(
        self, envelope: Envelope, place: dict[str, str], reply: object
    ) -> dict[str, str]:
        return place | {"more": f"{place['ts']}.2"}


# --- Without Redis -----------------------------------------------------------------------------


async def test_without_redis_a_question_is_answered_once_directly(
    no_redis: Redis, agent: EchoAgent, platform: FakePlatform
) -> None:
    worker = make_worker(Inbox(no_redis), make_bot(no_redis, agent), platform)
    await worker.submit(make_envelope())
    await worker.submit(make_envelope())
    await worker.stop()
    assert platform.begun == [{"ts": "1"}]
    finished = platform.shown["1"][-1]
    assert isinstance(finished, AgentResponse)
    assert finished.content == "You asked: What is a topic?"
    assert finished.notice == NO_MEMORY


async def test_without_redis_both_events_of_one_mention_get_one_reply(
    no_redis: Redis, agent: EchoAgent, platform: FakePlatform
) -> None:
    worker = make_worker(Inbox(no_redis), make_bot(no_redis, agent), platform)
    await asyncio.gather(*(worker.submit(make_envelope()) for _ in range(3)))
    await worker.stop()
    assert platform.begun == [{"ts": "1"}]
    assert agent.asked == ["What is a topic?"]


async def test_a_question_stored_although_redis_seemed_gone_is_answered_once(
    redis: Redis, bot: CourseBot, agent: EchoAgent, platform: FakePlatform
) -> None:
    inbox = LosesConfirmations(redis)
    await inbox.prepare()
    worker = make_worker(inbox, bot, platform)
    await worker.submit(make_envelope())
    assert await redis.xlen(STREAM) == 1
    async with running(worker):
        await all_answered(redis)
    assert agent.asked == ["What is a topic?"]
    assert len(platform.begun) == 1


class LosesConfirmations(Inbox):
    """Stores a question, but the connection breaks before it can say so."""

    async def put(self, envelope: Envelope) -> bool:
        await super().put(envelope)
        raise StoreUnavailable("Redis cannot be reached (TimeoutError).")


async def test_a_worker_told_to_stop_while_redis_connects_ends_all_the_same(
    redis: Redis, bot: CourseBot, platform: FakePlatform
) -> None:
    connecting = SwallowsCancellation(redis)
    working = asyncio.create_task(make_worker(connecting, bot, platform).run(reclaim_all=False))
    await connecting.reached.wait()
    working.cancel()
    await asyncio.wait_for(working, PATIENCE_SECONDS)


class SwallowsCancellation(Inbox):
    """Behaves like redis-py while it connects: a cancellation is not passed on."""

    def __init__(self, redis: Redis) -> None:
        super().__init__(redis)
        self.reached = asyncio.Event()

    async def prepare(self) -> None:
        self.reached.set()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(PATIENCE_SECONDS)

    async def reclaim(self, idle_ms: int, held: Collection[str] = ()) -> list[Letter]:
        return []

    async def take(self, count: int, wait_ms: int) -> list[Letter]:
        await asyncio.sleep(0)
        return []

    async def mislaid(self, held: Collection[str]) -> list[Letter]:
        return []


async def test_a_lost_stream_is_made_anew(
    worker: Worker, platform: FakePlatform, redis: Redis
) -> None:
    async with running(worker):
        await worker.submit(make_envelope("before"))
        await all_answered(redis)
        await redis.flushall()
        await worker.submit(make_envelope("after"))
        await all_answered(redis)
    assert platform.answers() == ["You asked: before", "You asked: after"]
