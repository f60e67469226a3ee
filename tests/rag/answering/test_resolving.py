"""Follow-ups said in full, and two questions asked at once."""

import pytest

from rag.answering.resolving import parts_of, resolved


@pytest.mark.parametrize(
    ("before", "question", "meant"),
    [
        ("What is OpenVLA?", "how is it fine-tuned?", "how is OpenVLA fine-tuned?"),
        ("What is MQTT?", "what are its levels?", "what are MQTT levels?"),
        ("What is a lifetime?", "why do I need to write them?", "why do I need to write lifetime?"),
        ("What does unwrap do?", "and expect?", "What does expect do?"),
        ("What is a costmap?", "And the local one?", "What is a local costmap?"),
        ("What is a costmap?", "what about the local costmap?", "What is a local costmap?"),
        ("How do I spawn it in Isaac?", "and in Gazebo?", "How do I spawn it in Gazebo?"),
    ],
)
def test_a_follow_up_is_said_in_full(before: str, question: str, meant: str) -> None:
    assert resolved(question, [before]).text == meant


@pytest.mark.parametrize(
    "question",
    [
        "Why do nodes wait?",
        "How can I check that a publisher works?",
        "What about the deadline of a project that nobody has started yet?",
    ],
)
def test_what_stands_alone_stays_as_it_is(question: str) -> None:
    assert resolved(question, ["What is a topic?"]).text == question


def test_it_differs_compares_with_what_was_asked_before() -> None:
    asked = resolved("How is it different from a service?", ["What is a topic?"])
    assert asked.subjects == ["topic", "a service"]


def test_it_is_what_was_asked_about_last() -> None:
    earlier = ["What is a node?", "And what is a service?", "thanks!"]
    assert resolved("How do I call one?", earlier).text == "How do I call service?"


def test_without_a_subject_a_brief_follow_up_takes_the_question_along() -> None:
    asked = resolved("How do I run only one of them?", ["How do I write a test?"])
    assert asked.before == "How do I write a test?"


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        (
            "What is a lease and how do I renew it?",
            ["What is a lease", "how do I renew it?"],
        ),
        ("What is a lease? How long is it?", ["What is a lease", "How long is it?"]),
        ("What are nodes and topics?", ["What are nodes and topics?"]),
        ("Tell me what a node is and what it does", ["Tell me what a node is and what it does"]),
        ("What is a lease and how does it work?", ["What is a lease and how does it work?"]),
        ("Stopped: port in use, why is that", ["Stopped: port in use, why is that"]),
    ],
)
def test_two_questions_at_once_are_two(question: str, parts: list[str]) -> None:
    assert parts_of(question) == parts
