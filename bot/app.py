"""Puts Footnote together: the only place that constructs clients.

Vendors that only some installations use are imported where they are used: each takes a good part of
a second, and every command would wait for it.
"""

import asyncio
import fcntl
import logging
import os
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from redis.asyncio import Redis

from bot.conversations import Conversations
from bot.courses import Courses
from bot.jobs import Jobs
from bot.service import CourseBot
from bot.settings import Settings
from bot.store import open_store
from rag.agent import Agent
from rag.answering import Answerer
from rag.answering.extractive import ExtractiveAnswerer
from rag.embedding import Embedder
from rag.embedding.local import LocalEmbedder
from rag.errors import SettingsError
from rag.index import Storage, collection_name
from rag.index.edge import EdgeIndex
from rag.ingestion.course import load_course
from rag.ingestion.pipeline import Ingestion, OnProgress, Progress
from rag.profile import build_profile
from rag.retrieval import Retriever
from rag.types import AgentConfig, IngestionJob, IngestionMode, SearchQuery, SearchResult

LOOKUP_SECTIONS = 5
SHORTEST_SEARCH = 3
MODEL_RETRIES = 2

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Core:
    """Everything behind the front doors, open and ready."""

    redis: Redis
    index: Storage
    embedder: Embedder
    retriever: Retriever
    conversations: Conversations
    courses: Courses
    jobs: Jobs
    bot: CourseBot

    async def ingest(
        self, path: Path, course_id: str | None, mode: IngestionMode, on_progress: OnProgress
    ) -> IngestionJob:
        """Bring a course folder into the index, and measure the course for the gate."""
        course = await asyncio.to_thread(load_course, path, course_id)
        latest = await self.jobs.create(course.id, mode)

        def follow(job: IngestionJob, progress: Progress) -> None:
            nonlocal latest
            latest = job
            on_progress(job, progress)

        try:
            await Ingestion(self.index, self.index, self.embedder).run(course, latest, mode, follow)
        finally:
            await self.jobs.save(latest)
        await self._measure(course.id)
        return latest

    async def lookup(self, words: str, course_id: str | None) -> list[SearchResult]:
        """The sections that fit some words, one passage each."""
        course = await self.courses.resolve(course_id)
        if len(words.strip()) < SHORTEST_SEARCH:
            return []
        query = SearchQuery(text=words, book_id=course.book_id, limit=20)
        found = (await self.retriever.search(query)).results
        sections = {(result.url, result.section): result for result in reversed(found)}
        return sorted(sections.values(), key=lambda result: result.rank)[:LOOKUP_SECTIONS]

    async def suggest(self, letters: str, course_id: str | None) -> list[str]:
        course = await self.courses.resolve(course_id)
        names = await self.retriever.headings(course.book_id)
        return [name for name in names if letters.lower() in name.lower()]

    async def _measure(self, book_id: str) -> None:
        summary = next(c for c in await self.courses.all() if c.book_id == book_id)
        if summary.profile is None:
            profile = await build_profile(self.index, self.embedder, book_id)
            measured = profile.model_dump(mode="json") if profile else None
            await self.index.save(summary.model_copy(update={"profile": measured}))


@asynccontextmanager
async def open_core(settings: Settings) -> AsyncGenerator[Core]:
    """Opens the stores and loads the model; closes them again in reverse order."""
    async with AsyncExitStack() as stack:
        if not (settings.redis.url and settings.qdrant.url):
            stack.enter_context(hold(settings.data_dir))
        redis = await stack.enter_async_context(open_store(settings.redis.url, settings.data_dir))
        embedder = await asyncio.to_thread(LocalEmbedder.load, settings.embedding_folder)
        index = await stack.enter_async_context(open_index(settings, embedder))
        config = settings.agent_config
        retriever = Retriever(index, index, embedder, config, settings.agent.policy)
        extractive = ExtractiveAnswerer(embedder)
        answerer = await stack.enter_async_context(open_answerer(settings, config, extractive))
        conversations = Conversations(redis, settings.redis.conversation_ttl_seconds)
        courses = Courses(index, settings.course)
        agent = Agent(retriever, answerer, extractive)
        yield Core(
            redis=redis,
            index=index,
            embedder=embedder,
            retriever=retriever,
            conversations=conversations,
            courses=courses,
            jobs=Jobs(redis),
            bot=CourseBot(agent, conversations, courses),
        )


@contextmanager
def hold(data_dir: Path) -> Generator[None]:
    """Keeps the data folder to this process: its engines do not share."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        lock = (data_dir / "lock").open("a+")
    except OSError as error:
        raise SettingsError(
            f"The data folder {data_dir} cannot be used: {error.strerror}. "
            "FOOTNOTE_DATA_DIR names another."
        ) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            raise SettingsError(
                f"Another footnote (process {holder}) is using the data folder {data_dir}. "
                "Stop it first, or set FOOTNOTE_DATA_DIR to another folder."
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


@asynccontextmanager
async def open_index(settings: Settings, embedder: Embedder) -> AsyncGenerator[Storage]:
    name = collection_name(settings.qdrant.collection, embedder.model, embedder.dimension)
    if settings.qdrant.url is None:
        folder = settings.data_dir / "index"
        index = await asyncio.to_thread(EdgeIndex.open, folder, name, embedder.dimension)
        try:
            yield index
        finally:
            await asyncio.to_thread(index.close)
        return
    from qdrant_client import AsyncQdrantClient

    from rag.index.server import ServerIndex

    key = settings.qdrant.api_key
    client = AsyncQdrantClient(
        url=settings.qdrant.url, api_key=key.get_secret_value() if key else None, timeout=30
    )
    try:
        server = ServerIndex(client, name, embedder.dimension)
        await server.prepare()
        yield server
    finally:
        await client.close()


@asynccontextmanager
async def open_answerer(
    settings: Settings, config: AgentConfig, extractive: Answerer
) -> AsyncGenerator[Answerer]:
    """The language model where a key is set, the book's own words otherwise."""
    if settings.openai.api_key is None:
        yield extractive
        return
    from openai import AsyncOpenAI

    from rag.answering.openai import OpenAIAnswerer

    async with AsyncOpenAI(
        api_key=settings.openai.api_key.get_secret_value(),
        base_url=settings.openai.base_url,
        timeout=settings.openai.timeout_seconds,
        max_retries=MODEL_RETRIES,
    ) as client:
        yield OpenAIAnswerer(client, config)
