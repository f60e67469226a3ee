"""Which courses there are, and which one a question is about."""

from collections.abc import Sequence

from rag.errors import CourseError
from rag.index import StateRecords
from rag.retrieval import unknown_course
from rag.types import CourseSummary


class Courses:
    """The ingested courses."""

    def __init__(self, state: StateRecords, default: str | None = None) -> None:
        self._state = state
        self._default = default

    async def all(self) -> list[CourseSummary]:
        return sorted(await self._state.courses(), key=lambda course: course.book_id)

    async def resolve(self, course_id: str | None) -> CourseSummary:
        """The named course, else the default, else the only one."""
        return pick(await self.all(), course_id or self._default)


def pick(courses: Sequence[CourseSummary], course_id: str | None) -> CourseSummary:
    if course_id is not None:
        for course in courses:
            if course.book_id == course_id:
                return course
        raise CourseError(unknown_course(course_id, [course.book_id for course in courses]))
    if not courses:
        raise CourseError("No course has been ingested yet: run footnote ingest FOLDER first.")
    if len(courses) > 1:
        names = ", ".join(course.book_id for course in courses)
        raise CourseError(f"There are several courses; say which one is meant: {names}.")
    return courses[0]
