"""Discord, driven through discord.py's real client in simcord's world."""

import asyncio
import logging
from dataclasses import dataclass, field

import discord
import pytest
import simcord
from discord.app_commands import Choice

from adapters import discord as footnote
from adapters.delivery import Draft, Envelope, Place
from adapters.discord import DiscordAdapter, check
from rag.errors import CourseError, SettingsError, StoreUnavailable
from rag.prompts import NO_COURSE
from rag.types import (
    MAX_MESSAGES,
    AgentResponse,
    Citation,
    ConfidenceMetrics,
    Message,
    Question,
    Role,
    SearchResult,
)

TOPICS = Citation(
    n=1,
    page_title="Nodes, topics, services",
    chapter_title="Robot Operating System 2",
    chapter=1,
    section="Topics",
    url="https://course.example/ros2/nodes#topics",
    module="ros2",
    chunk_id="c1",
    chunk_text="Topics carry typed messages.",
    similarity=0.8,
)

SECTION = SearchResult(
    chunk_id="c1",
    text="Topics carry typed messages.",
    score=0.9,
    similarity=0.8,
    rank=1,
    source_file="01-ros2/01-nodes.md",
    section_title="Topics",
    page_title="Nodes, topics, services",
    chapter_title="Robot Operating System 2",
    chapter_declared=True,
    url="https://course.example/ros2/nodes#topics",
    module="ros2",
    chapter=1,
    lesson=1,
    hardware_tier=1,
    proficiency_level="A2",
    layer="L1",
    chunk_index=0,
    total_chunks=1,
    parent_doc_id=None,
    prev_chunk_id=None,
    next_chunk_id=None,
    content_hash=None,
)


def answer(text: str = "Topics carry typed messages [1].") -> AgentResponse:
    metrics = ConfidenceMetrics(confidence_level="high", should_answer=True, p_answerable=0.9)
    return AgentResponse(content=text, kind="answer", citations=[TOPICS], metrics=metrics)


@dataclass
class Bot:
    """The bot behind the adapter, in memory: an inbox and a worker that always knows an answer."""

    response: AgentResponse = field(default_factory=answer)
    envelopes: list[Envelope] = field(default_factory=list[Envelope])
    places: list[Place] = field(default_factory=list[Place])
    looked_up: list[str] = field(default_factory=list[str])
    failure: Exception | None = None
    steps: int = 3
    pause_seconds: float = 0.0
    storing_seconds: float = 0.0
    tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    def __post_init__(self) -> None:
        self.adapter = self.new_adapter()

    def new_adapter(self) -> DiscordAdapter:
        return DiscordAdapter(self.submit, self.lookup, self.suggest, self.participates)

    async def submit(self, envelope: Envelope) -> None:
        if self.failure:
            raise self.failure
        self.envelopes.append(envelope)
        task = asyncio.create_task(self.work(envelope))
        self.tasks.add(task)
        await asyncio.sleep(self.storing_seconds)

    async def work(self, envelope: Envelope) -> None:
        delivery = self.adapter.delivery
        if self.steps == 0:
            return
        place = await delivery.begin(envelope, Draft())
        self.places.append(place)
        if self.steps == 1:
            return
        await asyncio.sleep(self.pause_seconds)
        place = await delivery.update(envelope, place, Draft(text="Topics", state="GENERATING"))
        self.places.append(await delivery.update(envelope, place, self.response))

    async def lookup(self, words: str, course: str | None) -> list[SearchResult]:
        if self.failure:
            raise self.failure
        self.looked_up.append(words)
        return [SECTION]

    async def suggest(self, letters: str, course: str | None) -> list[str]:
        if self.failure:
            raise self.failure
        names = ["Chapter 1: Robot Operating System 2", "Topics", "Tools " + "x" * 120]
        names += [f"Section {n}" for n in range(40)]
        return [name for name in names if letters.lower() in name.lower()]

    async def participates(self, conversation_key: str) -> bool:
        if isinstance(self.failure, StoreUnavailable):
            raise self.failure
        return any(seen.question.conversation_key == conversation_key for seen in self.envelopes)

    @property
    def questions(self) -> list[Question]:
        return [envelope.question for envelope in self.envelopes]


