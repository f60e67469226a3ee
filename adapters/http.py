"""The HTTP API: requests in, Footnote's operations out, answers and progress as they come about.

So far it is served on a Unix socket that only its owner can open. That is why `POST /ingest` may
name a path there, and why an error may be told in the operator's words.
"""

import asyncio
import json
import logging
import socket
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, Field

from adapters.operations import (
    Finding,
    IngestRequest,
    Operations,
    Removal,
    answer_document,
)
from rag.errors import CourseError, FootnoteError
from rag.types import (
    AnswerEvent,
    CourseSummary,
    Delta,
    Done,
    IngestionJob,
    Question,
    SearchQuery,
    SearchResponse,
    StateChanged,
)

FAILURE = "Something went wrong inside Footnote; its log has the details under {id}."
STOP_SECONDS = 2

logger = logging.getLogger(__name__)


class ChatRequest(BaseModel):
    """A question; how long it may be is the service's to say."""

    message: str
    session_id: str = Field(default_factory=lambda: str(uuid.uuid4()))
    course: str | None = None


class HttpApi:
    """The routes. `sessions` is the name under which its conversations are kept."""

    def __init__(self, operations: Operations, sessions: str) -> None:
        self._operations = operations
        self._sessions = sessions

    def app(self) -> FastAPI:
        app = FastAPI(title="Footnote")
        app.add_api_route("/search", self.search, methods=["POST"])
        app.add_api_route("/chat/stream", self.chat, methods=["POST"])
        app.add_api_route("/ingest", self.ingest, methods=["POST"])
        app.add_api_route("/ingest/{job_id}", self.job, methods=["GET"])
        app.add_api_route("/jobs", self.jobs, methods=["GET"])
        app.add_api_route("/courses", self.courses, methods=["GET"])
        app.add_api_route("/courses/{course_id}", self.remove, methods=["DELETE"])
        app.add_api_route("/health", self.health, methods=["GET"])
        app.add_exception_handler(Exception, explained)
        app.add_exception_handler(FootnoteError, explained)
        return app

    async def search(self, query: SearchQuery) -> SearchResponse:
        return await self._operations.search(query)

    async def chat(self, request: ChatRequest) -> StreamingResponse:
        question = Question(
            text=request.message,
            course=request.course,
            conversation_key=f"{self._sessions}:{request.session_id}",
            message_id=f"{self._sessions}:{uuid.uuid4()}",
        )
        return stream(answer_events(self._operations.answer(question)))

    async def ingest(self, request: IngestRequest) -> StreamingResponse:
        """`progress` {job, files_done, chunks_done}, then `done` {job}; a client that goes away
        stops the job."""
        return stream(self._ingestion_events(request))

    async def job(self, job_id: int) -> IngestionJob:
        for job in await self._operations.jobs():
            if job.job_id == job_id:
                return job
        raise HTTPException(404, f"There is no job {job_id}.")

    async def jobs(self) -> list[IngestionJob]:
        return await self._operations.jobs()

    async def courses(self) -> list[CourseSummary]:
        return await self._operations.courses()

    async def remove(self, course_id: str) -> Removal:
        return await self._operations.remove(course_id)

    async def health(self) -> list[Finding]:
        return await self._operations.health()

    async def _ingestion_events(self, request: IngestRequest) -> AsyncGenerator[str]:
        job: IngestionJob | None = None
        async for progress in self._operations.ingest(request):
            job = progress.job
            yield sent("progress", progress.model_dump(mode="json"))
        if job is not None:
            yield sent("done", job.model_dump(mode="json"))


# --- Server-sent events ------------------------------------------------------------------------


async def answer_events(events: AsyncIterator[AnswerEvent]) -> AsyncGenerator[str]:
    async for event in events:
        match event:
            case StateChanged():
                yield sent("state", event.model_dump(mode="json"))
            case Delta():
                yield sent("delta", event.model_dump(mode="json"))
            case Done(response=response):
                yield sent("done", answer_document(response))


def stream(events: AsyncGenerator[str]) -> StreamingResponse:
    return StreamingResponse(with_failure(events), media_type="text/event-stream")


async def with_failure(events: AsyncGenerator[str]) -> AsyncGenerator[str]:
    """The events, closed by an `error` if they break off."""
    try:
        async for event in events:
            yield event
    except Exception as error:  # the adapter's edge
        yield sent("error", failure(error))


def sent(event: str, data: dict[str, Any]) -> str:
    return f"event: {event}\ndata: {json.dumps(data)}\n\n"


# --- Failures ----------------------------------------------------------------------------------


async def explained(request: Request, error: Exception) -> JSONResponse:
    known = isinstance(error, FootnoteError)
    status = 404 if isinstance(error, CourseError) else 503 if known else 500
    return JSONResponse(failure(error), status_code=status)


def failure(error: Exception) -> dict[str, str]:
    request_id = uuid.uuid4().hex[:8]
    if isinstance(error, FootnoteError):
        return {"message": str(error), "request_id": request_id}
    logger.error("Request %s failed", request_id, exc_info=error)
    return {"message": FAILURE.format(id=request_id), "request_id": request_id}


# --- Serving -----------------------------------------------------------------------------------


class Server(uvicorn.Server):
    """A server inside a program that sees to signals itself."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


@asynccontextmanager
async def serving(app: FastAPI, path: Path) -> AsyncGenerator[None]:
    """Answers requests on a Unix socket until the block ends."""
    with private_socket(path) as listener:
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=STOP_SECONDS,
        )
        server = Server(config)
        answering = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield
        finally:
            server.should_exit = True
            await answering


@contextmanager
def private_socket(path: Path) -> Generator[socket.socket]:
    """A listening socket that only its owner can open. Whoever died here left a file behind."""
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen()
        listener.setblocking(False)
        try:
            yield listener
        finally:
            path.unlink(missing_ok=True)
