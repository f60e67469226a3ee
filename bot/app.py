"""Puts Footnote together: the only place that constructs clients.

Vendors that only some installations use are imported where they are used: each takes a good part of
a second, and every command would wait for it.
"""

import asyncio
import fcntl
import logging
import os
import warnings
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from redis.asyncio import Redis

from adapters.http_client import is_listening, open_client
from adapters.operations import Finding, Operations
from bot.conversations import Conversations
from bot.courses import Courses
from bot.health import index_findings, memory_finding
from bot.ingestions import Ingestions
from bot.jobs import Jobs, Turns
from bot.service import CourseBot
from bot.settings import EmbeddingSettings, OpenAISettings, RerankSettings, Settings
from bot.store import open_store, socket_for
from rag.agent import Agent
from rag.answering import Answerer
from rag.answering.extractive import ExtractiveAnswerer
from rag.embedding import Embedder
from rag.errors import DataFolderInUse, SettingsError
from rag.index import Storage, collection_name
from rag.index.edge import EdgeIndex
from rag.index.room import check_room
from rag.reranking import Reranker
from rag.retrieval import Retriever
from rag.types import AgentConfig, SearchQuery, SearchResult
from rag.writing import Judge

LOOKUP_SECTIONS = 5
SHORTEST_SEARCH = 3
MODEL_RETRIES = 2
WAIT_SECONDS = 5.0
WAIT_ATTEMPTS = 20

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Core:
    """Everything behind the front doors, open and ready."""

    settings: Settings
    redis: Redis
    index: Storage
    embedder: Embedder
    retriever: Retriever
    conversations: Conversations
    courses: Courses
    jobs: Jobs
    turns: Turns
    ingestions: Ingestions
    agent: Agent
    bot: CourseBot

    @property
    def operations(self) -> Operations:
        """What the commands and the HTTP API can do here."""
        return Operations(
            answer=self.bot.answer,
            search=self.retriever.search,
            ingest=self.ingestions.run,
            courses=self.courses.all,
            remove=self.ingestions.remove,
            jobs=self.jobs.all,
            health=self.health,
        )

    async def health(self) -> list[Finding]:
        memory = await memory_finding(self.redis, self.settings.redis.url)
        url = self.settings.qdrant.url
        return [memory, *await index_findings(self.index, url, self.turns)]

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


@asynccontextmanager
async def open_core(settings: Settings) -> AsyncGenerator[Core]:
    """Opens the stores and loads the model; closes them again in reverse order."""
    async with AsyncExitStack() as stack:
        if not (settings.redis.url and settings.qdrant.url):
            await take(settings.data_dir, stack)
        redis = await stack.enter_async_context(open_store(settings.redis.url, settings.data_dir))
        embedder = await stack.enter_async_context(open_embedder(settings))
        index = await stack.enter_async_context(open_index(settings, embedder))
        config = settings.agent_config
        reranker = await stack.enter_async_context(open_reranker(settings.reranking))
        retriever = Retriever(index, index, embedder, config, settings.agent.policy, reranker)
        extractive = ExtractiveAnswerer(embedder)
        answerer = await stack.enter_async_context(open_answerer(settings, config, extractive))
        conversations = Conversations(redis, settings.redis.conversation_ttl_seconds)
        courses = Courses(index, settings.course, index.foreign_courses)
        judge = await stack.enter_async_context(open_judge(settings))
        verify = settings.agent.verify_with_model
        agent = Agent(retriever, answerer, extractive, embedder, judge, verify)
        shared = settings.redis.url is not None
        jobs, turns = Jobs(redis, shared), Turns(redis if shared else None)
        ingestions = Ingestions(index, embedder, jobs, turns)
        stack.push_async_callback(ingestions.stop)
        yield Core(
            settings=settings,
            redis=redis,
            index=index,
            embedder=embedder,
            retriever=retriever,
            conversations=conversations,
            courses=courses,
            jobs=jobs,
            turns=turns,
            ingestions=ingestions,
            agent=agent,
            bot=CourseBot(agent, conversations, courses),
        )


@asynccontextmanager
async def open_operations(settings: Settings) -> AsyncGenerator[Operations]:
    """The one way through for every command: in this process, or through the running one."""
    async with AsyncExitStack() as stack:
        try:
            core = await stack.enter_async_context(open_core(settings))
        except DataFolderInUse:
            if not await is_listening(socket := api_socket(settings.data_dir)):
                raise
            yield await stack.enter_async_context(open_client(socket))
        else:
            yield core.operations


@asynccontextmanager
async def open_api(core: Core) -> AsyncGenerator[None]:
    """Lets the other commands work through this process while it holds the data folder."""
    from adapters.http import HttpApi, serving

    # Its sessions are those of the terminal, which is what is at the other end.
    app = HttpApi(core.operations, sessions="terminal").app()
    async with serving(app, api_socket(core.settings.data_dir)):
        try:
            yield
        finally:
            await core.ingestions.stop()


def api_socket(data_dir: Path) -> Path:
    return socket_for(data_dir / "api")


