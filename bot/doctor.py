"""What is configured, reachable, missing or wrong, in plain sentences."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal

import aiohttp
import openai
from openai import AsyncOpenAI
from pydantic import BaseModel

from adapters.discord import check as check_discord
from adapters.slack import build_client
from adapters.slack import check as check_slack
from bot.app import hold, open_index
from bot.courses import Courses
from bot.settings import DiscordSettings, OpenAISettings, Settings, SlackSettings
from bot.store import open_store, redacted
from rag.embedding.local import LocalEmbedder
from rag.errors import FootnoteError

Status = Literal["ok", "off", "wrong"]


class Finding(BaseModel):
    """One thing that was looked at."""

    part: str
    status: Status
    sentence: str


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
        return [await memory(settings), *await passages(settings)]
    try:
        with hold(settings.data_dir):
            folder = Finding(
                part="data folder", status="ok", sentence=f"{settings.data_dir} can be used."
            )
            return [folder, await memory(settings), *await passages(settings)]
    except FootnoteError as error:
        return [Finding(part="data folder", status="wrong", sentence=str(error))]


async def memory(settings: Settings) -> Finding:
    where = redacted(settings.redis.url) if settings.redis.url else "an embedded Valkey server"
    try:
        async with open_store(settings.redis.url, settings.data_dir):
            return Finding(part="memory", status="ok", sentence=f"Conversations are in {where}.")
    except FootnoteError as error:
        return Finding(part="memory", status="wrong", sentence=str(error))


async def passages(settings: Settings) -> list[Finding]:
    try:
        embedder = await asyncio.to_thread(LocalEmbedder.load, settings.embedding_folder)
    except FootnoteError as error:
        return [Finding(part="embeddings", status="wrong", sentence=str(error))]
    loaded = f"{embedder.model} is loaded ({embedder.dimension} dimensions)."
    found = [Finding(part="embeddings", status="ok", sentence=loaded)]
    where = settings.qdrant.url or "the data folder"
    try:
        async with open_index(settings, embedder) as index:
            courses = await Courses(index).all()
    except FootnoteError as error:
        return [*found, Finding(part="index", status="wrong", sentence=str(error))]
    found.append(Finding(part="index", status="ok", sentence=f"Passages are in {where}."))
    if not courses:
        advice = "No course yet: run footnote ingest FOLDER."
        return [*found, Finding(part="courses", status="off", sentence=advice)]
    names = ", ".join(f"{course.book_id} ({course.total_chunks} passages)" for course in courses)
    return [*found, Finding(part="courses", status="ok", sentence=f"{names}.")]


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
    if not settings.app_token.get_secret_value().startswith("xapp-"):
        problems.append("SLACK_APP_TOKEN does not look like an app-level token (xapp-…).")
    return findings("Slack", problems, "The token works and has every scope it needs.")


async def discord(settings: DiscordSettings) -> list[Finding]:
    if settings.bot_token is None:
        sentence = "DISCORD_BOT_TOKEN is not set: Discord stays off."
        return [Finding(part="Discord", status="off", sentence=sentence)]
    token = settings.bot_token.get_secret_value()
    problems = await check_discord(token, settings.message_content)
    return findings("Discord", problems, "The token works and has the intents it needs.")


def findings(part: str, problems: list[str], fine: str) -> list[Finding]:
    if not problems:
        return [Finding(part=part, status="ok", sentence=fine)]
    return [Finding(part=part, status="wrong", sentence=problem) for problem in problems]