@dataclass
class Class:
    """A guild with one channel, two students and the bot."""

    env: simcord.Env
    guild: simcord.GuildHandle
    channel: simcord.ChannelHandle
    alice: simcord.MemberActor
    bob: simcord.MemberActor

    @property
    def at_bot(self) -> str:
        assert self.env.bot.user
        return self.env.bot.user.mention

    @property
    def thread(self) -> simcord.ChannelHandle:
        [thread] = self.channel.threads
        return thread

    def said_by_bot(self, channel: simcord.ChannelHandle) -> list[discord.Message]:
        spoken = (discord.MessageType.default, discord.MessageType.reply)
        return [
            message
            for message in channel.history()
            if message.author == self.env.bot.user and message.type in spoken
        ]

    def requests(self, method: str, ending: str) -> list[simcord.HttpLogEntry]:
        return [
            request
            for request in self.env.http_requests
            if request.method == method and request.path.endswith(ending)
        ]


@pytest.fixture
def bot() -> Bot:
    return Bot()


@pytest.fixture
def simcord_bot(bot: Bot) -> discord.Client:
    return bot.adapter.client


@pytest.fixture
def world(simcord_env: simcord.Env) -> Class:
    guild = simcord_env.create_guild()
    alice, bob = (guild.add_member(simcord_env.create_user(name)) for name in ("alice", "bob"))
    return Class(simcord_env, guild, guild.create_text_channel("general"), alice, bob)


def body(request: simcord.HttpLogEntry) -> dict[str, object]:
    assert isinstance(request.json, dict)
    return request.json


# --- Mentions and threads ----------------------------------------------------------------------


async def test_a_mention_is_answered_in_its_own_thread(world: Class, bot: Bot) -> None:
    asked = await world.alice.send(world.channel, f"Hey {world.at_bot} what are topics?")

    assert bot.questions == [
        Question(
            text="Hey what are topics?",
            conversation_key=f"discord:{world.guild.id}:{asked.id}",
            message_id=f"discord:{world.channel.id}:{asked.id}",
            author=str(world.alice.id),
        )
    ]
    assert world.thread.id == asked.id
    assert world.thread.name == "Hey what are topics?"
    [reply] = world.said_by_bot(world.thread)
    assert reply.content.startswith("Topics carry typed messages")
    assert "https://course.example/ros2/nodes#topics" in reply.content
    assert bot.places[-1] == {"channel": str(asked.id), "messages": str(reply.id)}
    assert world.said_by_bot(world.channel) == []


async def test_the_first_message_carries_a_nonce_of_the_question(world: Class, bot: Bot) -> None:
    asked = await world.alice.send(world.channel, f"{world.at_bot} topics?")
    [sent] = world.requests("POST", f"/channels/{asked.id}/messages")
    assert body(sent)["nonce"] == f"{asked.id}-0"
    assert body(sent)["enforce_nonce"] is True
    assert len(f"{asked.id}-99") <= 25


async def test_mentions_become_names_and_blank_text_is_submitted(world: Class, bot: Bot) -> None:
    await world.alice.send(
        world.channel,
        f"{world.at_bot} {world.bob.mention} asks in {world.channel.mention} "
        "<:wow:123456789012345678>",
    )
    await world.alice.send(world.channel, world.at_bot)
    assert [question.text for question in bot.questions] == ["@bob asks in #general wow", ""]
    assert world.channel.threads[1].name == "Question"


async def test_a_follow_up_needs_no_mention(world: Class, bot: Bot) -> None:
    asked = await world.alice.send(world.channel, f"{world.at_bot} topics?")
    follow_up = await world.bob.send(world.thread, "And services?")

    assert bot.questions[1].conversation_key == bot.questions[0].conversation_key
    assert bot.questions[1].message_id == f"discord:{asked.id}:{follow_up.id}"
    _, second = world.said_by_bot(world.thread)
    assert second.reference
    assert second.reference.message_id == follow_up.id


async def test_a_thread_without_the_bot_is_left_alone(world: Class, bot: Bot) -> None:
    thread = await start_thread(world)
    await world.alice.send(thread, "What do you think?")
    await world.alice.send(world.channel, "Not for the bot either")
    assert bot.envelopes == []


