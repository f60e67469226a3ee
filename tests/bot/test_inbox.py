"""The inbox: stored before it is acknowledged, kept until it is answered."""

import pytest
from redis.asyncio import Redis

from adapters.delivery import Envelope
from bot.inbox import GROUP, STREAM, Inbox, Letter, entries_of
from rag.errors import StoreUnavailable
from tests.bot.conftest import make_envelope


@pytest.fixture
async def inbox(redis: Redis) -> Inbox:
    inbox = Inbox(redis)
    await inbox.prepare()
    return inbox


async def take_one(inbox: Inbox) -> Letter:
    (letter,) = await inbox.take(count=1, wait_ms=1)
    return letter


async def test_a_question_stands_in_the_stream_before_put_returns(
    inbox: Inbox, redis: Redis
) -> None:
    envelope = make_envelope()
    assert await inbox.put(envelope)
    ((_, fields),) = await redis.xrange(STREAM) or []
    assert fields
    assert Envelope.model_validate_json(fields["envelope"]) == envelope


async def test_a_message_put_twice_is_stored_once(inbox: Inbox, redis: Redis) -> None:
    assert await inbox.put(make_envelope())
    assert not await inbox.put(make_envelope())
    assert await redis.xlen(STREAM) == 1


async def test_an_answered_message_is_not_stored_again(inbox: Inbox, redis: Redis) -> None:
    await inbox.put(make_envelope())
    await inbox.finish(await take_one(inbox))
    assert not await inbox.put(make_envelope())
    assert await redis.xlen(STREAM) == 0


async def test_questions_are_taken_in_the_order_they_came(inbox: Inbox) -> None:
    for text in ("first", "second", "third"):
        await inbox.put(make_envelope(text))
    letters = await inbox.take(count=2, wait_ms=1) + await inbox.take(count=2, wait_ms=1)
    assert [letter.envelope.question.text for letter in letters] == ["first", "second", "third"]
    assert [letter.attempt for letter in letters] == [1, 1, 1]


async def test_an_empty_inbox_gives_nothing(inbox: Inbox) -> None:
    assert await inbox.take(count=8, wait_ms=1) == []
    assert await inbox.reclaim(idle_ms=0) == []


async def test_a_taken_question_stays_until_it_is_finished(inbox: Inbox, redis: Redis) -> None:
    await inbox.put(make_envelope())
    letter = await take_one(inbox)
    assert await inbox.take(count=1, wait_ms=1) == []
    assert await redis.xlen(STREAM) == 1
    await inbox.finish(letter)
    assert await redis.xlen(STREAM) == 0
    assert (await redis.xpending(STREAM, GROUP))["pending"] == 0


async def test_a_question_whose_delivery_got_lost_is_found_again(inbox: Inbox) -> None:
    await inbox.put(make_envelope("lost"))
    await inbox.take(count=1, wait_ms=1)  # the reply with it never arrives
    await inbox.put(make_envelope("held"))
    held = await take_one(inbox)
    (found,) = await inbox.mislaid(held={held.entry})
    assert found.envelope.question.text == "lost"
    assert found.attempt == 2


async def test_a_question_put_before_the_group_existed_is_taken(redis: Redis) -> None:
    inbox = Inbox(redis)
    await inbox.put(make_envelope())
    await inbox.prepare()
    assert (await take_one(inbox)).envelope == make_envelope()


async def test_preparing_twice_changes_nothing(inbox: Inbox) -> None:
    await inbox.put(make_envelope())
    await inbox.prepare()
    assert (await take_one(inbox)).attempt == 1


async def test_a_dead_workers_question_is_reclaimed_with_its_reply(inbox: Inbox) -> None:
    await inbox.put(make_envelope())
    await inbox.note_reply(await take_one(inbox), {"channel": "C1", "ts": "5.0"})
    (second,) = await inbox.reclaim(idle_ms=0)
    (third,) = await inbox.reclaim(idle_ms=0)
    assert [second.attempt, third.attempt] == [2, 3]
    assert second.reply == third.reply == {"channel": "C1", "ts": "5.0"}
    assert second.envelope == make_envelope()


async def test_a_question_whose_reply_was_not_begun_is_reclaimed_without_one(inbox: Inbox) -> None:
    await inbox.put(make_envelope())
    assert (await take_one(inbox)).reply is None
    (letter,) = await inbox.reclaim(idle_ms=0)
    assert letter.reply is None


async def test_a_question_someone_is_working_on_is_not_reclaimed(inbox: Inbox) -> None:
    await inbox.put(make_envelope())
    await take_one(inbox)
    assert await inbox.reclaim(idle_ms=60_000) == []


async def test_a_question_in_our_own_hands_is_not_reclaimed_and_costs_no_attempt(
    inbox: Inbox,
) -> None:
    await inbox.put(make_envelope())
    letter = await take_one(inbox)
    assert await inbox.reclaim(idle_ms=0, held={letter.entry}) == []
    (reclaimed,) = await inbox.reclaim(idle_ms=0)
    assert reclaimed.attempt == 2


async def test_a_finished_question_leaves_no_reply_behind(inbox: Inbox, redis: Redis) -> None:
    await inbox.put(make_envelope())
    letter = await take_one(inbox)
    await inbox.note_reply(letter, {"ts": "5.0"})
    await inbox.finish(letter)
    assert await redis.keys("footnote:{inbox}:reply:*") == []


@pytest.mark.parametrize("fields", [{"envelope": '{"platform": "icq"}'}, {"letter": "?"}])
async def test_something_unreadable_is_removed_and_stops_nobody(
    inbox: Inbox, redis: Redis, fields: dict[str, str]
) -> None:
    await redis.xadd(STREAM, {**fields})
    await inbox.put(make_envelope())
    (letter,) = await inbox.take(count=8, wait_ms=1)
    assert letter.envelope == make_envelope()
    assert await redis.xlen(STREAM) == 1


async def test_without_redis_every_call_says_so(no_redis: Redis) -> None:
    inbox = Inbox(no_redis)
    letter = Letter("1-0", make_envelope(), attempt=1, reply=None)
    for call in (
        inbox.prepare(),
        inbox.put(make_envelope()),
        inbox.take(count=1, wait_ms=1),
        inbox.reclaim(idle_ms=0),
        inbox.note_reply(letter, {"ts": "1"}),
        inbox.finish(letter),
    ):
        with pytest.raises(StoreUnavailable, match="Redis cannot be reached"):
            await call


@pytest.mark.parametrize(
    "answer",
    [
        [["footnote", [("1-0", {"envelope": "{}"})]]],
        {"footnote": [[("1-0", {"envelope": "{}"})]]},
    ],
)
def test_both_protocol_versions_are_understood(answer: object) -> None:
    assert entries_of(answer) == [("1-0", {"envelope": "{}"})]


def test_no_answer_holds_no_entries() -> None:
    assert entries_of(None) == entries_of([]) == entries_of({}) == []
