"""The whole bot behind Discord's real library in simcord's world: real index, weights, Valkey."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass

import discord
import pytest
import simcord

from adapters.delivery import Delivery
from adapters.discord import DiscordAdapter
from adapters.operations import IngestRequest
from bot.app import Core, open_core
from bot.inbox import Inbox
from bot.settings import SAMPLE_COURSE, load_settings
from bot.worker import Worker

NOT_IN_THE_BOOK = "I don't have information about that in the book content"
WAIT_SECONDS = 60


@dataclass
class School:
    """A running bot and its adapter."""

    core: Core
    adapter: DiscordAdapter


@pytest.fixture
async def school() -> AsyncGenerator[School]:
    async with open_core(load_settings()) as core:
        async for _ in core.ingestions.run(IngestRequest(path=SAMPLE_COURSE)):
            pass
        deliveries: dict[str, Delivery] = {}
        worker = Worker(Inbox(core.redis), core.bot, deliveries)
        joined = core.conversations.has_joined
        adapter = DiscordAdapter(worker.submit, core.lookup, core.suggest, joined)
        deliveries["discord"] = adapter.delivery
        working = asyncio.create_task(worker.run(reclaim_all=True))
        yield School(core, adapter)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await worker.stop()


@pytest.fixture
def simcord_bot(school: School) -> discord.Client:
    return school.adapter.client


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():
            await asyncio.sleep(0.05)


async def test_a_student_asks_follows_up_and_is_refused(simcord_env: simcord.Env) -> None:
    guild = simcord_env.create_guild()
    channel = guild.create_text_channel("robotics-101")
    alice = guild.add_member(simcord_env.create_user("alice"))
    assert simcord_env.bot.user
    mention = simcord_env.bot.user.mention

    await alice.send(channel, f"{mention} How do sensors publish data in Isaac Sim?")
    await until(lambda: len(channel.threads) == 1)
    [thread] = channel.threads

    def replies() -> list[str]:
        said = [m for m in thread.history() if m.author == simcord_env.bot.user and m.content]
        return [message.content for message in said]

    await until(lambda: len(replies()) == 1 and "Sources" in replies()[0])
    assert "Ch. 3 · How sensors publish data in Isaac Sim" in replies()[0]

    await alice.send(thread, "and in Gazebo?")
    await until(lambda: len(replies()) == 2 and "Sources" in replies()[1])
    assert "Ch. 2 · " in replies()[1]

    await alice.send(thread, "How long do I boil an egg?")
    await until(lambda: len(replies()) == 3 and NOT_IN_THE_BOOK in replies()[2])
    assert "Closest sections" in replies()[2]
    assert all(len(reply) <= 2_000 for reply in replies())


async def test_two_students_do_not_share_a_private_question(
    simcord_env: simcord.Env, school: School
) -> None:
    guild = simcord_env.create_guild()
    channel = guild.create_text_channel("robotics-101")
    alice, bob = (guild.add_member(simcord_env.create_user(name)) for name in ("alice", "bob"))

    await alice.slash(channel, "ask", question="What is a topic?")
    alices = f"discord:{guild.id}:{channel.id}:{alice.id}"
    bobs = f"discord:{guild.id}:{channel.id}:{bob.id}"
    async with asyncio.timeout(WAIT_SECONDS):
        while await school.core.conversations.load(alices) is None:
            await asyncio.sleep(0.05)

    assert await school.core.conversations.load(bobs) is None
    assert not channel.threads
