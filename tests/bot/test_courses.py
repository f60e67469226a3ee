"""Which course a question is about."""

import pytest

from bot.courses import Courses, made_by_another_model, pick
from rag.errors import CourseError
from rag.index import ForeignCourse
from rag.types import CourseSummary, now
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


# --- Courses of another embedding model --------------------------------------------------------

CHESS = ForeignCourse("chess", "embed-english-v3.0", 1024)


async def foreign() -> list[ForeignCourse]:
    return [CHESS]


@pytest.mark.parametrize("wanted", ["chess", None])
async def test_a_course_of_another_model_is_not_called_unknown(wanted: str | None) -> None:
    with pytest.raises(CourseError) as caught:
        await Courses(KnownCourses(), foreign=foreign).resolve(wanted)
    assert str(caught.value) == (
        "The course chess was ingested with the embedding model embed-english-v3.0"
        " (1024 dimensions): set FOOTNOTE_EMBEDDER=cohere, COHERE_MODEL=embed-english-v3.0 and"
        " FOOTNOTE_EMBEDDING_DIMENSION=1024, or ingest it again."
    )


async def test_a_course_that_can_be_read_is_not_disturbed_by_others() -> None:
    courses = Courses(KnownCourses(ROBOTICS), foreign=foreign)
    assert await courses.resolve(None) == await courses.resolve("robotics") == ROBOTICS
    with pytest.raises(CourseError, match="checkers"):
        await courses.resolve("checkers")
    with pytest.raises(CourseError, match="embed-english"):
        await courses.resolve("chess")


async def test_a_first_start_is_one_where_nothing_was_ever_ingested() -> None:
    assert await Courses(KnownCourses()).none_yet()
    assert not await Courses(KnownCourses(ROBOTICS), foreign=foreign).none_yet()
    with pytest.raises(CourseError, match="embed-english"):
        await Courses(KnownCourses(), foreign=foreign).none_yet()


@pytest.mark.parametrize(
    ("model", "setting"),
    [
        ("embed-v4.0", "FOOTNOTE_EMBEDDER=cohere, COHERE_MODEL=embed-v4.0 and"),
        (
            "text-embedding-3-small",
            "FOOTNOTE_EMBEDDER=openai, FOOTNOTE_EMBEDDING_MODEL=text-embedding-3-small and",
        ),
        ("all-MiniLM-L6-v2", "FOOTNOTE_EMBEDDER=local, or"),
        ("my-own-bert", "FOOTNOTE_EMBEDDER and its model accordingly"),
    ],
)
def test_the_settings_that_bring_a_model_back(model: str, setting: str) -> None:
    assert f": set {setting}" in made_by_another_model(ForeignCourse("chess", model, 256))


def test_a_course_that_was_never_finished_makes_the_others_no_less_clear() -> None:
    finished = ROBOTICS.model_copy(update={"last_incremental_update": now()})
    assert pick([COOKING, finished], None) == finished
    assert pick([COOKING, finished], "cooking") == COOKING
    assert pick([COOKING], None) == COOKING
