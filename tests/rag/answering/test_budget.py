"""What fits the model's window: oldest first to go, the best passage never."""

from rag.answering.budget import estimated_tokens, fitting_history, fitting_passages
from rag.types import Message
from tests.passages import make_context


def turn(n: int, length: int = 300) -> list[Message]:
    filler = "x" * length
    return [
        Message(role="user", content=f"question {n} {filler}"),
        Message(role="assistant", content=f"answer {n} {filler}"),
    ]


HISTORY = [message for n in range(5) for message in turn(n)]


def test_the_estimate_errs_high() -> None:
    assert estimated_tokens("hello world, this is a test") >= 7
    assert estimated_tokens("什么是话题") >= 5


def test_everything_stays_that_fits() -> None:
    assert fitting_history(HISTORY, 10_000) == HISTORY


def test_the_oldest_go_first_and_a_question_begins() -> None:
    kept = fitting_history(HISTORY, 400)
    assert [message.content.split()[:2] for message in kept] == [["question", "4"], ["answer", "4"]]


def test_without_room_nothing_is_kept() -> None:
    assert fitting_history(HISTORY, 50) == []
    assert fitting_history(HISTORY, -50) == []


def test_the_best_passage_always_stays() -> None:
    context = make_context("a" * 3000, "b" * 3000, "c" * 3000)
    assert len(fitting_passages(context, 10_000).results) == 3
    assert len(fitting_passages(context, 4_200).results) == 2
    assert [r.text[0] for r in fitting_passages(context, 10).results] == ["a"]
