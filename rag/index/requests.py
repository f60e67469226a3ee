"""How a Qdrant server is asked: patiently, and with a clear sentence when it is of no use.

Every request may be repeated, since points are replaced by id: a short outage is waited out. What
is written is a whole batch or nothing, and counts as written only once the server has applied it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from json import JSONDecodeError
from typing import TypeVar

import httpx
from pydantic import ValidationError
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from rag.backoff import Patience, Sleep, persistently
from rag.errors import IndexingError

Answer = TypeVar("Answer")

FOR_READING = Patience(attempts=3, first_delay_seconds=0.2, longest_delay_seconds=2.0)
"""A student is waiting."""
FOR_WRITING = Patience(attempts=6, longest_delay_seconds=30.0)
WRITES_AT_ONCE = 8
"""A burst of writes waits here: in the client's connection pool it would time out."""
REJECTED_KEY = (401, 403)
TOO_MANY_REQUESTS = 429


class Requests:
    """Requests to one server."""

    def __init__(self, client: AsyncQdrantClient, sleep: Sleep) -> None:
        options = client.init_options
        self.server = f"Qdrant at {options['url'] or options['host'] or options['location']}"
        self._sleep = sleep
        self._writing = asyncio.Semaphore(WRITES_AT_ONCE)

    async def ask(self, request: Callable[[], Awaitable[Answer]]) -> Answer:
        return await persistently(request, asked_delay, FOR_READING, self._sleep)

    async def apply(self, request: Callable[[], Awaitable[models.UpdateResult]]) -> None:
        async def applied() -> None:
            if (await request()).status != models.UpdateStatus.COMPLETED:
                raise NotApplied

        async with self._writing:
            await persistently(applied, asked_delay, FOR_WRITING, self._sleep)

    @contextmanager
    def translated(self) -> Generator[None]:
        try:
            yield
        except NotApplied as error:
            raise IndexingError(f"{self.server} did not finish writing in time.") from error
        except ResponseHandlingException as error:
            raise IndexingError(_silence(self.server, error.source)) from error
        except UnexpectedResponse as error:
            raise IndexingError(f"{self.server} {_refusal(error)}.") from error
        except QdrantException as error:
            raise IndexingError(f"{self.server} is overloaded; try again later.") from error
        except (JSONDecodeError, AssertionError) as error:  # the client asserts what it expects
            raise IndexingError(f"What answers as {self.server} is not Qdrant.") from error


class NotApplied(Exception):
    """The server took an update, but stopped waiting before it was done."""


def asked_delay(error: Exception) -> float | None:
    """Only what may pass is worth another try: silence, overload, a server's own failure."""
    if isinstance(error, ResourceExhaustedResponse):
        return float(error.retry_after_s)
    if isinstance(error, UnexpectedResponse):
        status = error.status_code or 0
        return 0.0 if status == TOO_MANY_REQUESTS or status >= 500 else None
    if isinstance(error, ResponseHandlingException):
        return 0.0 if isinstance(error.source, httpx.TransportError) else None
    return 0.0 if isinstance(error, NotApplied) else None


def _silence(server: str, reason: Exception) -> str:
    if isinstance(reason, ValidationError):
        return f"What answers as {server} is not Qdrant."
    slow = isinstance(reason, httpx.TimeoutException)
    if slow and not isinstance(reason, httpx.ConnectTimeout):
        return f"{server} did not answer in time; FOOTNOTE_QDRANT_TIMEOUT_SECONDS gives it more."
    return f"{server} cannot be reached. Is it running?"


def _refusal(error: UnexpectedResponse) -> str:
    if error.status_code in REJECTED_KEY:
        return "rejected the API key"
    return f"refused a request with status {error.status_code} {error.reason_phrase}".rstrip()
