"""Whether the stores answer, and whether every course keeps the rules of the index."""

from redis.asyncio import Redis

from adapters.operations import Finding
from bot.courses import made_by_another_model, was_ingested
from bot.jobs import Turns
from bot.store import ping, redacted
from rag.errors import FootnoteError
from rag.index import Storage
from rag.ingestion.invariants import violations
from rag.types import CourseSummary, SearchFilters

NAMED_PROBLEMS = 3


async def memory_finding(redis: Redis, url: str | None) -> Finding:
    where = redacted(url) if url else "an embedded Valkey server"
    try:
        await ping(redis, where)
    except FootnoteError as error:
        return Finding(part="memory", status="wrong", sentence=str(error))
    return Finding(part="memory", status="ok", sentence=f"Conversations are in {where}.")


async def index_findings(index: Storage, url: str | None, turns: Turns) -> list[Finding]:
    where = redacted(url) if url else "the data folder"
    try:
        courses = sorted(await index.courses(), key=lambda course: course.book_id)
        found = [Finding(part="index", status="ok", sentence=f"Passages are in {where}.")]
        ours = {course.book_id for course in courses}
        lost = [c for c in await index.foreign_courses() if c.book_id not in ours]
        found += [
            Finding(part="courses", status="wrong", sentence=made_by_another_model(course))
            for course in lost
        ]
        if not courses and not lost:
            advice = "No course yet: run footnote ingest FOLDER."
            return [*found, Finding(part="courses", status="off", sentence=advice)]
        return [*found, *[await course_finding(index, course, turns) for course in courses]]
    except FootnoteError as error:
        return [Finding(part="index", status="wrong", sentence=str(error))]


async def course_finding(index: Storage, course: CourseSummary, turns: Turns) -> Finding:
    name = f"course {course.book_id}"
    if await turns.is_taken(course.book_id):
        sentence = "It is being ingested right now, so it is not checked."
        return Finding(part=name, status="off", sentence=sentence)
    async with turns.turn(course.book_id):
        stored = await index.read(filters=SearchFilters(book_id=course.book_id))
        state = await index.load(course.book_id)
    problems = violations([entry.chunk for entry in stored], state, course)
    if not was_ingested(course):
        problems.insert(0, "It has never been read to its end.")
    if problems:
        return Finding(part=name, status="wrong", sentence=summed_up(problems))
    sentence = f"{len(stored)} passages of {len(state.records)} files, complete and in order."
    return Finding(part=name, status="ok", sentence=sentence)


def summed_up(problems: list[str]) -> str:
    """The first few, and what helps against all of them."""
    more = len(problems) - NAMED_PROBLEMS
    named = " ".join(problems[:NAMED_PROBLEMS]) + (f" And {more} more." if more > 0 else "")
    return f"{named} Ingest the course again; if that does not help, with --mode recreate."
