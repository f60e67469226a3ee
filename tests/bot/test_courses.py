"""Which course a question is about."""

import pytest

from bot.courses import Courses, pick
from rag.errors import CourseError
from rag.types import CourseSummary
from tests.bot.conftest import KnownCourses

ROBOTICS = CourseSummary(book_id="robotics", title="Robotics")
COOKING = CourseSummary(book_id="cooking", title="Cooking")


async def test_courses_are_listed_by_id() -> None:
    assert await Courses(KnownCourses(ROBOTICS, COOKING)).all() == [COOKING, ROBOTICS]


async def test_the_only_course_needs_no_name() -> None:
    assert await Courses(KnownCourses(ROBOTICS)).resolve(None) == ROBOTICS


async def test_a_named_course_wins_over_the_default() -> None:
    courses = Courses(KnownCourses(ROBOTICS, COOKING), default="robotics")
    assert await courses.resolve(None) == ROBOTICS
    assert await courses.resolve("cooking") == COOKING


def test_an_unknown_course_is_answered_with_the_known_ones() -> None:
    with pytest.raises(CourseError, match=r"chess.*cooking, robotics"):
        pick([COOKING, ROBOTICS], "chess")


def test_several_courses_ask_for_a_choice() -> None:
    with pytest.raises(CourseError, match="say which one is meant: cooking, robotics"):
        pick([COOKING, ROBOTICS], None)


def test_no_course_says_how_to_add_one() -> None:
    with pytest.raises(CourseError, match="run footnote ingest FOLDER first"):
        pick([], None)
