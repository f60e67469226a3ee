"""Which courses there are, which one a question is about, and how one is removed."""

from collections.abc import Awaitable, Callable, Sequence

from rag.errors import CourseError
from rag.index import ForeignCourse, StateRecords, Storage
from rag.retrieval import unknown_course
from rag.types import CourseSummary, SearchFilters


async def no_foreign_courses() -> list[ForeignCourse]:
    return []


class Courses:
    """The ingested courses."""

    def __init__(
        self,
        state: StateRecords,
        default: str | None = None,
        foreign: Callable[[], Awaitable[list[ForeignCourse]]] = no_foreign_courses,
    ) -> None:
        self._state = state
        self._default = default
        self._foreign = foreign

    async def all(self) -> list[CourseSummary]:
        return sorted(await self._state.courses(), key=lambda course: course.book_id)

    async def resolve(self, course_id: str | None) -> CourseSummary:
        """The named course, else the default, else the only one."""
        courses, wanted = await self.all(), course_id or self._default
        if not any(wanted in (None, course.book_id) for course in courses):
            await self._refuse_foreign(wanted)
        return pick(courses, wanted)

    async def none_yet(self) -> bool:
        """Whether nothing was ever ingested here; an error if it was, with another model."""
        if await self.all():
            return False
        await self._refuse_foreign(None)
        return True

    async def _refuse_foreign(self, wanted: str | None) -> None:
        for course in await self._foreign():
            if wanted in (None, course.book_id):
                raise CourseError(made_by_another_model(course))


def pick(courses: Sequence[CourseSummary], course_id: str | None) -> CourseSummary:
    if course_id is not None:
        for course in courses:
            if course.book_id == course_id:
                return course
        raise CourseError(unknown_course(course_id, [course.book_id for course in courses]))
    if not courses:
        raise CourseError("No course has been ingested yet: run footnote ingest FOLDER first.")
    # A course that is still being read for the first time does not make the others ambiguous.
    courses = [course for course in courses if was_ingested(course)] or courses
    if len(courses) > 1:
        names = ", ".join(course.book_id for course in courses)
        raise CourseError(f"There are several courses; say which one is meant: {names}.")
    return courses[0]


def made_by_another_model(course: ForeignCourse) -> str:
    return (
        f"The course {course.book_id} was ingested with the embedding model {course.model}"
        f" ({course.dimension} dimensions): set {settings_for(course)}, or ingest it again."
    )


def settings_for(course: ForeignCourse) -> str:
    """What has to be set for the course's model to be used."""
    size = f"FOOTNOTE_EMBEDDING_DIMENSION={course.dimension}"
    if course.model.startswith("embed-"):
        return f"FOOTNOTE_EMBEDDER=cohere, COHERE_MODEL={course.model} and {size}"
    if course.model.startswith("text-embedding-"):
        return f"FOOTNOTE_EMBEDDER=openai, FOOTNOTE_EMBEDDING_MODEL={course.model} and {size}"
    if course.model.lower() == "all-minilm-l6-v2":
        return "FOOTNOTE_EMBEDDER=local"
    return "FOOTNOTE_EMBEDDER and its model accordingly"


def was_ingested(course: CourseSummary) -> bool:
    """Whether an ingestion of it has ever come to its end."""
    return bool(course.last_full_ingest or course.last_incremental_update)


async def remove_course(index: Storage, book_id: str) -> int:
    """Takes a course out, chunks first, and says how many there were.

    It is marked as unsettled before that: should this be killed half-way, removing it again ends
    it, and ingesting it again brings back what is missing.
    """
    known = {course.book_id: course for course in await index.courses()}
    if book_id not in known:
        raise CourseError(unknown_course(book_id, list(known)))
    await index.save(known[book_id].model_copy(update={"unsettled": True}))
    stored = await index.read(filters=SearchFilters(book_id=book_id))
    await index.delete([entry.chunk.id for entry in stored])
    await index.forget(book_id)
    return len(stored)
