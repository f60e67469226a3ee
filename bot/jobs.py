"""Ingestion jobs, kept in Redis so that they outlive the process that ran them, and whose turn it
is: a course is changed by one of them at a time."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import cast
from weakref import WeakValueDictionary

from redis.asyncio import Redis
from redis.asyncio.lock import Lock

from bot.store import store_errors
from rag.errors import IngestionError, StoreUnavailable
from rag.types import IngestionJob, IngestionMode

COUNTER = "footnote:jobs:last"
JOBS = "footnote:jobs"
KEPT_JOBS = 1_000
SAVE_SECONDS = 1.0
LEASE_SECONDS = 30.0
DIED = "Its process ended before it was done; the next ingestion goes on from there."

logger = logging.getLogger(__name__)


def alive_key(job_id: int) -> str:
    return f"footnote:jobs:alive:{job_id}"


def lease_key(book_id: str) -> str:
    return f"footnote:ingesting:{book_id}"


class Jobs:
    """Numbers, saves and lists ingestion jobs, the last thousand of them.

    `shared`: other processes use this Redis too, so a job that is not ours may still be running.
    """

    def __init__(self, redis: Redis, shared: bool = False) -> None:
        self._redis = redis
        self._shared = shared
        self._ours: set[int] = set()

    async def create(self, book_id: str, mode: IngestionMode) -> IngestionJob:
        with store_errors():
            number = int(await self._redis.incr(COUNTER))
            await self._show_life(number)
            await self._redis.hdel(JOBS, str(number - KEPT_JOBS))
        job = IngestionJob(job_id=number, book_id=book_id, mode=mode)
        self._ours.add(number)
        await self.save(job)
        return job

    async def save(self, job: IngestionJob) -> None:
        with store_errors():
            await self._redis.hset(JOBS, str(job.job_id), job.model_dump_json())

    async def all(self) -> list[IngestionJob]:
        """Newest first; those whose process died as failed."""
        with store_errors():
            stored = await self._redis.hgetall(JOBS)
        jobs = [IngestionJob.model_validate_json(text) for text in stored.values()]
        jobs = [job if await self._is_true(job) else died(job) for job in jobs]
        return sorted(jobs, key=lambda job: -job.job_id)

    @asynccontextmanager
    async def working(self, latest: Callable[[], IngestionJob]) -> AsyncGenerator[None]:
        """While this lasts the job is known to be alive, and others see how far it is."""
        saving = asyncio.create_task(self._save_often(latest))
        try:
            yield
        except BaseException:
            await ended(saving)
            with suppress(StoreUnavailable):  # what ended the run is the news, such as a full disk
                await self.save(latest())
            raise
        else:
            await ended(saving)
            await self.save(latest())
        finally:
            self._ours.discard(latest().job_id)

    async def _save_often(self, latest: Callable[[], IngestionJob]) -> None:
        while True:
            try:
                with store_errors():
                    await self._show_life(latest().job_id)
                await self.save(latest())
            except StoreUnavailable as error:
                logger.warning("Job %s could not be saved: %s", latest().job_id, error)
            await asyncio.sleep(SAVE_SECONDS)

    async def _show_life(self, job_id: int) -> None:
        if self._shared:
            await self._redis.set(alive_key(job_id), "1", ex=int(LEASE_SECONDS))

    async def _is_true(self, job: IngestionJob) -> bool:
        """Whether the job is what its record says: over, or in the hands of a living process."""
        if job.status in ("completed", "failed") or job.job_id in self._ours:
            return True
        with store_errors():
            return self._shared and bool(await self._redis.exists(alive_key(job.job_id)))


def died(job: IngestionJob) -> IngestionJob:
    return job.model_copy(update={"status": "failed", "error_message": DIED})


class Turns:
    """One change of a course at a time.

    Within a process a lock is enough, and dies with it. Where several processes share their
    servers, a lease in Redis keeps them apart: whoever cannot renew it stops in time.
    """

    def __init__(self, shared: Redis | None = None, lease_seconds: float = LEASE_SECONDS) -> None:
        self._redis = shared
        self._lease_seconds = lease_seconds
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(self, book_id: str) -> AsyncGenerator[None]:
        """Waits until nobody else changes this course."""
        async with self._locks.setdefault(book_id, asyncio.Lock()):
            if self._redis is None:
                yield
                return
            async with self._lease(self._redis, book_id):
                yield

    async def is_taken(self, book_id: str) -> bool:
        lock = self._locks.get(book_id)
        if lock is not None and lock.locked():
            return True
        if self._redis is None:
            return False
        with store_errors():
            return bool(await self._redis.exists(lease_key(book_id)))

    @asynccontextmanager
    async def _lease(self, redis: Redis, book_id: str) -> AsyncGenerator[None]:
        lease = redis.lock(lease_key(book_id), timeout=self._lease_seconds, sleep=0.2)
        with store_errors():
            await lease.acquire()
        # Our own clock runs out well before the lease does, so that two never overlap.
        deadline = asyncio.timeout(self._lease_seconds / 2)
        try:
            async with deadline:
                renewing = asyncio.create_task(self._renew(lease, deadline))
                try:
                    yield
                finally:
                    await ended(renewing)
        except TimeoutError:
            if not deadline.expired():
                raise
            raise IngestionError(
                f"The lease on {book_id} could not be renewed in Redis, so the run stopped."
            ) from None
        finally:
            with suppress(StoreUnavailable), store_errors():
                await lease.release()

    async def _renew(self, lease: Lock, deadline: asyncio.Timeout) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._lease_seconds / 8)
            asked_at = loop.time()
            try:
                with store_errors():
                    await cast(Awaitable[bool], lease.reacquire())
            except StoreUnavailable as error:
                logger.warning("A lease could not be renewed, trying again: %s", error)
            else:
                deadline.reschedule(asked_at + self._lease_seconds / 2)


async def ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
