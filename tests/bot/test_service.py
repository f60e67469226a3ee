"""One question through the bot: what it remembers, and what it says to what it cannot answer."""

import pytest
from redis.asyncio import Redis

from bot.conversations import Conversations, joined_key, thread_key
from bot.service import CourseBot, Rebuild, objection_to, readable
from rag.errors import CourseError
from rag.prompts import BLANK_QUESTION, NO_MEMORY, NO_WORDS_QUESTION
from rag.types import AgentResponse, AnswerEvent, Conversation, Done, Message, Question
from tests.bot.conftest import EchoAgent, make_bot, make_question

THREAD = make_question().conversation_key


async def ask(bot: CourseBot, question: Question, rebuild: Rebuild | None = None) -> AgentResponse:
    """The answer, which is always the last event and the only one of its kind."""
    events: list[AnswerEvent] = [event async for event in bot.answer(question, rebuild)]
    (done,) = [event for event in events if isinstance(event, Done)]
    assert events[-1] is done
    return done.response


async def stored(redis: Redis, key: str = THREAD) -> Conversation:
    conversation = await Conversations(redis, ttl_seconds=60).load(key)
    assert conversation is not None
    return conversation


async def platform_thread() -> list[Message]:
    return [
        Message(role="user", content="What is a node?"),
        Message(role="assistant", content="A process."),
    ]


async def never() -> list[Message]:
    raise AssertionError("the platform must not be asked")


# --- What cannot be answered -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", BLANK_QUESTION),
        (" \n\t ", BLANK_QUESTION),
        ("\x00\x07\u200b", BLANK_QUESTION),
        ("🤖🎉", NO_WORDS_QUESTION),
        ("?!", NO_WORDS_QUESTION),
        (
            "a" * 4_001,
            "That message has 4,001 characters; I can read questions of up to 4,000. "
            "Please shorten it.",
        ),
    ],
)
async def test_what_is_no_question_gets_a_sentence_and_no_search(
    bot: CourseBot, agent: EchoAgent, redis: Redis, text: str, sentence: str
) -> None:
    response = await ask(bot, make_question(text, message_id="m1"))
    assert (response.content, response.kind) == (sentence, "chat")
    assert agent.asked == []
    # Nothing was said yet, but the student can go on without calling the bot again.
    assert await redis.keys() == [joined_key(THREAD)]


@pytest.mark.parametrize("text", ["a" * 4_000, "什么是话题", "R2?", "🤖 what is it?"])
def test_words_in_any_script_are_a_question(text: str) -> None:
    assert objection_to(text) is None


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("What\x00is\x1b red?", "What is  red?"),
        ("\x1b[1;31merror\x1b[0m: not found", "error: not found"),
        ("  two\n\tlines  ", "two\n\tlines"),
        ("left\u202eright", "left right"),
        ("naïve “quotes”", "naïve “quotes”"),
    ],
)
def test_control_characters_are_not_passed_on(text: str, seen: str) -> None:
    assert readable(text) == seen


async def test_an_unknown_course_is_refused_before_anything_is_searched(
    bot: CourseBot, agent: EchoAgent
) -> None:
    with pytest.raises(CourseError, match="chess"):
        await ask(bot, make_question(course="chess"))
    assert agent.asked == []


# --- What is remembered ------------------------------------------------------------------------


async def test_a_follow_up_sees_what_was_said_before(bot: CourseBot, agent: EchoAgent) -> None:
    first = await ask(bot, make_question("What is a topic?"))
    second = await ask(bot, make_question("And a service?"))
    assert agent.remembered == [[], ["What is a topic?", "You asked: What is a topic?"]]
    assert first.session_id == second.session_id


async def test_another_thread_sees_nothing_of_it(bot: CourseBot, agent: EchoAgent) -> None:
    await ask(bot, make_question("What is a topic?"))
    await ask(bot, make_question("And a service?", conversation_key="slack:T1:C1:200.2"))
    assert agent.remembered == [[], []]