async def test_students_talking_to_each_other_are_left_alone(world: Class, bot: Bot) -> None:
    await world.alice.send(world.channel, f"{world.at_bot} topics?")
    await world.alice.send(world.thread, f"{world.bob.mention} did you get that?")
    assert len(bot.envelopes) == 1


async def test_a_mention_inside_a_thread_stays_there(world: Class, bot: Bot) -> None:
    thread = await start_thread(world)
    asked = await world.alice.send(thread, f"{world.at_bot} topics?")
    assert bot.questions[0].conversation_key == f"discord:{world.guild.id}:{thread.id}"
    [reply] = world.said_by_bot(thread)
    assert reply.reference
    assert reply.reference.message_id == asked.id
    assert world.thread.id == thread.id


async def test_a_forum_post_is_a_thread_already(world: Class, bot: Bot) -> None:
    forum = world.guild.create_forum_channel("questions")
    post = await start_post(world, forum)
    await world.alice.send(post, f"{world.at_bot} topics?")
    assert len(world.said_by_bot(post)) == 2
    assert bot.envelopes[0].place["kind"] == "thread"
    assert [message.role for message in await bot.adapter.delivery.history(bot.envelopes[0])] == [
        "assistant"
    ]


async def start_thread(world: Class) -> simcord.ChannelHandle:
    channel = world.env.bot.get_channel(world.channel.id)
    assert isinstance(channel, discord.TextChannel)
    thread = await channel.create_thread(name="Study", type=discord.ChannelType.public_thread)
    await world.env.settle()
    return next(handle for handle in world.channel.threads if handle.id == thread.id)


async def start_post(world: Class, forum: simcord.ChannelHandle) -> simcord.ChannelHandle:
    channel = world.env.bot.get_channel(forum.id)
    assert isinstance(channel, discord.ForumChannel)
    await channel.create_thread(name="Topics", content="Ask here")
    await world.env.settle()
    [post] = forum.threads
    return post


@pytest.mark.parametrize(("status", "code"), [(403, 50013), (400, 160006)])
async def test_without_a_thread_the_reply_stands_in_the_channel(
    world: Class, bot: Bot, status: int, code: int
) -> None:
    world.env.inject_error("POST", "/channels/*/messages/*/threads", status=status, code=code)
    asked = await world.alice.send(world.channel, f"{world.at_bot} topics?")
    [reply] = world.said_by_bot(world.channel)
    assert reply.reference
    assert reply.reference.message_id == asked.id
    assert await bot.adapter.delivery.find(bot.envelopes[0]) == bot.places[-1]


async def test_a_thread_that_exists_is_used(world: Class, bot: Bot) -> None:
    bot.steps = 0
    asked = await world.alice.send(world.channel, f"{world.at_bot} topics?")
    await asked.create_thread(name="made before a crash")
    world.env.inject_error("POST", "/channels/*/messages/*/threads", status=400, code=160004)

    place = await bot.adapter.delivery.begin(bot.envelopes[0], Draft())

    assert place["channel"] == str(asked.id)
    assert len(world.said_by_bot(world.thread)) == 1


async def test_a_deleted_question_gets_no_reply(world: Class, bot: Bot) -> None:
    bot.steps = 0
    asked = await world.alice.send(world.channel, f"{world.at_bot} topics?")
    await world.alice.delete(asked)
    delivery = bot.adapter.delivery
    assert await delivery.begin(bot.envelopes[0], Draft()) == {}
    assert await delivery.update(bot.envelopes[0], {}, answer()) == {}


async def test_a_reply_that_was_deleted_is_not_posted_again(world: Class, bot: Bot) -> None:
    await world.alice.send(world.channel, f"{world.at_bot} topics?")
    [reply] = world.said_by_bot(world.thread)
    await reply.delete()
    assert await bot.adapter.delivery.update(bot.envelopes[0], bot.places[-1], answer()) == {}
    assert world.said_by_bot(world.thread) == []


async def test_bots_webhooks_and_the_bot_itself_are_ignored(world: Class, bot: Bot) -> None:
    other = world.guild.add_member(world.env.create_user("helper", bot=True))
    await other.send(world.channel, f"{world.at_bot} topics?")
    await world.guild.create_webhook(world.channel).send(f"{world.at_bot} topics?")
    channel = world.env.bot.get_channel(world.channel.id)
    assert isinstance(channel, discord.TextChannel)
    await channel.send(f"{world.at_bot} topics?")
    await world.env.settle()
    assert bot.envelopes == []


