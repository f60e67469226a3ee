"""The HTTP API and its client: what one end is given, the other gives back."""

import asyncio
import stat
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from adapters.http import HttpApi, serving
from adapters.http_client import GONE, HttpClient, is_listening, open_client
from adapters.operations import (
    Finding,
    IngestionProgress,
    IngestRequest,
    Operations,
    Removal,
)
from rag.errors import CourseError, FootnoteError, StoreUnavailable
from rag.types import (
    AgentResponse,
    AnswerEvent,
    Citation,
    CourseSummary,
    Delta,
    Done,
    IngestionJob,
    Question,
    SearchQuery,
    SearchResponse,
    StateChanged,
    now,
)

QUESTION = Question(text="What is a topic?", conversation_key="terminal:42", message_id="m1")
CITATION = Citation(
    n=1,
    page_title="Nodes",
    chapter_title="ROS 2",
    chapter=3,
    section="Topics",
    url="/read/robotics/nodes.md#topics",
    module="ros2",
    chunk_id="c1",
    chunk_text="A topic is a named channel.",
    similarity=0.8,
)
EVENTS: list[AnswerEvent] = [
    StateChanged(state="GENERATING"),
    Delta(text="A topic is\na “channel” [1].", citations=[CITATION]),
    Done(
        response=AgentResponse(
            content="A topic is\na “channel” [1].", kind="answer", citations=[CITATION]
        )
    ),
]
ROBOTICS = CourseSummary(book_id="robotics", title="Robotics", total_chunks=3)
QUEUED = IngestionJob(job_id=7, book_id="robotics")
COMPLETED = QUEUED.model_copy(update={"status": "completed", "completed_at": now()})
FINDING = Finding(part="index", status="ok", sentence="Passages are in the data folder.")


@dataclass
class FakeFootnote:
    """Operations that answer with what they are told to, and remember what they were asked."""

    failure: Exception | None = None
    asked: list[Any] = field(default_factory=list[Any])
    listening: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    endless: bool = False

    @property
    def operations(self) -> Operations:
        return Operations(
            answer=self.answer,
            search=self.search,
            ingest=self.ingest,
            courses=self.courses,
            remove=self.remove,
            jobs=self.jobs,
            health=self.health,
        )

    def _note(self, asked: object) -> None:
        self.asked.append(asked)
        if self.failure:
            raise self.failure

    async def answer(self, question: Question) -> AsyncIterator[AnswerEvent]:
        for event in EVENTS[:-1]:
            yield event
        self._note(question)
        yield EVENTS[-1]

    async def search(self, query: SearchQuery) -> SearchResponse:
        self._note(query)
        return SearchResponse(
            query=query.text,
            results=[],
            total_found=3,
            hardware_tier_filter=None,
            module_filter=query.module_filter,
            book_id=query.book_id,
        )

    async def ingest(self, request: IngestRequest) -> AsyncIterator[IngestionProgress]:
        yield IngestionProgress(job=QUEUED)
        self._note(request)
        try:
            self.listening.set()
            if self.endless:
                await asyncio.Event().wait()
            yield IngestionProgress(job=COMPLETED, files_done=8, chunks_done=98)
        finally:
            self.left.set()

    async def courses(self) -> list[CourseSummary]:
        self._note("courses")
        return [ROBOTICS]

    async def remove(self, book_id: str) -> Removal:
        self._note(book_id)
        return Removal(course=book_id, chunks_deleted=3)

    async def jobs(self) -> list[IngestionJob]:
        self._note("jobs")
        return [QUEUED]

    async def health(self) -> list[Finding]:
        self._note("health")
        return [FINDING]


@pytest.fixture
def footnote() -> FakeFootnote:
    return FakeFootnote()


@pytest.fixture
async def web(footnote: FakeFootnote) -> AsyncGenerator[httpx.AsyncClient]:
    """Requests to the API as anybody would write them."""
    app = HttpApi(footnote.operations, sessions="terminal").app()
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://footnote") as client:
        yield client


@pytest.fixture
def remote(web: httpx.AsyncClient) -> Operations:
    return HttpClient(web).operations


# --- There and back ------------------------------------------------------------------------------


async def test_an_answer_arrives_event_by_event(remote: Operations, footnote: FakeFootnote) -> None:
    assert [event async for event in remote.answer(QUESTION)] == EVENTS
    (asked,) = footnote.asked
    assert (asked.text, asked.course) == (QUESTION.text, None)
    assert asked.conversation_key == QUESTION.conversation_key


async def test_a_search_arrives_with_its_filters(
    remote: Operations, footnote: FakeFootnote
) -> None:
    query = SearchQuery(text="topics", book_id="robotics", module_filter="ros2", limit=9)
    response = await remote.search(query)
    assert footnote.asked == [query]
    assert (response.module_filter, response.total_found) == ("ros2", 3)


async def test_an_ingestion_reports_its_progress(
    remote: Operations, footnote: FakeFootnote
) -> None:
    request = IngestRequest(path=Path("course"), course="robotics", mode="full")
    progress = [at async for at in remote.ingest(request)]
    assert [at.job.status for at in progress] == ["queued", "completed"]
    assert progress[-1] == IngestionProgress(job=COMPLETED, files_done=8, chunks_done=98)
    # The process at the other end has a working folder of its own.
    assert footnote.asked == [request.model_copy(update={"path": Path.cwd() / "course"})]


async def test_lists_and_findings_come_back_as_they_are(remote: Operations) -> None:
    assert await remote.courses() == [ROBOTICS]
    assert await remote.jobs() == [QUEUED]
    assert await remote.health() == [FINDING]