async def take(data_dir: Path, stack: AsyncExitStack) -> None:
    """Holds the data folder. Whoever has it may be a short command that is about to end, or a
    process that is about to let others work through it."""
    for _ in range(WAIT_ATTEMPTS):
        try:
            stack.enter_context(hold(data_dir))
            return
        except DataFolderInUse:
            if await is_listening(api_socket(data_dir)):
                raise
            await asyncio.sleep(WAIT_SECONDS / WAIT_ATTEMPTS)
    stack.enter_context(hold(data_dir))


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
            raise DataFolderInUse(
                f"Another footnote (process {holder}) is using the data folder {data_dir}. "
                "Wait until it is done, or set FOOTNOTE_DATA_DIR to another folder."
            ) from None
        check_room(data_dir)
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


@asynccontextmanager
async def open_embedder(settings: Settings) -> AsyncGenerator[Embedder]:
    """The one that the settings name; a key alone chooses nothing."""
    chosen = settings.embedding
    if chosen.embedder == "cohere":
        async with open_cohere(chosen) as embedder:
            yield embedder
    elif chosen.embedder == "openai":
        async with open_openai(chosen, settings.openai) as embedder:
            yield embedder
    else:
        from rag.embedding.local import LocalEmbedder

        yield await asyncio.to_thread(LocalEmbedder.load, chosen.folder)


# The remote embedders retry by themselves: Cohere's SDK gives up at a timeout, and OpenAI's repeats
# what an empty account refused.


@asynccontextmanager
async def open_cohere(chosen: EmbeddingSettings) -> AsyncGenerator[Embedder]:
    from cohere import AsyncClientV2

    from rag.embedding.cohere import MODELS, CohereEmbedder
    from rag.embedding.remote import remote_model

    key = required_key(chosen.cohere_api_key, "COHERE_API_KEY", chosen.embedder)
    url = chosen.cohere_base_url
    model = remote_model(chosen.cohere_model, MODELS, chosen.dimension, chosen.usd_per_million)
    async with AsyncClientV2(
        key, base_url=url, timeout=chosen.timeout_seconds, max_retries=0
    ) as client:
        yield CohereEmbedder(client, model, url)


@asynccontextmanager
async def open_openai(
    chosen: EmbeddingSettings, provider: OpenAISettings
) -> AsyncGenerator[Embedder]:
    from openai import AsyncOpenAI

    from rag.embedding.openai import MODELS, OpenAIEmbedder
    from rag.embedding.remote import remote_model

    key = required_key(provider.api_key, "OPENAI_API_KEY", chosen.embedder)
    model = remote_model(chosen.openai_model, MODELS, chosen.dimension, chosen.usd_per_million)
    async with AsyncOpenAI(
        api_key=key, base_url=provider.base_url, timeout=chosen.timeout_seconds, max_retries=0
    ) as client:
        yield OpenAIEmbedder(client, model)


def required_key(key: SecretStr | None, name: str, embedder: str) -> str:
    if key is None:
        raise SettingsError(f"FOOTNOTE_EMBEDDER is {embedder}, but {name} is not set.")
    return key.get_secret_value()


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
    with warnings.catch_warnings():
        # Within a private network a key without TLS is usual, and the warning shows our source.
        warnings.filterwarnings("ignore", "Api key is used with an insecure connection")
        client = AsyncQdrantClient(
            url=settings.qdrant.url,
            api_key=key.get_secret_value() if key else None,
            timeout=settings.qdrant.timeout_seconds,
            check_compatibility=False,  # the index itself says what it needs, in one sentence
        )
    try:
        server = ServerIndex(client, name, embedder.dimension)
        await server.prepare()
        yield server
    finally:
        await client.close()


@asynccontextmanager
async def open_reranker(chosen: RerankSettings) -> AsyncGenerator[Reranker | None]:
    """None unless the settings ask for one: a key alone chooses nothing."""
    if chosen.reranker == "off":
        yield None
        return
    if chosen.api_key is None:
        raise SettingsError("FOOTNOTE_RERANKER is cohere, but COHERE_API_KEY is not set.")
    from cohere import AsyncClientV2

    from rag.reranking.cohere import CohereReranker

    key = chosen.api_key.get_secret_value()
    async with AsyncClientV2(
        key, base_url=chosen.base_url, timeout=chosen.timeout_seconds, max_retries=0
    ) as client:
        yield CohereReranker(client, chosen.model)


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

    async with AsyncOpenAI(**provider(settings)) as client:
        yield OpenAIAnswerer(client, config)


@asynccontextmanager
async def open_judge(settings: Settings) -> AsyncGenerator[Judge | None]:
    """The model's second opinion, where there is a model and it is wanted."""
    if settings.openai.api_key is None or settings.agent.verify_with_model == "off":
        yield None
        return
    from openai import AsyncOpenAI

    from rag.answering.judge import OpenAIJudge

    async with AsyncOpenAI(**provider(settings)) as client:
        yield OpenAIJudge(client, settings.openai.model)


def provider(settings: Settings) -> dict[str, Any]:
    """How the model's provider is reached."""
    key = settings.openai.api_key
    return {
        "api_key": key.get_secret_value() if key else None,
        "base_url": settings.openai.base_url,
        "timeout": settings.openai.timeout_seconds,
        "max_retries": MODEL_RETRIES,
    }
