"""Words as the index sees them."""

import pytest

from rag.bank import OFF_TOPIC_QUESTIONS
from rag.terms import content_words, looks_english, query_vector, term_ids


def test_words_are_stemmed_and_stop_words_left_out() -> None:
    assert term_ids("topics") == term_ids("The topic") != set()
    assert term_ids("the of and") == set()


def test_a_word_of_several_texts_keeps_its_largest_weight() -> None:
    weights = query_vector({"nodes": 0.3, "nodes talk": 1.0})
    assert set(weights.values()) == {1.0}
    assert query_vector({"why": 1.0, "nodes": 0.3}).keys() >= term_ids("nodes")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("What is a node?", ["node"]),
        ("and in Gazebo?", ["Gazebo"]),
        ("give me an example", []),
        ("node, node and topic", ["node", "topic"]),
        ("😀 …", []),
    ],
)
def test_content_words(text: str, words: list[str]) -> None:
    assert content_words(text) == words


@pytest.mark.parametrize(
    ("text", "english"),
    [
        ("How do nodes exchange messages?", True),
        ("ros2 topic echo", True),
        ("Was ist ein Knoten und wie tauscht er Nachrichten aus", False),
        ("什么是节点？", False),
        ("😀", True),
    ],
)
def test_looks_english(text: str, english: bool) -> None:
    assert looks_english(text) is english


def test_the_bank_is_large_and_has_no_repeats() -> None:
    assert len(set(OFF_TOPIC_QUESTIONS)) == len(OFF_TOPIC_QUESTIONS) >= 80
