"""Answers in the book's own words: what is quoted for which question, and how."""

from typing import Any

import pytest

from rag.answering.asked import Asked, defined
from rag.answering.extractive import ExtractiveAnswerer
from rag.answering.quotable import split_units
from rag.types import Message
from tests.fakes import WordEmbedder
from tests.passages import Searches, make_assignment

NODES = """\
A node is a single participant in the graph that does one job. One process may host several nodes.
Small nodes are easier to test.

Useful commands:

- `ros2 node list` shows every running node.
- `ros2 node info` lists its topics."""
LAUNCH = """\
Navigation needs a map of the house.

1. Start the simulator.
2. Start navigation:

```bash
ros2 launch nav2
```

3. Choose a goal for navigation."""
TROUBLE = """\
**`Failed to make progress`** — the robot moved too little. Raise the time allowance.

**`Timed out waiting for transform`** — localisation has not started. Set the initial pose."""
TABLE = "Two releases are used:\n\n| Release | Ubuntu |\n|---|---|\n| Jazzy | 24.04 |"
SERVICES = "A service is a two-way call. Use it for short operations."


async def answer(question: str, *passages: str, searches: Searches | None = None) -> str:
    assignment = make_assignment(*passages, question=question, searches=searches)
    answerer = ExtractiveAnswerer(WordEmbedder(dimension=256))
    return "".join([piece async for piece in answerer.write(assignment)])


async def test_what_is_gets_the_definition_and_a_bit_of_explanation() -> None:
    assert await answer("What is a node?", NODES) == (
        "A node is a single participant in the graph that does one job. "
        "One process may host several nodes. Small nodes are easier to test. [1]"
    )


async def test_how_do_i_gets_all_the_steps_with_their_code() -> None:
    text = await answer("How do I launch navigation?", LAUNCH)
    for step in ("1. Start the simulator.", "ros2 launch nav2", "3. Choose a goal for navigation."):
        assert step in text
    assert text.endswith("[1]")


@pytest.mark.parametrize("question", ["Failed to make progress", "Why `Failed to make progress`?"])
async def test_an_error_message_gets_its_whole_fix(question: str) -> None:
    assert await answer(question, TROUBLE) == (
        "**`Failed to make progress`** — the robot moved too little. Raise the time allowance. [1]"
    )


def test_a_question_that_shares_words_with_a_message_is_not_about_it() -> None:
    trouble = "**`Service call timed out`** — check the path."
    assert not Asked("How do I call a service?").is_message_of(trouble)
    assert Asked("Why has my service call timed out?").is_message_of(trouble)


async def test_a_difference_gets_both_definitions() -> None:
    text = await answer("What is the difference between a node and a service?", SERVICES, NODES)
    assert text.startswith("A node is a single participant")
    assert "A service is a two-way call. Use it for short operations. [1]" in text


async def test_a_table_stays_whole_with_what_leads_into_it() -> None:
    assert await answer("Which Ubuntu release does Jazzy need?", TABLE) == f"{TABLE}\n\n[1]"


async def test_what_nobody_defines_is_searched_for_once_more() -> None:
    searches = Searches()
    await answer("What is a service?", NODES, searches=searches)
    assert [asked["query"] for asked in searches.asked] == ["What is service?"]


async def test_a_definition_found_by_the_second_search_is_quoted() -> None:
    assignment = make_assignment(NODES, question="What is a service?")
    found = make_assignment(NODES, SERVICES).passages[1]

    async def retrieve(arguments: dict[str, Any]) -> str:
        assignment.passages.append(found)
        return "{}"

    assignment.retrieve = retrieve
    answerer = ExtractiveAnswerer(WordEmbedder(dimension=256))
    text = "".join([piece async for piece in answerer.write(assignment)])
    assert text == "A service is a two-way call. Use it for short operations. [2]"


async def test_a_brief_follow_up_leans_on_the_question_before() -> None:
    history = [
        Message(role="user", content="What does a service do?"),
        Message(role="assistant", content="It is a call."),
    ]
    passage = f"{NODES}\n\n{SERVICES}"
    assignment = make_assignment(passage, question="When do I use it?", history=history)
    answerer = ExtractiveAnswerer(WordEmbedder(dimension=256))
    text = "".join([piece async for piece in answerer.write(assignment)])
    assert text.startswith("A service is a two-way call.")


async def test_a_brief_question_of_its_own_does_not() -> None:
    history = [
        Message(role="user", content="What does a service do?"),
        Message(role="assistant", content="It is a call."),
    ]
    passage = f"{SERVICES}\n\nNodes wait for each other."
    assignment = make_assignment(passage, question="Why do nodes wait?", history=history)
    answerer = ExtractiveAnswerer(WordEmbedder(dimension=256))
    text = "".join([piece async for piece in answerer.write(assignment)])
    assert text.startswith("Nodes wait for each other.")


QOS = """\
These are the settings:

- **Reliability**: `reliable` sends lost samples again.
- **Durability**: `transient local` keeps samples for late joiners.
- **History**: keep the last samples."""


async def test_of_a_list_only_the_item_that_is_asked_for_is_quoted() -> None:
    assert await answer("What does durability do?", QOS) == (
        "**Durability**: `transient local` keeps samples for late joiners. [1]"
    )
    assert await answer("What are the settings?", QOS) == f"{QOS}\n\n[1]"