async def test_a_course_is_removed_by_its_id(remote: Operations, footnote: FakeFootnote) -> None:
    assert await remote.remove("Intro.to_C") == Removal(course="Intro.to_C", chunks_deleted=3)
    assert footnote.asked == ["Intro.to_C"]


# --- Failures ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "failure", [CourseError("There is no such course."), StoreUnavailable("x")]
)
async def test_a_failure_is_told_in_its_own_sentence(
    remote: Operations, footnote: FakeFootnote, failure: FootnoteError
) -> None:
    footnote.failure = failure
    for attempt in (remote.courses(), remote.remove("robotics"), whole(remote.answer(QUESTION))):
        with pytest.raises(FootnoteError, match=f"^{failure}$"):
            await attempt


async def test_an_unexpected_failure_is_told_without_its_details(
    remote: Operations, footnote: FakeFootnote
) -> None:
    footnote.failure = RuntimeError("secret")
    for attempt in (remote.jobs(), whole(remote.ingest(IngestRequest(path=Path("course"))))):
        with pytest.raises(FootnoteError, match="log has the details") as caught:
            await attempt
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("failure", "status"),
    [(CourseError("No."), 404), (StoreUnavailable("No."), 503), (RuntimeError("No."), 500)],
)
async def test_failures_have_their_status(
    web: httpx.AsyncClient, footnote: FakeFootnote, failure: Exception, status: int
) -> None:
    footnote.failure = failure
    response = await web.get("/courses")
    assert response.status_code == status
    assert response.json().keys() == {"message", "request_id"}


async def test_a_request_that_makes_no_sense_is_refused(web: httpx.AsyncClient) -> None:
    assert (await web.post("/search", json={"text": "no"})).status_code == 422
    assert (await web.post("/ingest", json={"mode": "sideways"})).status_code == 422
    assert (await web.post("/chat/stream", json={})).status_code == 422


# --- The routes ----------------------------------------------------------------------------------


async def test_one_job_can_be_looked_at(web: httpx.AsyncClient) -> None:
    assert (await web.get("/ingest/7")).json()["status"] == "queued"
    missing = await web.get("/ingest/8")
    assert (missing.status_code, missing.json()["detail"]) == (404, "There is no job 8.")


async def test_a_chat_is_a_stream_of_named_events(web: httpx.AsyncClient) -> None:
    response = await web.post("/chat/stream", json={"message": "What is a topic?"})
    assert response.headers["content-type"].startswith("text/event-stream")
    lines = response.text.splitlines()
    assert [line for line in lines if line.startswith("event")] == [
        "event: state",
        "event: delta",
        "event: done",
    ]
    assert lines[1] == 'data: {"state": "GENERATING"}'


async def test_the_last_event_has_the_chat_responses_fields(web: httpx.AsyncClient) -> None:
    response = await web.post("/chat/stream", json={"message": "What is a topic?"})
    last = response.text.strip().splitlines()[-1]
    for name in ("response", "sources", "confidence", "should_answer", "session_id", "timestamp"):
        assert f'"{name}"' in last


async def test_a_stream_that_breaks_off_ends_with_an_error(
    web: httpx.AsyncClient, footnote: FakeFootnote
) -> None:
    footnote.failure = CourseError("There is no such course.")
    response = await web.post("/chat/stream", json={"message": "What is a topic?"})
    assert "event: error" in response.text
    assert '"message": "There is no such course."' in response.text


# --- On a real socket ----------------------------------------------------------------------------


@pytest.fixture
async def socket(footnote: FakeFootnote, tmp_path: Path) -> AsyncGenerator[Path]:
    path = tmp_path / "api.sock"
    path.write_text("left behind by a process that was killed")
    async with serving(HttpApi(footnote.operations, sessions="terminal").app(), path):
        yield path


async def test_only_its_owner_can_open_the_socket(socket: Path) -> None:
    assert stat.S_IMODE(socket.stat().st_mode) == 0o600
    assert await is_listening(socket)


async def test_everything_goes_over_the_socket(socket: Path) -> None:
    async with open_client(socket) as remote:
        assert await remote.courses() == [ROBOTICS]
        assert [event async for event in remote.answer(QUESTION)] == EVENTS
        progress = [at async for at in remote.ingest(IngestRequest(path=Path("course")))]
    assert progress[-1].job == COMPLETED


async def test_others_are_answered_while_an_ingestion_runs(
    socket: Path, footnote: FakeFootnote
) -> None:
    footnote.endless = True
    async with open_client(socket) as remote:
        ingesting = asyncio.create_task(whole(remote.ingest(IngestRequest(path=Path("course")))))
        await footnote.listening.wait()
        assert await remote.courses() == [ROBOTICS]
        ingesting.cancel()
        await asyncio.gather(ingesting, return_exceptions=True)


async def test_a_client_that_goes_away_ends_its_ingestion(
    socket: Path, footnote: FakeFootnote
) -> None:
    footnote.endless = True
    async with open_client(socket) as remote:
        ingesting = asyncio.create_task(whole(remote.ingest(IngestRequest(path=Path("course")))))
        await footnote.listening.wait()
        assert not footnote.left.is_set()
        ingesting.cancel()
        await asyncio.gather(ingesting, return_exceptions=True)
        await footnote.left.wait()


async def test_a_server_that_is_gone_is_said_to_be(footnote: FakeFootnote, tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    async with open_client(path) as remote:
        async with serving(HttpApi(footnote.operations, sessions="terminal").app(), path):
            assert await remote.courses() == [ROBOTICS]
        assert not path.exists()
        assert not await is_listening(path)
        for attempt in (remote.courses(), whole(remote.answer(QUESTION))):
            with pytest.raises(FootnoteError, match=GONE):
                await attempt


async def whole(events: AsyncIterator[Any]) -> list[Any]:
    return [event async for event in events]
