"""Ingestion jobs, their numbers, and whose turn it is."""

import asyncio
from typing import Literal

import pytest
from redis.asyncio import Redis

from bot.jobs import DIED, KEPT_JOBS, Jobs, Turns, alive_key, lease_key
from rag.errors import IngestionError, StoreUnavailable
from rag.types import IngestionJob, now

OVER: tuple[Literal["completed", "failed"], ...] = ("completed", "failed")


def over(job: IngestionJob, status: Literal["completed", "failed"]) -> IngestionJob:
    return job.model_copy(update={"status": status, "completed_at": now()})


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
    jobs = Jobs(redis)
    job = await jobs.create("robotics", "recreate")
    assert (job.status, job.mode, job.book_id) == ("queued", "recreate", "robotics")
    assert await jobs.all() == [job]


async def test_only_the_last_jobs_are_kept(redis: Redis) -> None:
    jobs = Jobs(redis)
    for _ in range(KEPT_JOBS + 3):
        await jobs.create("robotics", "incremental")
    known = [job.job_id for job in await jobs.all()]
    assert known == list(range(KEPT_JOBS + 3, 3, -1))


async def test_a_job_is_saved_while_it_is_worked_on_and_at_its_end(redis: Redis) -> None:
    jobs = Jobs(redis)
    job = await jobs.create("robotics", "full")
    async with jobs.working(lambda: job):
        job = job.model_copy(update={"status": "running"})
        while (await jobs.all())[0].status != "running":
            await asyncio.sleep(0.01)
        job = over(job, "completed")
    assert await jobs.all() == [job]


async def test_what_ended_a_run_is_told_even_if_its_job_cannot_be_saved(no_redis: Redis) -> None:
    job = IngestionJob(job_id=1, book_id="robotics")
    with pytest.raises(IngestionError, match="The disk is full"):
        async with Jobs(no_redis).working(lambda: job):
            raise IngestionError("The disk is full.")


async def test_a_job_whose_process_died_is_shown_as_failed(redis: Redis) -> None:
    for status in ("queued", "running"):
        job = await Jobs(redis).create("robotics", "full")
        await Jobs(redis).save(job.model_copy(update={"status": status}))
    after_a_restart = await Jobs(redis).all()
    assert [(job.status, job.error_message) for job in after_a_restart] == [("failed", DIED)] * 2


async def test_a_job_that_is_over_stays_what_it_was(redis: Redis) -> None:
    jobs = Jobs(redis)
    ended = [over(await jobs.create("robotics", "full"), status) for status in OVER]
    for job in ended:
        await jobs.save(job)
    assert await Jobs(redis).all() == ended[::-1]


async def test_where_redis_is_shared_a_job_of_another_process_is_alive_while_it_says_so(
    redis: Redis,
) -> None:
    job = await Jobs(redis, shared=True).create("robotics", "full")
    elsewhere = Jobs(redis, shared=True)
    assert await elsewhere.all() == [job]
    await redis.delete(alive_key(job.job_id))  # as it expires when nobody renews it
    assert [job.status for job in await elsewhere.all()] == ["failed"]


async def test_without_redis_there_are_no_jobs(no_redis: Redis) -> None:
    with pytest.raises(StoreUnavailable):
        await Jobs(no_redis).create("robotics", "full")
    with pytest.raises(StoreUnavailable):
        await Jobs(no_redis).all()


# --- Turns ---------------------------------------------------------------------------------------


async def stay(turns: Turns, book_id: str, log: list[str], leave: asyncio.Event) -> None:
    async with turns.turn(book_id):
        log.append(f"{book_id} begins")
        await leave.wait()
        log.append(f"{book_id} ends")


async def wait_for(log: list[str], count: int) -> None:
    while len(log) < count:
        await asyncio.sleep(0.01)


@pytest.fixture(params=["one process", "two processes"])
def pair(request: pytest.FixtureRequest, redis: Redis) -> tuple[Turns, Turns]:
    """Two that want to change courses: tasks of one process, or processes with one Redis."""
    if request.param == "one process":
        turns = Turns()
        return turns, turns
    return Turns(redis), Turns(redis)


async def test_a_course_is_changed_by_one_at_a_time(pair: tuple[Turns, Turns]) -> None:
    one, other = pair
    log: list[str] = []
    leave = asyncio.Event()
    first = asyncio.create_task(stay(one, "robotics", log, leave))
    await wait_for(log, 1)
    assert await other.is_taken("robotics")
    second = asyncio.create_task(stay(other, "robotics", log, leave))
    third = asyncio.create_task(stay(other, "cooking", log, leave))
    await wait_for(log, 2)
    assert log == ["robotics begins", "cooking begins"]
    leave.set()
    await asyncio.gather(first, second, third)
    assert [entry for entry in log if entry.startswith("robotics")] == [
        "robotics begins",
        "robotics ends",
    ] * 2
    assert not await one.is_taken("robotics")
    assert not await other.is_taken("robotics")


async def test_a_failed_change_gives_the_turn_back(pair: tuple[Turns, Turns]) -> None:
    one, other = pair
    with pytest.raises(ValueError, match="broken"):
        async with one.turn("robotics"):
            raise ValueError("broken")
    async with other.turn("robotics"):
        assert await other.is_taken("robotics")


async def test_a_lease_is_renewed_while_it_is_held(redis: Redis) -> None:
    async with Turns(redis, lease_seconds=4).turn("robotics"):
        left = await redis.pttl(lease_key("robotics"))
        while (now_left := await redis.pttl(lease_key("robotics"))) <= left:
            left = now_left
            await asyncio.sleep(0.01)
        assert 0 < left < now_left <= 4_000


async def test_a_lease_that_was_lost_stops_the_work_it_protects(redis: Redis) -> None:
    async def work() -> None:
        async with Turns(redis, lease_seconds=1).turn("robotics"):
            await redis.set(lease_key("robotics"), "somebody else's token")
            await asyncio.Event().wait()

    with pytest.raises(IngestionError, match="lease on robotics"):
        await work()
    assert await redis.get(lease_key("robotics")) == "somebody else's token"


async def test_the_lease_of_a_dead_process_expires(redis: Redis) -> None:
    await redis.set(lease_key("robotics"), "of a process that was killed", px=200)
    async with Turns(redis).turn("robotics"):
        assert await Turns(redis).is_taken("robotics")


async def test_without_redis_there_is_no_lease(no_redis: Redis) -> None:
    with pytest.raises(StoreUnavailable):
        async with Turns(no_redis).turn("robotics"):
            pass
