"""Conversations under the keys of their threads, for as long as they live."""

import uuid
from contextlib import suppress

import pytest
from redis.asyncio import Redis

from bot.conversations import (
    REMEMBERED_THREADS,
    Conversations,
    conversation_name,
    joined_key,
    new_conversation,
    thread_key,
)
from rag.errors import StoreUnavailable
from rag.types import AgentResponse, Conversation

THREAD = "slack:T1:C1:100.1"
PRIVATE = "slack:T1:C1:U1"


@pytest.fixture
def conversations(redis: Redis) -> Conversations:
    return Conversations(redis, ttl_seconds=3600)


def talk(*questions: str) -> Conversation:
    conversation = new_conversation()
    for question in questions:
        response = AgentResponse(content=f"About {question}.", kind="answer")
        conversation = conversation.with_exchange(question, response)
    return conversation


async def test_a_new_thread_has_no_conversation(conversations: Conversations) -> None:
    assert await conversations.load(THREAD) is None
    assert not await conversations.has_joined(THREAD)


async def test_a_conversation_comes_back_as_it_was_saved(conversations: Conversations) -> None:
    conversation = talk("topics", "services")
    await conversations.save(THREAD, conversation)
    assert await conversations.load(THREAD) == conversation


async def test_a_thread_names_its_conversation_by_id(
    conversations: Conversations, redis: Redis
) -> None:
    conversation = talk("topics")
    await conversations.save(THREAD, conversation)
    assert await redis.get(thread_key(THREAD)) == conversation.id
    stored = await redis.get(conversation_name(conversation.id))
    assert stored
    assert Conversation.model_validate_json(stored) == conversation


async def test_saving_starts_the_time_to_live_anew(
    conversations: Conversations, redis: Redis
) -> None:
    conversation = talk("topics")
    names = (thread_key(THREAD), conversation_name(conversation.id))
    await conversations.save(THREAD, conversation)
    for name in names:
        await redis.expire(name, 10)
    await conversations.save(THREAD, conversation)
    for name in names:
        assert await redis.pttl(name) > 10_000


async def test_reading_leaves_the_time_to_live_alone(
    conversations: Conversations, redis: Redis
) -> None:
    await conversations.save(THREAD, talk("topics"))
    await redis.expire(thread_key(THREAD), 10)
    await conversations.load(THREAD)
    assert await redis.pttl(thread_key(THREAD)) <= 10_000


@pytest.mark.parametrize("expired", ["thread", "conversation", "both"])
async def test_an_expired_conversation_is_forgotten_but_the_thread_is_still_ours(
    conversations: Conversations, redis: Redis, expired: str
) -> None:
    conversation = talk("topics")
    await conversations.save(THREAD, conversation)
    if expired != "conversation":
        await redis.pexpire(thread_key(THREAD), 0)
    if expired != "thread":
        await redis.pexpire(conversation_name(conversation.id), 0)
    assert await conversations.load(THREAD) is None
    after_a_restart = Conversations(redis, ttl_seconds=3600)
    assert await after_a_restart.has_joined(THREAD)


async def test_what_cannot_be_read_any_more_is_begun_anew(
    conversations: Conversations, redis: Redis
) -> None:
    conversation = talk("topics")
    await conversations.save(THREAD, conversation)
    await redis.set(conversation_name(conversation.id), '{"of": "another version"}')
    assert await conversations.load(THREAD) is None


async def test_a_thread_can_be_joined_before_anything_was_said(
    conversations: Conversations, redis: Redis
) -> None:
    await conversations.join(THREAD)
    assert await Conversations(redis, ttl_seconds=3600).has_joined(THREAD)
    assert await conversations.load(THREAD) is None


async def test_only_so_many_threads_are_remembered_without_redis(no_redis: Redis) -> None:
    conversations = Conversations(no_redis, ttl_seconds=60)
    for number in range(REMEMBERED_THREADS + 1):
        with suppress(StoreUnavailable):
            await conversations.join(f"thread {number}")
    assert await conversations.has_joined("thread 1")
    with pytest.raises(StoreUnavailable):
        await conversations.has_joined("thread 0")


async def test_a_joined_thread_outlives_its_conversation_by_far(
    conversations: Conversations, redis: Redis
) -> None:
    await conversations.save(THREAD, talk("topics"))
    assert await redis.ttl(joined_key(THREAD)) > 80 * 24 * 3600


async def test_a_private_conversation_is_kept_apart_from_its_channels(
    conversations: Conversations,
) -> None:
    await conversations.save(PRIVATE, talk("my grade"))
    assert await conversations.load(THREAD) is None
    assert not await conversations.has_joined(THREAD)


def test_a_new_conversation_has_an_id_of_its_own() -> None:
    first, second = new_conversation(), new_conversation()
    assert uuid.UUID(first.id) != uuid.UUID(second.id)


async def test_without_redis_every_call_says_so(no_redis: Redis) -> None:
    conversations = Conversations(no_redis, ttl_seconds=60)
    with pytest.raises(StoreUnavailable):
        await conversations.load(THREAD)
    with pytest.raises(StoreUnavailable):
        await conversations.save(THREAD, talk("topics"))
    with pytest.raises(StoreUnavailable):
        await conversations.has_joined(PRIVATE)


async def test_without_redis_a_thread_that_was_answered_in_is_still_ours(no_redis: Redis) -> None:
    conversations = Conversations(no_redis, ttl_seconds=60)
    with pytest.raises(StoreUnavailable):
        await conversations.save(THREAD, talk("topics"))
    assert await conversations.has_joined(THREAD)