async def test_a_direct_message_is_answered_there(world: Class, bot: Bot) -> None:
    asked = await world.alice.send_dm("What are topics?")
    assert bot.questions[0].conversation_key == f"discord:@me:dm:{world.alice.id}"
    [reply] = world.said_by_bot(world.alice.user.dm_channel)
    assert reply.reference
    assert reply.reference.message_id == asked.id
    assert not bot.questions[0].private


async def test_forwarded_text_is_read(world: Class, bot: Bot) -> None:
    said = await world.bob.send(world.channel, "What are topics?")
    await world.alice.forward(said, world.alice.user.dm_channel)
    assert [question.text for question in bot.questions] == ["What are topics?"]


# --- What a reply looks like -------------------------------------------------------------------


async def test_a_long_answer_is_split_and_shrinks_again(world: Class, bot: Bot) -> None:
    bot.response = answer("\n\n".join(f"Paragraph {n}. " + "word " * 60 for n in range(20)))
    await world.alice.send(world.channel, f"{world.at_bot} everything?")
    parts = world.said_by_bot(world.thread)
    assert len(parts) > 2
    assert all(0 < len(part.content) <= 2000 for part in parts)
    assert bot.places[-1]["messages"].split() == [str(part.id) for part in parts]
    assert await bot.adapter.delivery.find(bot.envelopes[0]) == bot.places[-1]

    place = await bot.adapter.delivery.update(bot.envelopes[0], bot.places[-1], answer())

    assert [str(part.id) for part in world.said_by_bot(world.thread)] == [place["messages"]]


async def test_an_answer_pings_nobody_but_the_one_who_asked(world: Class, bot: Bot) -> None:
    bot.response = answer(f"@everyone and {world.bob.mention} should read this [1].")
    thread = await start_thread(world)
    await world.alice.send(thread, f"{world.at_bot} topics?")
    [reply] = world.said_by_bot(thread)
    assert not reply.mention_everyone
    assert world.bob.id not in [user.id for user in reply.mentions]
    spoken = world.requests("POST", "/messages") + world.requests("PATCH", f"/{reply.id}")
    assert len(spoken) >= 3
    for request in spoken:
        assert body(request)["allowed_mentions"] == {"parse": [], "replied_user": True}


async def test_a_send_survives_503(world: Class, bot: Bot) -> None:
    world.env.inject_error("POST", "/channels/*/messages", status=503, times=2)
    asked = await world.alice.send(world.channel, f"{world.at_bot} topics?")
    await world.env.advance_time(5)
    assert len(world.said_by_bot(world.thread)) == 1
    sent = world.requests("POST", f"/channels/{asked.id}/messages")
    assert [body(request)["nonce"] for request in sent] == [f"{asked.id}-0"] * 3


async def test_what_is_retried() -> None:
    calls: list[int] = []

    async def resets_once() -> str:
        calls.append(1)
        if len(calls) == 1:
            raise ConnectionResetError(104, "Connection reset by peer")
        return "sent"

    async def refuses() -> str:
        calls.append(1)
        raise ValueError

    assert await footnote.patiently(resets_once) == "sent"
    calls.clear()
    with pytest.raises(ValueError):  # noqa: PT011
        await footnote.patiently(refuses)
    assert len(calls) == 1


# --- Slash commands ----------------------------------------------------------------------------


async def test_ask_is_private(world: Class, bot: Bot) -> None:
    result = await world.alice.slash(world.channel, "ask", question="What are topics?")
    await world.env.advance_time(3)

    [question] = bot.questions
    assert question.private
    assert question.conversation_key == (
        f"discord:{world.guild.id}:{world.channel.id}:{world.alice.id}"
    )
    assert result.ephemeral
    assert result.response
    assert result.response.content.startswith("Topics carry typed messages")
    assert world.channel.history(viewer=world.bob) == []
    assert world.channel.threads == []
    assert await bot.adapter.delivery.find(bot.envelopes[0]) is None
    assert await bot.adapter.delivery.history(bot.envelopes[0]) == []


