"""A real Valkey server, and the bot's collaborators in their simplest form."""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from adapters.delivery import Delivery, Draft, Envelope, Place, Reply
from bot.cli import DONE, run_command
from bot.conversations import Conversations
from bot.courses import Courses
from bot.service import CourseBot
from bot.store import EmbeddedValkey, connect
from rag.agent import Agent
from rag.types import (
    AgentResponse,
    AnswerEvent,
    Conversation,
    CourseSummary,
    Delta,
    Done,
    IngestionRecord,
    IngestionState,
    Message,
    Question,
    StateChanged,
)
from tests.bot.small_course import write_course

Footnote = Callable[..., tuple[int, str, str]]
"""A command line in; its exit code, its output and its complaints in one line out."""

COURSE = CourseSummary(book_id="robotics", title="Robotics")
NOWHERE = "unix:///nowhere/footnote.sock"
"""An address where no Redis will ever answer."""


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Generator[EmbeddedValkey]:
    """One server for the whole run; `redis` empties it before each test."""
    server = asyncio.run(EmbeddedValkey.start(tmp_path_factory.mktemp("valkey")))
    yield server
    asyncio.run(server.stop())


@pytest.fixture
async def redis(valkey: EmbeddedValkey) -> AsyncGenerator[Redis]:
    async with connect(valkey.url) as client:
        await client.flushall()
        yield client


@pytest.fixture
async def no_redis() -> AsyncGenerator[Redis]:
    """A client whose server is gone."""
    async with connect(NOWHERE) as client:
        yield client


class KnownCourses:
    """State records that know some courses and nothing else."""

    def __init__(self, *courses: CourseSummary) -> None:
        self._courses = list(courses)

    async def courses(self) -> list[CourseSummary]:
        return self._courses

    async def load(self, book_id: str) -> IngestionState:
        return IngestionState(book_id=book_id, collection_name="chunks")

    async def save(self, entry: IngestionRecord | CourseSummary) -> None:
        raise NotImplementedError

    async def forget(self, book_id: str, source_file: str | None = None) -> None:
        raise NotImplementedError


class EchoAgent(Agent):
    """Answers every question with its own words, in two pieces, and remembers what it was given."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.remembered: list[list[str]] = []
        """What each question's conversation held before it."""
        self.held_back: dict[str, asyncio.Event] = {}
        """Questions whose answers wait for their event."""
        self.failure: Exception | None = None

    async def answer(
        self, question: str, book_id: str, conversation: Conversation
    ) -> AsyncIterator[AnswerEvent]:
        self.asked.append(question)
        self.remembered.append([message.content for message in conversation.messages])
        yield StateChanged(state="GENERATING")
        if question in self.held_back:
            await self.held_back[question].wait()
        yield Delta(text="You asked: ")
        if self.failure:
            raise self.failure
        yield Delta(text=question)
        yield Done(response=AgentResponse(content=f"You asked: {question}", kind="answer"))


class FakePlatform:
    """A chat platform: each reply has a place, and everything that was ever shown there."""

    def __init__(self) -> None:
        self.begun: list[Place] = []
        self.shown: dict[str, list[Reply]] = {}
        self.thread: list[Message] = []
        self.found: Place | None = None
        self.refuses: Callable[[Reply], bool] = lambda _: False
        self.forgets = False
        self.delivery = Delivery(
            begin=self._begin, update=self._update, find=self._find, history=self._history
        )

    def answers(self) -> list[str]:
        """The finished answers, by the place where they stand."""
        last = [replies[-1] for replies in self.shown.values() if replies]
        return [reply.content for reply in last if isinstance(reply, AgentResponse)]

    async def _begin(self, envelope: Envelope, draft: Draft) -> Place:
        if self.refuses(draft):
            raise ConnectionError("the platform is down")
        place = {"ts": str(len(self.begun) + 1)}
        self.begun.append(place)
        self.shown[place["ts"]] = []
        return dict(place)

    async def _update(self, envelope: Envelope, place: Place, reply: Reply) -> Place:
        if self.refuses(reply):
            raise ConnectionError("the platform is down")
        self.shown.setdefault(place["ts"], []).append(reply)
        return place

    async def _find(self, envelope: Envelope) -> Place | None:
        return self.found

    async def _history(self, envelope: Envelope) -> list[Message]:
        if self.forgets:
            raise ConnectionError("the platform is down")
        return self.thread


@pytest.fixture
def agent() -> EchoAgent:
    return EchoAgent()


@pytest.fixture
def bot(redis: Redis, agent: EchoAgent) -> CourseBot:
    return make_bot(redis, agent)


def make_bot(redis: Redis, agent: Agent) -> CourseBot:
    return CourseBot(agent, Conversations(redis, ttl_seconds=60), Courses(KnownCourses(COURSE)))


def make_question(text: str = "What is a topic?", **overrides: object) -> Question:
    """A question whose message id follows from its text."""
    fields: dict[str, object] = {
        "text": text,
        "conversation_key": "slack:T1:C1:100.1",
        "message_id": "slack:T1:C1:" + re.sub(r"\W+", "-", text),
    }
    return Question.model_validate(fields | overrides)


def make_envelope(text: str = "What is a topic?", **overrides: object) -> Envelope:
    question = make_question(text, **overrides)
    return Envelope(platform="slack", question=question, place={"channel": "C1"})


# --- The command line --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder that holds a course; reading it in takes longer than asking it."""
    folder = tmp_path_factory.mktemp("taught")
    with pytest.MonkeyPatch.context() as environment:
        environment.chdir(folder)
        environment.setenv("FOOTNOTE_DATA_DIR", str(folder / "data"))
        assert run_command(["ingest", str(write_course(folder / "course"))]) == DONE
    return folder / "data"


@pytest.fixture
def footnote(capsys: pytest.CaptureFixture[str]) -> Footnote:
    """Runs a command; returns its exit code, its output in one line, and its complaints."""

    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        try:
            code = run_command(arguments)
        except SystemExit as error:  # argparse's own way to end
            code = int(error.code or 0)
        printed = capsys.readouterr()
        return code, printed.out, " ".join(printed.err.split())

    return run


@pytest.fixture
def use_course(taught: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOOTNOTE_DATA_DIR", str(taught))
