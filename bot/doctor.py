"""What is configured, reachable, missing or wrong, in plain sentences."""

from collections.abc import Awaitable, Callable

import aiohttp
import openai
from openai import AsyncOpenAI

from adapters.discord import check as check_discord
from adapters.http_client import is_listening, open_client
from adapters.operations import Finding, Status
from adapters.slack import build_client, check_socket
from adapters.slack import check as check_slack
from bot.app import api_socket, hold, open_embedder, open_index
from bot.health import index_findings, memory_finding
from bot.jobs import Turns
from bot.settings import DiscordSettings, OpenAISettings, Settings, SlackSettings
from bot.store import open_store
from rag.embedding import Embedder
from rag.errors import DataFolderInUse, FootnoteError


async def examine(settings: Settings) -> list[Finding]:
    """Look at every part; none of them stops the others from being looked at."""
    checks: list[Callable[[], Awaitable[list[Finding]]]] = [
        lambda: stores(settings),
        lambda: model(settings.openai),
        lambda: slack(settings.slack),
        lambda: discord(settings.discord),
    ]
    return [finding for check in checks for finding in await check()]


async def stores(settings: Settings) -> list[Finding]:
    """The data folder with what lies in it, or the servers that stand in for it."""
    if settings.redis.url and settings.qdrant.url:
        return await contents(settings)
    part = "data folder"
    try:
        with hold(settings.data_dir):
            sentence = f"{settings.data_dir} can be used."
            folder = Finding(part=part, status="ok", sentence=sentence)
            return [folder, *await contents(settings)]
    except DataFolderInUse as error:
        socket = api_socket(settings.data_dir)
        if not await is_listening(socket):
            return [Finding(part=part, status="wrong", sentence=str(error))]
        sentence = f"{settings.data_dir} is in the hands of the running footnote, which says:"
        async with open_client(socket) as running:
            return [Finding(part=part, status="ok", sentence=sentence), *await running.health()]
    except FootnoteError as error:
        return [Finding(part=part, status="wrong", sentence=str(error))]


async def contents(settings: Settings) -> list[Finding]:
    url = settings.redis.url
    try:
        async with open_store(url, settings.data_dir) as redis:
            turns = Turns(redis if url else None)
            return [await memory_finding(redis, url), *await passages(settings, turns)]
    except FootnoteError as error:
        memory = Finding(part="memory", status="wrong", sentence=str(error))
        return [memory, *await passages(settings, Turns())]


async def passages(settings: Settings, turns: Turns) -> list[Finding]:
    """The embedder, asked once to see that its key works, and the index it writes to."""
    try:
        async with open_embedder(settings) as embedder:
            await embedder.embed_query("Does the embedder answer?")
            name = settings.embedding.embedder
            sentence = f"{embedder.model} ({name}, {embedder.dimension} dimensions) answers."
            found = Finding(part="embeddings", status="ok", sentence=sentence)
            return [found, *await indexed(settings, embedder, turns)]
    except FootnoteError as error:
        return [Finding(part="embeddings", status="wrong", sentence=str(error))]


async def indexed(settings: Settings, embedder: Embedder, turns: Turns) -> list[Finding]:
    try:
        async with open_index(settings, embedder) as index:
            return await index_findings(index, settings.qdrant.url, turns)
    except FootnoteError as error:
        return [Finding(part="index", status="wrong", sentence=str(error))]


async def model(settings: OpenAISettings) -> list[Finding]:
    if settings.api_key is None:
        sentence = "OPENAI_API_KEY is not set: answers are quotations from the course."
        return [Finding(part="model", status="off", sentence=sentence)]
    async with AsyncOpenAI(
        api_key=settings.api_key.get_secret_value(), base_url=settings.base_url, timeout=10
    ) as client:
        try:
            known = [entry.id async for entry in client.models.list()]
        except openai.AuthenticationError:
            problem = "The provider rejected OPENAI_API_KEY."
        except openai.NotFoundError:
            # Compatible servers need not list their models; that the server answers is enough.
            known, problem = [settings.model], None
        except openai.OpenAIError:
            problem = f"The provider at {settings.base_url} cannot be reached."
        else:
            unknown = f"The provider does not offer the model {settings.model} (OPENAI_MODEL)."
            problem = None if settings.model in known or not known else unknown
    if problem:
        return [Finding(part="model", status="wrong", sentence=problem)]
    sentence = f"{settings.model} at {settings.base_url} answers."
    return [Finding(part="model", status="ok", sentence=sentence)]


async def slack(settings: SlackSettings) -> list[Finding]:
    if settings.bot_token is None or settings.app_token is None:
        both_missing = len(settings.missing) == 2
        sentence = f"{' and '.join(settings.missing)} not set: Slack stays off."
        status: Status = "off" if both_missing else "wrong"
        return [Finding(part="Slack", status=status, sentence=sentence)]
    async with aiohttp.ClientSession() as session:
        client = build_client(settings.bot_token.get_secret_value(), settings.api_url, session)
        problems = await check_slack(client)
        problems += await check_socket(client, settings.app_token.get_secret_value())
    return findings("Slack", problems, "Both tokens work, and the bot has every scope it needs.")


CheckDiscord = Callable[[str, bool], Awaitable[list[str]]]


async def discord(settings: DiscordSettings, check: CheckDiscord = check_discord) -> list[Finding]:
    if settings.bot_token is None:
        sentence = "DISCORD_BOT_TOKEN is not set: Discord stays off."
        return [Finding(part="Discord", status="off", sentence=sentence)]
    token = settings.bot_token.get_secret_value()
    problems = await check(token, settings.message_content)
    return findings("Discord", problems, "The token works and has the intents it needs.")


def findings(part: str, problems: list[str], fine: str) -> list[Finding]:
    if not problems:
        return [Finding(part=part, status="ok", sentence=fine)]
    # What cannot be reached says so at every call, and once is enough.
    distinct = dict.fromkeys(problems)
    return [Finding(part=part, status="wrong", sentence=problem) for problem in distinct]