async def test_a_follow_up_about_another_item_quotes_that_one() -> None:
    history = [
        Message(role="user", content="What does durability do?"),
        Message(role="assistant", content="It keeps samples."),
    ]
    assignment = make_assignment(QOS, question="and reliability?", history=history)
    answerer = ExtractiveAnswerer(WordEmbedder(dimension=256))
    text = "".join([piece async for piece in answerer.write(assignment)])
    assert text.startswith("**Reliability**:")
    assert "Durability" not in text


async def test_it_differs_defines_both_what_was_asked_before_and_now() -> None:
    history = [
        Message(role="user", content="What is a node?"),
        Message(role="assistant", content="A node does one job."),
    ]
    question = "How is it different from a service?"
    assignment = make_assignment(NODES, SERVICES, question=question, history=history)
    answerer = ExtractiveAnswerer(WordEmbedder(dimension=256))
    text = "".join([piece async for piece in answerer.write(assignment)])
    assert "A node is a single participant" in text
    assert "A service is a two-way call." in text


async def test_two_questions_at_once_are_both_answered() -> None:
    text = await answer("What is a service and how do I launch navigation?", SERVICES, LAUNCH)
    assert text.startswith("A service is a two-way call.")
    assert "1. Start the simulator." in text


async def test_a_definition_that_ends_in_a_colon_is_quoted_with_what_it_leads_to() -> None:
    board = "A board is a computer made of:\n\n🧠 A processor\n\n💾 Some memory"
    assert await answer("What is a board?", board) == f"{board} [1]"


async def test_code_is_quoted_to_those_who_ask_how_or_for_code() -> None:
    whisper = "```python\nwhisper.load(silence)\n```\n\nWhisper invents words when fed silence."
    assert "load" not in await answer("Whisper invents words in silence", whisper)
    assert "load" in await answer("Show me the code to load whisper", whisper)


async def test_announcements_questions_and_captions_are_no_answer() -> None:
    text = (
        "In this lesson you learn about nodes and services.\n\n"
        "When should nodes wait?\n\n"
        "Listing 3-1: When nodes wait\n\n"
        "Nodes wait until the service is there."
    )
    assert await answer("When should nodes wait?", text) == (
        "Nodes wait until the service is there. [1]"
    )


async def test_every_quotation_stands_in_its_passage() -> None:
    text = await answer("How do nodes and navigation start?", NODES, LAUNCH, SERVICES)
    for line in text.replace("[1]", "").replace("[2]", "").replace("[3]", "").splitlines():
        flat = " ".join(line.split())
        assert flat in " ".join(f"{NODES} {LAUNCH} {SERVICES}".split())


def test_units_are_sentences_or_whole_blocks() -> None:
    texts = [(text.splitlines()[0], is_block) for text, _, is_block in split_units(NODES)]
    assert texts == [
        ("A node is a single participant in the graph that does one job.", False),
        ("One process may host several nodes.", False),
        ("Small nodes are easier to test.", False),
        ("Useful commands:", True),
    ]


def test_headings_and_admonition_marks_are_not_quoted() -> None:
    text = "**Behaviour trees**\n\nA tree is small.\n\n:::tip\n\nUse it.\n\n:::"
    assert [unit[0] for unit in split_units(text)] == ["A tree is small.", "Use it."]


@pytest.mark.parametrize(
    ("question", "subjects"),
    [
        ("What is a topic?", ["topic"]),
        ("what's AMCL", ["AMCL"]),
        ("What is a topic in ROS 2?", ["topic"]),
        ("What does QoS mean?", ["QoS"]),
        ("What's the difference between a topic and a service?", ["a topic", "a service"]),
        ("How does AMCL differ from SLAM?", ["AMCL", "SLAM"]),
        ("how is AMCL different from SLAM", ["AMCL", "SLAM"]),
        ("AMCL vs. SLAM", ["AMCL", "SLAM"]),
        ("whats the diference between AMCL and SLAM", ["AMCL", "SLAM"]),
        ("How do I start it?", []),
        ("Why does it fail?", []),
    ],
)
def test_what_is_to_be_defined(question: str, subjects: list[str]) -> None:
    assert Asked(question).subjects == subjects


@pytest.mark.parametrize(
    ("sentence", "clarity"),
    [
        ("A topic is a named channel.", 1.0),
        ("**Topic** (a channel) is a thing.", 1.0),
        ("A ROS topic is a named channel.", 0.5),
        ("Every topic is named.", 0.0),
        ("Where a topic is a channel, a service is a call.", 0.0),
        ("The name of a topic in a graph of nodes is unique.", 0.0),
        ("Topics.", 0.0),
    ],
)
def test_how_clearly_a_sentence_defines(sentence: str, clarity: float) -> None:
    assert defined("topic", sentence) == clarity


def test_what_the_heading_says_a_definition_need_not_repeat() -> None:
    item = "- **Durability**: keeps samples."
    assert defined("QoS durability", item) == 0.0
    assert defined("QoS durability", item, heading="Quality of Service (QoS)") == 1.0


@pytest.mark.parametrize("heading", ["OpenVLA", "What OpenVLA is", "OpenVLA: a model"])
def test_a_section_opens_with_what_its_heading_names(heading: str) -> None:
    opening = "OpenVLA combines two image encoders."
    asked = Asked("What is OpenVLA?")
    assert asked.is_defined_by(opening, heading, opens=True) > 0.5
    assert asked.is_defined_by(opening, heading, opens=False) == 0.0
    assert asked.is_defined_by(opening, "Landmark models", opens=True) == 0.0
