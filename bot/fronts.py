"""The front doors that are open while Footnote runs: which, and if not, why not."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

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
    token = settings.bot_token.get_secret_value()
    try:
        await adapter.login(token)
    except FootnoteError as error:
        await adapter.stop()
        return Front("Discord", False, f"not running: {error}")
    stack.push_async_callback(adapter.stop)
    listening = asyncio.create_task(adapter.start(token))
    stack.push_async_callback(ended, listening)
    deliveries["discord"] = adapter.delivery
    return Front("Discord", True, "connected")


async def ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