async def test_the_agent_and_the_memory_get_the_readable_text(
    bot: CourseBot, agent: EchoAgent, redis: Redis
) -> None:
    await ask(bot, make_question("What\x00is it? "))
    assert agent.asked == ["What is it?"]
    assert (await stored(redis)).messages[0].content == "What is it?"


async def test_an_expired_conversation_is_rebuilt_from_the_platform(
    bot: CourseBot, agent: EchoAgent, redis: Redis
) -> None:
    await ask(bot, make_question("What is a topic?"))
    await redis.pexpire(thread_key(THREAD), 0)
    await ask(bot, make_question("And a service?"), platform_thread)
    assert agent.remembered[-1] == ["What is a node?", "A process."]
    rebuilt = await stored(redis)
    assert (len(rebuilt.messages), rebuilt.turn_count) == (4, 2)


async def test_a_living_conversation_is_not_read_from_the_platform(bot: CourseBot) -> None:
    await ask(bot, make_question("What is a topic?"))
    response = await ask(bot, make_question("And a service?"), never)
    assert response.kind == "answer"


async def test_a_private_question_is_never_rebuilt_from_the_platform(
    bot: CourseBot, agent: EchoAgent
) -> None:
    private = make_question("And me?", conversation_key="slack:T1:C1:U1", private=True)
    await ask(bot, private, never)
    assert agent.remembered == [[]]


async def test_a_private_question_neither_sees_nor_enters_the_shared_conversation(
    bot: CourseBot, agent: EchoAgent, redis: Redis
) -> None:
    await ask(bot, make_question("What is a topic?"))
    private = make_question("And me?", conversation_key="slack:T1:C1:U1", private=True)
    await ask(bot, private)
    assert agent.remembered[-1] == []
    contents = [message.content for message in (await stored(redis)).messages]
    assert "And me?" not in contents


async def test_a_crashed_attempts_exchange_is_not_doubled(
    bot: CourseBot, agent: EchoAgent, redis: Redis
) -> None:
    await ask(bot, make_question("What is a topic?"))
    for _ in ("crashed before the reply was posted", "again"):
        await ask(bot, make_question("And a service?"))
    assert agent.remembered[-1] == ["What is a topic?", "You asked: What is a topic?"]
    conversation = await stored(redis)
    assert (len(conversation.messages), conversation.turn_count) == (4, 2)


async def test_the_same_words_in_a_new_message_are_a_new_exchange(
    bot: CourseBot, redis: Redis
) -> None:
    await ask(bot, make_question(message_id="m1"))
    await ask(bot, make_question(message_id="m2"))
    assert (await stored(redis)).turn_count == 2


async def test_a_long_conversation_keeps_its_last_messages(bot: CourseBot, redis: Redis) -> None:
    for number in range(27):
        await ask(bot, make_question(f"Question {number}?"))
    conversation = await stored(redis)
    assert (len(conversation.messages), conversation.turn_count) == (50, 27)
    assert conversation.messages[0].content == "Question 2?"


async def test_a_failed_answer_is_not_remembered_but_the_next_reply_is_meant_for_the_bot(
    bot: CourseBot, agent: EchoAgent, redis: Redis
) -> None:
    agent.failure = RuntimeError("the provider is down")
    with pytest.raises(RuntimeError):
        await ask(bot, make_question())
    assert await redis.keys() == [joined_key(THREAD)]


# --- Without Redis -----------------------------------------------------------------------------


async def test_without_redis_the_answer_says_that_it_came_without_memory(
    no_redis: Redis, agent: EchoAgent
) -> None:
    response = await ask(make_bot(no_redis, agent), make_question(), never)
    assert response.content == "You asked: What is a topic?"
    assert response.notice == NO_MEMORY


async def test_with_redis_there_is_no_such_notice(bot: CourseBot) -> None:
    assert (await ask(bot, make_question())).notice is None
