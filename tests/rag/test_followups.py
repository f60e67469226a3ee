"""Questions that lean on the conversation, and those that only seem to."""

import pytest

from rag.followups import Asked, is_dependent, standalone, subject_of, with_swapped_place
from rag.types import Message

NODES = "How do nodes exchange messages in ROS 2?"


def said(*texts: str) -> list[Message]:
    roles = ("user", "assistant")
    return [Message(role=roles[n % 2], content=text) for n, text in enumerate(texts)]


@pytest.mark.parametrize(
    "question",
    [
        "why?",
        "Why does it do that?",
        "give an example",
        "And in Gazebo?",
        "What about services?",
        "Do they both rotate secrets?",
        "Tell me more",
        "What is the default?",
        "And what are its parts?",
        "😀",
    ],
)
def test_dependent(question: str) -> None:
    assert is_dependent(question)


@pytest.mark.parametrize(
    "question",
    [
        "How does Gazebo simulate lidar noise?",
        "What is the difference between a topic and a service?",
        "Which launch file starts the navigation stack?",
        "What is a topic?",
        "And what is a service?",
        "Explain Spark.",
        "Changing the subject, what is it that Nav2 needs from a map?",
    ],
)
def test_standing_alone(question: str) -> None:
    assert not is_dependent(question)


def test_a_question_that_stands_alone_drags_nothing_along() -> None:
    history = said(NODES, "Nodes exchange messages over topics.")
    question = "How does Gazebo simulate lidar noise?"
    assert standalone(question, history) == Asked.alone(question)


def test_a_change_of_subject_drags_nothing_along() -> None:
    history = said(NODES, "Over topics.")
    question = "Another question: what does it take to install Isaac Sim?"
    assert standalone(question, history) == Asked.alone(question)


def test_a_dependent_question_leans_on_subject_and_answer() -> None:
    asked = standalone("why?", said(NODES, "Over topics."))
    assert asked.terms == {"Over topics.": 0.15, NODES: 0.3, "why?": 1.0}
    assert asked.texts == {"why?": 1.0, f"{NODES} why?": 0.6, "Over topics.": 0.15}


def test_without_history_a_question_is_what_it_is() -> None:
    assert standalone("why?", []) == Asked.alone("why?")


def test_a_question_before_any_answer() -> None:
    assert standalone("why?", said(NODES)).texts == {"why?": 1.0, f"{NODES} why?": 0.6}


def test_the_subject_survives_several_follow_ups() -> None:
    assert subject_of([NODES, "why?", "give an example"]) == NODES
    assert subject_of([NODES, "How does Nav2 plan a path?", "why?"]) == "How does Nav2 plan a path?"


def test_another_place_takes_the_place_of_the_first() -> None:
    asked = standalone("And in Gazebo?", said("How do I spawn a robot in Isaac Sim?", "So."))
    assert asked.texts == {"How do I spawn a robot in Gazebo?": 1.0}


@pytest.mark.parametrize(
    ("question", "subject", "expected"),
    [
        (
            "And with Python?",
            "How do I write a node with C++?",
            "How do I write a node with Python?",
        ),
        ("And in Gazebo?", "What is a node?", None),
        ("What is a node?", "How do I start it in Gazebo?", None),
        ("And in Gazebo?", "", None),
    ],
)
def test_swapping(question: str, subject: str, expected: str | None) -> None:
    assert with_swapped_place(question, subject) == expected
