"""Ingestion jobs and their numbers."""

import pytest
from redis.asyncio import Redis

from bot.jobs import Jobs
from rag.errors import StoreUnavailable


async def test_jobs_are_numbered_and_listed_newest_first(redis: Redis) -> None:
    jobs = Jobs(redis)
    for number in range(1, 12):
        assert (await jobs.create("robotics", "incremental")).job_id == number
    assert [job.job_id for job in await jobs.all()] == list(range(11, 0, -1))


async def test_a_saved_job_replaces_its_earlier_self(redis: Redis) -> None:
    jobs = Jobs(redis)
    job = await jobs.create("robotics", "full")
    running = job.model_copy(update={"status": "running", "files_discovered": 8})
    await jobs.save(running)
    assert await jobs.all() == [running]


async def test_a_new_job_is_queued_at_once(redis: Redis) -> None:
    (job,) = [await Jobs(redis).create("robotics", "recreate")]
    assert (job.status, job.mode, job.book_id) == ("queued", "recreate", "robotics")
    assert await Jobs(redis).all() == [job]


async def test_without_redis_there_are_no_jobs(no_redis: Redis) -> None:
    with pytest.raises(StoreUnavailable):
        await Jobs(no_redis).create("robotics", "full")
    with pytest.raises(StoreUnavailable):
        await Jobs(no_redis).all()
