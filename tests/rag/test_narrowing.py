"""Filters from a question's own words."""

import pytest

from rag.narrowing import Place, narrowed, without_setting
from rag.terms import term_ids
from rag.types import SearchFilters

COURSE = SearchFilters(book_id="robotics")
PLACES = [
    Place("ros2", 1, 1),
    Place("ros2", 1, 2),
    Place("gazebo", 2, 1),
    Place("gazebo", 2, 2),
    Place("isaac", 3, 1),
    Place("isaac", 3, 2),
    Place("isaac-lab", 4, 7),
]


@pytest.mark.parametrize(
    ("question", "rest", "filters"),
    [
        ("In chapter 3, what is a node?", "what is a node?", "chapter_min=3, chapter_max=3"),
        ("What is a node in chapter 3?", "What is a node ?", "chapter_min=3, chapter_max=3"),
        ("Topics in chapters 1 to 2", "Topics", "chapter_min=1, chapter_max=2"),
        (
            "Which sensors are in lesson 2 of the Isaac module?",
            "Which sensors are ?",
            "module_filter=isaac, lesson_filter=2",
        ),
        ("In the ROS 2 module how do nodes talk?", "how do nodes talk?", "module_filter=ros2"),
        ("What does lesson 7 teach about rewards?", None, "lesson_filter=7"),
        ("What is in chapter 3?", "What is in chapter 3?", "chapter_min=3, chapter_max=3"),
    ],
)
def test_a_place_that_exists_narrows(question: str, rest: str | None, filters: str) -> None:
    text, found = narrowed(question, COURSE, PLACES)
    assert found.described() == filters
    assert rest is None or text == rest


@pytest.mark.parametrize(
    "question",
    [
        "What does chapter 99 say about frogs?",
        "What is taught in lesson 2?",  # every module has one
        "How do I write a kernel module?",
        "What is a chapter?",
        "",
    ],
)
def test_anything_else_is_left_alone(question: str) -> None:
    assert narrowed(question, COURSE, PLACES) == (question, COURSE)


def test_a_filter_that_the_caller_set_stands() -> None:
    given = SearchFilters(book_id="robotics", module_filter="ros2")
    assert narrowed("What is in chapter 3?", given, PLACES) == ("What is in chapter 3?", given)


def test_a_course_without_numbers_is_never_narrowed() -> None:
    assert narrowed("In chapter 3, what is a node?", COURSE, []) == (
        "In chapter 3, what is a node?",
        COURSE,
    )


SHARES = {
    term: share for text, share in (("ROS 2", 0.6), ("Gazebo", 0.1)) for term in term_ids(text)
}


@pytest.mark.parametrize(
    ("question", "rest"),
    [
        ("What is a topic in ROS 2?", "What is a topic?"),
        ("In ROS 2, what is a topic?", "what is a topic?"),
        ("How do I write a node with ROS 2", "How do I write a node"),
        ("How do I spawn a robot in Gazebo?", None),
        ("How do I bridge Gazebo to ROS 2?", None),
        ("Why is it so in ROS 2?", None),  # nothing would be left to search for
        ("What is new in ROS 2 Jazzy?", None),
        ("", None),
    ],
)
def test_what_the_whole_course_is_about_narrows_nothing(question: str, rest: str | None) -> None:
    assert without_setting(question, lambda term: SHARES.get(term, 0.0)) == (rest or question)