async def test_a_worker_may_be_quicker_than_the_acknowledgement(world: Class, bot: Bot) -> None:
    bot.storing_seconds = 0.2
    result = await world.alice.slash(world.channel, "ask", question="What are topics?")
    await world.env.advance_time(3)
    assert result.response
    assert result.response.content.startswith("Topics carry typed messages")
    assert world.said_by_bot(world.alice.user.dm_channel) == []
    tries = world.requests("PATCH", "/messages/@original")
    assert len(tries) > 3, "the worker was not early"


async def test_a_private_answer_that_fits_nowhere_is_dropped(world: Class, bot: Bot) -> None:
    bot.pause_seconds = 16 * 60
    world.env.inject_error("POST", "/channels/*/messages", status=403, code=50007)
    await world.alice.slash(world.channel, "ask", question="What are topics?")
    await world.env.advance_time(17 * 60)
    assert bot.places[-1] == {}


async def test_a_long_private_answer_continues_privately(world: Class, bot: Bot) -> None:
    bot.response = answer("\n\n".join("word " * 100 for _ in range(8)))
    result = await world.alice.slash(world.channel, "ask", question="What are topics?")
    await world.env.advance_time(3)
    assert len(result.followups) >= 1
    assert all(part.ephemeral for part in result.followups)
    assert world.channel.history(viewer=world.bob) == []


async def test_a_late_private_answer_goes_by_direct_message(world: Class, bot: Bot) -> None:
    bot.pause_seconds = 16 * 60
    await world.alice.slash(world.channel, "ask", question="What are topics?")
    await world.env.advance_time(17 * 60)

    [reply] = world.said_by_bot(world.alice.user.dm_channel)
    assert reply.content.startswith("Topics carry typed messages")
    assert world.channel.history(viewer=world.bob) == []
    assert "private" not in bot.places[-1]


async def test_lookup_lists_sections_without_an_answer(world: Class, bot: Bot) -> None:
    result = await world.alice.slash(world.channel, "lookup", query="topics")
    assert bot.looked_up == ["topics"]
    assert bot.envelopes == []
    assert result.ephemeral
    assert result.response
    assert "Topics" in result.response.content
    assert "https://course.example/ros2/nodes#topics" in result.response.content
    assert world.channel.history(viewer=world.bob) == []


async def test_without_a_course_lookup_says_so_and_completes_nothing(
    world: Class, bot: Bot
) -> None:
    bot.failure = CourseError("No course has been ingested yet.")
    result = await world.alice.slash(world.channel, "lookup", query="topics")
    assert result.response
    assert result.response.content == NO_COURSE
    assert await world.alice.autocomplete(world.channel, "lookup", "query", "to") == []


async def test_lookup_completes_chapters_and_sections(world: Class, bot: Bot) -> None:
    offered = await world.alice.autocomplete(world.channel, "lookup", "query", "to")
    assert [choice["name"] for choice in offered][:1] == ["Topics"]
    assert max(len(choice["value"]) for choice in offered) == 100
    assert len(await world.alice.autocomplete(world.channel, "lookup", "query", "s")) == 25


async def test_commands_are_registered_only_when_they_changed(world: Class, bot: Bot) -> None:
    assert len(world.requests("PUT", "/commands")) == 1
    bot.adapter = bot.new_adapter()
    await world.env.restart_bot(bot.adapter.client)
    assert len(world.requests("PUT", "/commands")) == 1


# --- After a crash or a restart ----------------------------------------------------------------


async def test_a_begun_reply_is_found_and_finished(world: Class, bot: Bot) -> None:
    bot.steps = 1
    await world.alice.send(world.channel, f"{world.at_bot} topics?")
    await world.bob.send(world.thread, "And services?")
    bot.adapter = bot.new_adapter()
    await world.env.restart_bot(bot.adapter.client)
    delivery = bot.adapter.delivery

    found = [await delivery.find(envelope) for envelope in bot.envelopes]
    assert found == bot.places
    await delivery.update(bot.envelopes[1], bot.places[1], answer("Services answer once [1]."))

    first, second = world.said_by_bot(world.thread)
    assert "Searching" in first.content
    assert second.content.startswith("Services answer once")


