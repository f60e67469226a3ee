"""The other end of the HTTP API: the operations of a Footnote that runs in another process."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel

from adapters.operations import (
    Finding,
    IngestionProgress,
    IngestRequest,
    Operations,
    Removal,
)
from rag.errors import FootnoteError
from rag.types import (
    AgentResponse,
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

Model = TypeVar("Model", bound=BaseModel)
Document = dict[str, Any]

GONE = "The running footnote stopped answering."
# An answer or a course takes as long as it takes; a process that is not there is known at once.
PATIENCE = httpx.Timeout(None, connect=5.0)


async def is_listening(path: Path) -> bool:
    try:
        _, writer = await asyncio.open_unix_connection(path)
    except OSError:
        return False
    writer.close()
    return True


@asynccontextmanager
async def open_client(path: Path) -> AsyncGenerator[Operations]:
    """The operations of the process that serves this socket."""
    transport = httpx.AsyncHTTPTransport(uds=str(path))
    async with httpx.AsyncClient(
        transport=transport, base_url="http://footnote", timeout=PATIENCE
    ) as client:
        yield HttpClient(client).operations


class HttpClient:
    """Translates each operation into its request."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

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

    async def answer(self, question: Question) -> AsyncIterator[AnswerEvent]:
        _, _, session = question.conversation_key.partition(":")
        body = {"message": question.text, "session_id": session, "course": question.course}
        async for event, data in self._events("/chat/stream", body):
            match event:
                case "state":
                    yield StateChanged.model_validate(data)
                case "delta":
                    yield Delta.model_validate(data)
                case _:
                    yield Done(response=AgentResponse.model_validate(data))

    async def search(self, query: SearchQuery) -> SearchResponse:
        found = await self._request("POST", "/search", query.model_dump(mode="json"))
        return SearchResponse.model_validate(found)

    async def ingest(self, request: IngestRequest) -> AsyncIterator[IngestionProgress]:
        # The other process has a working folder of its own.
        request = request.model_copy(update={"path": request.path.absolute()})
        last = None
        async for event, data in self._events("/ingest", request.model_dump(mode="json")):
            if event == "progress":
                last = IngestionProgress.model_validate(data)
                yield last
        if last is None:
            raise FootnoteError(GONE)

    async def courses(self) -> list[CourseSummary]:
        return listed(CourseSummary, await self._request("GET", "/courses"))

    async def remove(self, course_id: str) -> Removal:
        path = f"/courses/{quote(course_id, safe='')}"
        return Removal.model_validate(await self._request("DELETE", path))

    async def jobs(self) -> list[IngestionJob]:
        return listed(IngestionJob, await self._request("GET", "/jobs"))

    async def health(self) -> list[Finding]:
        return listed(Finding, await self._request("GET", "/health"))

    async def _request(self, method: str, path: str, body: Document | None = None) -> Any:
        with translated():
            response = await self._client.request(method, path, json=body)
        if response.is_error:
            raise FootnoteError(sentence(response.text))
        return response.json()

    async def _events(self, path: str, body: Document) -> AsyncGenerator[tuple[str, Document]]:
        """Server-sent events up to `done`; an `error`, or none of both, is raised."""
        with translated():
            async with self._client.stream("POST", path, json=body) as response:
                if response.is_error:
                    raise FootnoteError(sentence((await response.aread()).decode()))
                last = None
                async for event, data in parsed(response.aiter_lines()):
                    if event == "error":
                        raise FootnoteError(data["message"])
                    if event == "done":
                        last = data
                    else:
                        yield event, data
        if last is None:
            raise FootnoteError(GONE)
        # The connection is closed by now: nobody asks for more after the last event.
        yield "done", last


@contextmanager
def translated() -> Generator[None]:
    try:
        yield
    except httpx.HTTPError as error:
        raise FootnoteError(GONE) from error


async def parsed(lines: AsyncIterator[str]) -> AsyncGenerator[tuple[str, Document]]:
    event = ""
    async for line in lines:
        name, _, value = line.partition(": ")
        if name == "event":
            event = value
        elif name == "data":
            yield event, json.loads(value)


def listed(kind: type[Model], documents: list[object]) -> list[Model]:
    return [kind.model_validate(document) for document in documents]


def sentence(body: str) -> str:
    """What the other side says is wrong, whether it is its own sentence or FastAPI's."""
    try:
        document: Any = json.loads(body)
        return str(document.get("message") or document["detail"])
    except (ValueError, KeyError, AttributeError):
        return GONE
