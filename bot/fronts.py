"""The front doors that are open while Footnote runs: which, and if not, why not."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from adapters.delivery import Delivery
from adapters.discord import DiscordAdapter
from adapters.slack import SlackAdapter, build_client
from adapters.slack import check as check_slack
from bot.app import Core
from bot.inbox import Inbox
from bot.settings import DiscordSettings, Settings, SlackSettings
from bot.worker import Worker
from rag.errors import FootnoteError

READY_SECONDS = 30

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Front:
    """One platform: running, or why not."""

    name: str
    running: bool
    sentence: str


@asynccontextmanager
async def open_fronts(settings: Settings, core: Core) -> AsyncGenerator[list[Front]]:
    """Starts every platform that has its tokens, and the worker that answers what they bring."""
    deliveries: dict[str, Delivery] = {}
    inbox = Inbox(core.redis)
    await inbox.prepare()
    worker = Worker(inbox, core.bot, deliveries)
    async with AsyncExitStack() as stack:
        fronts = [
            await open_slack(settings.slack, core, worker, deliveries, stack),
            await open_discord(settings.discord, core, worker, deliveries, stack),
        ]
        # In reverse: take no more questions, finish those under way, then close the platforms.
        stack.push_async_callback(worker.stop)
        working = asyncio.create_task(worker.run(reclaim_all=settings.redis.url is None))
        stack.push_async_callback(ended, working)
        yield fronts


async def open_slack(
    settings: SlackSettings,
    core: Core,
    worker: Worker,
    deliveries: dict[str, Delivery],
    stack: AsyncExitStack,
) -> Front:
    if settings.bot_token is None or settings.app_token is None:
        return Front("Slack", False, f"not running: {' and '.join(settings.missing)} not set")
    session = await stack.enter_async_context(aiohttp.ClientSession())
    client = build_client(settings.bot_token.get_secret_value(), settings.api_url, session)
    if problems := await check_slack(client):
        return Front("Slack", False, f"not running: {' '.join(problems)}")
    adapter = SlackAdapter(
        client,
        settings.app_token.get_secret_value(),
        submit=worker.submit,
        lookup=core.lookup,
        participates=core.conversations.has_joined,
    )
    try:
        await adapter.start()
    except FootnoteError as error:
        return Front("Slack", False, f"not running: {error}")
    stack.push_async_callback(adapter.stop)
    deliveries["slack"] = adapter.delivery
    return Front("Slack", True, "connected over Socket Mode")


async def open_discord(
    settings: DiscordSettings,
    core: Core,
    worker: Worker,
    deliveries: dict[str, Delivery],
    stack: AsyncExitStack,
) -> Front:
    if settings.bot_token is None:
        return Front("Discord", False, "not running: DISCORD_BOT_TOKEN not set")
    adapter = DiscordAdapter(
        submit=worker.submit,
        lookup=core.lookup,
        suggest=core.suggest,
        participates=core.conversations.has_joined,
        message_content=settings.message_content,
    )
    return await start_discord(adapter, settings.bot_token.get_secret_value(), deliveries, stack)


async def start_discord(
    adapter: DiscordAdapter, token: str, deliveries: dict[str, Delivery], stack: AsyncExitStack
) -> Front:
    stack.push_async_callback(adapter.stop)
    try:
        await adapter.login(token)
        listening = asyncio.create_task(adapter.start(token))
        stack.push_async_callback(ended, listening)
        await begun(listening, adapter.ready())
    except FootnoteError as error:
        return Front("Discord", False, f"not running: {error}")
    listening.add_done_callback(report)
    deliveries["discord"] = adapter.delivery
    return Front("Discord", True, "connected")


async def begun(listening: asyncio.Task[None], ready: Coroutine[Any, Any, None]) -> None:
    """Waits until a platform is ready; raises what it refused us for instead."""
    waiting = asyncio.create_task(ready)
    await asyncio.wait(
        {listening, waiting}, timeout=READY_SECONDS, return_when=asyncio.FIRST_COMPLETED
    )
    await ended(waiting)
    if listening.done():
        listening.result()


def report(listening: asyncio.Task[None]) -> None:
    """A platform that refuses us later must not fall silent unnoticed."""
    if not listening.cancelled() and (error := listening.exception()):
        logger.error("Discord is no longer connected: %s", error)


async def ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