async def test_nothing_is_found_before_a_reply_was_begun(world: Class, bot: Bot) -> None:
    bot.steps = 0
    await world.alice.send(world.channel, f"{world.at_bot} topics?")
    await world.alice.send_dm("What are topics?")
    assert [await bot.adapter.delivery.find(envelope) for envelope in bot.envelopes] == [None, None]


async def test_a_lost_conversation_is_rebuilt_from_its_thread(world: Class, bot: Bot) -> None:
    await world.alice.send(world.channel, f"{world.at_bot} topics?")
    await world.bob.send(world.thread, "And services?")
    bot.steps = 0
    await world.alice.send(world.thread, "One thing more:")
    await world.alice.send(world.thread, "and actions?")
    await world.alice.send(world.thread, "(said later)")
    bot.adapter = bot.new_adapter()
    await world.env.restart_bot(bot.adapter.client)

    history = await bot.adapter.delivery.history(bot.envelopes[3])

    roles = [message.role for message in history]
    assert roles == ["user", "assistant", "user", "assistant"]
    assert [message.content for message in history if message.role == "user"] == [
        "topics?",
        "And services?",
    ]
    assert "Topics carry typed messages" in history[1].content
    assert "Sources" not in history[1].content
    assert await bot.adapter.delivery.history(bot.envelopes[0]) == []


async def test_a_direct_conversation_is_rebuilt(world: Class, bot: Bot) -> None:
    await world.alice.send_dm("What are topics?")
    await world.alice.send_dm("And services?")
    history = await bot.adapter.delivery.history(bot.envelopes[1])
    assert [message.role for message in history] == ["user", "assistant"]
    assert history[0].content == "What are topics?"


async def test_an_unreadable_history_is_an_empty_one(world: Class, bot: Bot) -> None:
    await world.alice.send_dm("What are topics?")
    world.env.inject_error("GET", "/channels/*/messages", status=403, code=50001, times=None)
    assert await bot.adapter.delivery.history(bot.envelopes[0]) == []
    assert await bot.adapter.delivery.find(bot.envelopes[0]) is None


async def test_a_worker_replies_without_a_gateway(world: Class, bot: Bot) -> None:
    """A client that is only logged in knows no guild, channel or thread; REST is left."""
    bot.steps = 0
    await world.alice.send(world.channel, f"{world.at_bot} topics?")
    bot.adapter.client.clear()
    await bot.adapter.login("token")
    assert bot.adapter.client.get_channel(world.channel.id) is None

    place = await bot.adapter.delivery.begin(bot.envelopes[0], Draft())
    place = await bot.adapter.delivery.update(bot.envelopes[0], place, answer())

    assert await bot.adapter.delivery.find(bot.envelopes[0]) == place
    assert len(world.thread.history()) == 1


# --- Failures ----------------------------------------------------------------------------------


async def test_a_failing_inbox_is_one_sentence_with_an_id(
    world: Class, bot: Bot, caplog: pytest.LogCaptureFixture
) -> None:
    bot.failure = RuntimeError("redis://secret@host went away")
    with caplog.at_level(logging.ERROR, logger="adapters.discord"):
        await world.alice.send(world.channel, f"{world.at_bot} topics?")
    [reply] = world.said_by_bot(world.channel)
    [record] = caplog.records
    request_id = record.getMessage().split()[2]
    assert reply.content == footnote.FAILURE.format(id=request_id)
    assert "secret" not in reply.content


@pytest.mark.parametrize("command", ["ask", "lookup"])
async def test_a_failing_command_says_so_privately(world: Class, bot: Bot, command: str) -> None:
    bot.failure = RuntimeError("secret")
    option = {"ask": "question", "lookup": "query"}[command]
    result = await world.alice.slash(world.channel, command, **{option: "topics"})
    assert result.ephemeral
    assert result.response
    assert result.response.content.startswith(footnote.FAILURE[:30])
    assert world.channel.history(viewer=world.bob) == []


async def test_an_unreachable_store_does_not_disturb_other_threads(world: Class, bot: Bot) -> None:
    thread = await start_thread(world)
    bot.failure = StoreUnavailable("Redis cannot be reached.")
    await world.alice.send(thread, "Just talking")
    assert world.said_by_bot(thread) == []


class RejectedClient(discord.Client):
    async def login(self, token: str) -> None:
        raise discord.LoginFailure("Improper token has been passed.")


