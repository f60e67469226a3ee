"""Ingestion jobs, kept in Redis so that they outlive the process that ran them."""

from redis.asyncio import Redis

from bot.store import store_errors
from rag.types import IngestionJob, IngestionMode

COUNTER = "footnote:jobs:last"
JOBS = "footnote:jobs"


class Jobs:
    """Numbers, saves and lists ingestion jobs."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def create(self, book_id: str, mode: IngestionMode) -> IngestionJob:
        with store_errors():
            number = int(await self._redis.incr(COUNTER))
        job = IngestionJob(job_id=number, book_id=book_id, mode=mode)
        await self.save(job)
        return job

    async def save(self, job: IngestionJob) -> None:
        with store_errors():
            await self._redis.hset(JOBS, str(job.job_id), job.model_dump_json())

    async def all(self) -> list[IngestionJob]:
        """Newest first."""
        with store_errors():
            stored = await self._redis.hgetall(JOBS)
        jobs = [IngestionJob.model_validate_json(text) for text in stored.values()]
        return sorted(jobs, key=lambda job: -job.job_id)