class UnreachableClient(discord.Client):
    async def login(self, token: str) -> None:
        raise ConnectionRefusedError


async def test_the_doctor_names_what_is_wrong(world: Class) -> None:
    none = discord.Intents.none()
    assert await check("x", client=RejectedClient(intents=none)) == [footnote.TOKEN_REJECTED]
    assert await check("x", client=UnreachableClient(intents=none)) == [footnote.UNREACHABLE]


async def test_the_doctor_names_what_needs_message_content() -> None:
    client = discord.Client(intents=discord.Intents.none())
    async with simcord.run(client):
        [problem] = await check("x", client=client)
    assert "without a mention" in problem
    assert "forum posts" in problem
    assert "history" in problem


async def test_the_doctor_accepts_a_bot_without_message_content() -> None:
    client = discord.Client(intents=discord.Intents.none())
    async with simcord.run(client):
        assert await check("x", message_content=False, client=client) == []


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (discord.LoginFailure("Improper token"), footnote.TOKEN_REJECTED),
        (discord.PrivilegedIntentsRequired(None), footnote.INTENT_MISSING),
        (ConnectionRefusedError(), footnote.UNREACHABLE),
    ],
)
def test_a_refused_start_is_explained(error: Exception, sentence: str) -> None:
    with pytest.raises(SettingsError) as caught, footnote.explained():
        raise error
    assert str(caught.value) == sentence


async def test_without_message_content_mentions_still_work(bot: Bot) -> None:
    adapter = DiscordAdapter(
        bot.submit, bot.lookup, bot.suggest, bot.participates, message_content=False
    )
    bot.adapter = adapter
    approved = discord.Intents.default()
    async with simcord.run(adapter.client, approved_intents=approved) as env:
        guild = env.create_guild()
        channel = guild.create_text_channel("general")
        alice = guild.add_member(env.create_user("alice"))
        assert env.bot.user
        await alice.send(channel, f"{env.bot.user.mention} topics?")
        await alice.send(channel.threads[0], "blanked by Discord")
    assert [question.text for question in bot.questions] == ["topics?"]


# --- Pure translation --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("What are topics?", "What are topics?"),
        ("  two\n\nlines ", "two lines"),
        ("", "Question"),
        ("word " * 40, "word " * 18 + "word…"),
        ("x" * 200, "x" * 99 + "…"),
    ],
)
def test_thread_names_fit(question: str, name: str) -> None:
    assert footnote.thread_name(question) == name
    assert len(name) <= 100


def test_turns_alternate() -> None:
    said: list[tuple[Role, str]] = [
        ("user", "a"),
        ("user", "b"),
        ("assistant", "c"),
        ("user", ""),
        ("assistant", "d"),
    ]
    turns: list[Message] = footnote.in_turns(said)
    assert [(turn.role, turn.content) for turn in turns] == [
        ("user", "a\nb"),
        ("assistant", "c\nd"),
    ]


def test_what_nobody_answered_is_no_exchange() -> None:
    said: list[tuple[Role, str]] = [("user", "a"), ("assistant", "b"), ("user", "c")]
    assert [turn.content for turn in footnote.in_turns(said)] == ["a", "b"]


def test_a_long_thread_is_cut_to_what_a_conversation_holds() -> None:
    said: list[tuple[Role, str]] = [("user", "a"), ("assistant", "b")] * 60
    assert len(footnote.in_turns(said)) == MAX_MESSAGES


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("A bus.\n\n**Sources:**\n1. Chapter 1", "A bus."),
        ("Not there.\n\n**Closest sections:**\n1. Chapter 1", "Not there."),
        ("**Sources:**\n1. Chapter 1", ""),
        ("A b\n\n*Writing…*", "A b"),
        ("*Searching the book…*", ""),
        ("The **Sources:** of it", "The **Sources:** of it"),
    ],
)
def test_of_a_reply_only_the_answer_is_remembered(text: str, answer: str) -> None:
    assert footnote.without_apparatus(text) == answer


def test_choices_are_distinct_and_short() -> None:
    assert footnote.choices(["a", "a", " ", "b" * 120]) == [
        Choice(name="a", value="a"),
        Choice(name="b" * 100, value="b" * 100),
    ]
