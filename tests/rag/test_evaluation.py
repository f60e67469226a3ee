"""Reading questions, the figures, and the page."""

import json
from pathlib import Path
from typing import Any

import pytest

from rag.errors import EvaluationError
from rag.evaluation import (
    Bin,
    EvaluationQuestion,
    Outcome,
    Rate,
    auroc,
    calibration_error,
    percentiles,
    read_questions,
    reliability,
    summarise,
)
from rag.evaluation_report import binned, page
from rag.types import AgentResponse, ConfidenceMetrics, SearchResult
from tests.factories import make_chunk


def outcome(
    files: list[str],
    gold: list[str],
    probability: float = 0.9,
    answerable: bool | None = True,
    response: AgentResponse | None = None,
    **extra: Any,
) -> Outcome:
    ranked = [
        SearchResult.of(
            make_chunk(f"Passage number {n}.", source_file=file), score=0.5, similarity=0.4, rank=n
        )
        for n, file in enumerate(files, 1)
    ]
    answers = probability >= 0.3
    metrics = ConfidenceMetrics(
        p_answerable=probability,
        policy="calibrated",
        confidence_level="high" if answers else "insufficient",
        should_answer=answers,
    )
    asked = EvaluationQuestion.model_validate(
        {"id": "q", "question": "Why?", "answerable": answerable, "gold": gold, **extra}
    )
    return Outcome(asked, ranked, metrics, retrieval_ms=2.0, response=response)


# --- The questions file ------------------------------------------------------------------------


def test_a_questions_file(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    history = [{"role": "user", "content": "What is a node?"}]
    lines = [
        {"id": "1", "question": "Why?", "gold": ["a.md"], "history": history, "lang": "en"},
        {"question": "Où est le nœud ?", "answerable": None},
    ]
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\n\n")
    first, second = read_questions(path)
    assert first.gold_files == {"a.md"}
    assert first.history is not None
    assert first.history[0].content == "What is a node?"
    assert (second.answerable, second.gold) == (None, [])


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ('{"question": "Why?"}\n{"question": ', "questions.jsonl, line 2: this is not valid JSON"),
        ('\n["Why?"]', "line 2: a question is a JSON object"),
        ('{"id": "1"}', "line 1: question: Field required"),
        ('{"question": " "}', "line 1: question: the question is blank"),
        ('{"question": "Why?", "gold": "a.md"}', "line 1: gold: Input should be a valid list"),
        ('{"question": "Why?", "history": [{"role": "x", "content": ""}]}', "history.0.role"),
        ("", "questions.jsonl holds no questions"),
        ("\n\n", "questions.jsonl holds no questions"),
    ],
)
def test_a_malformed_file_is_one_sentence(tmp_path: Path, content: str, sentence: str) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text(content)
    with pytest.raises(EvaluationError, match=sentence) as raised:
        read_questions(path)
    assert "\n" not in str(raised.value)


def test_a_missing_or_unreadable_file(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="cannot be read: No such file"):
        read_questions(tmp_path / "none.jsonl")
    binary = tmp_path / "binary.jsonl"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(EvaluationError, match="is not a UTF-8 text file"):
        read_questions(binary)


# --- One question ------------------------------------------------------------------------------


def test_a_hit_counts_distinct_files() -> None:
    found = outcome(["a", "a", "a", "b", "c", "d"], ["c"])
    assert found.first_hit == 3
    assert found.handed_hit
    assert not outcome(["a", "a", "a", "b", "e", "c"], ["c"]).handed_hit
    assert outcome(["a"], ["c"]).first_hit is None


def test_recall_and_quotes() -> None:
    found = outcome(["a", "b"], ["a", "z"], answers=["NUMBER 2"])
    assert found.recall == 0.5
    assert found.quotes_answer
    assert not outcome(["a"], ["a"], answers=["number 2"]).quotes_answer


def test_a_file_for_a_passage_id() -> None:
    assert outcome(["Normans.md"], ["Normans#p0"], gold_file="Normans.md").first_hit == 1


def test_a_line_repeats_the_input_and_adds_what_was_found() -> None:
    line = outcome(["a", "b"], ["a"], lang="en").as_line()
    assert {"id", "question", "answerable", "gold", "lang"} <= line.keys()
    assert "answer" not in line
    assert line["retrieved"][0].keys() == {
        "chunk_id",
        "source_file",
        "section_title",
        "score",
        "similarity",
    }
    assert (line["p_answerable"], line["confidence_level"]) == (0.9, "high")
    assert (line["should_answer"], line["retrieval_ms"]) == (True, 2.0)


def test_a_line_with_an_answer() -> None:
    response = AgentResponse(content="Because.", kind="chat", total_time_ms=12.0)
    line = outcome(["a"], ["a"], response=response).as_line()
    assert (line["answer"], line["kind"], line["citations"]) == ("Because.", "chat", [])
    assert line["total_ms"] == 12.0


# --- All questions -----------------------------------------------------------------------------


def test_the_summary() -> None:
    summary = summarise(
        [
            outcome(["a", "b"], ["a"], 0.9),
            outcome(["a", "b"], ["b"], 0.2),
            outcome(["a"], [], 0.1, answerable=False),
            outcome(["a"], [], 0.5, answerable=None),
        ]
    )
    assert (summary.questions, summary.with_gold) == (4, 2)
    assert summary.hit_at[1] is not None
    assert summary.hit_at[1].share == 0.5
    assert summary.mrr == 0.75
    assert summary.answered is not None
    assert summary.refused is not None
    assert (summary.answered.share, summary.refused.share) == (0.5, 1.0)
    assert (summary.auroc, summary.balanced_accuracy) == (1.0, 0.75)
    assert summary.latency_ms == {"p50": 2.0, "p95": 2.0, "p99": 2.0}


def test_a_file_without_labels_has_only_latency() -> None:
    summary = summarise([outcome(["a"], [], answerable=None)])
    assert summary.hit_at[1] is None
    assert summary.mrr is None
    assert summary.auroc is None
    assert summary.balanced_accuracy is None


@pytest.mark.parametrize(
    ("positive", "negative", "expected"),
    [
        ([0.9], [0.1], 1.0),
        ([0.1], [0.9], 0.0),
        ([0.5], [0.5], 0.5),
        ([0.9, 0.4], [0.6, 0.1], 0.75),
        ([0.5, 0.5], [0.5, 0.1], 0.75),
        ([], [0.1], None),
    ],
)
def test_auroc(positive: list[float], negative: list[float], expected: float | None) -> None:
    assert auroc(positive, negative) == expected


def test_reliability_and_its_error() -> None:
    curve = reliability([(0.95, True), (0.97, False), (0.05, False), (1.0, True)])
    assert [group.cases for group in curve] == [1, 3]
    assert calibration_error([Bin(0.2, 0.2, 5), Bin(0.8, 0.6, 5)]) == pytest.approx(0.1)
    assert calibration_error([]) == 0.0


def test_a_rate_has_its_interval() -> None:
    rate = Rate.of([True] * 95 + [False] * 5)
    assert rate is not None
    assert (round(rate.low, 3), rate.share, round(rate.high, 3)) == (0.888, 0.95, 0.978)
    assert Rate.of([]) is None


def test_percentiles() -> None:
    assert percentiles([]) == {}
    assert percentiles([3.0]) == {"p50": 3.0, "p95": 3.0, "p99": 3.0}
    assert percentiles([float(n) for n in range(101)]) == {"p50": 50.0, "p95": 95.0, "p99": 99.0}


# --- The page ------------------------------------------------------------------------------------


def test_the_page_shows_chapters_and_misses_and_escapes_them() -> None:
    outcomes = [
        outcome(["a"], ["a"]),
        outcome(["a"], ["b"]),
        outcome(["a"], [], 0.8, answerable=False),
        outcome(["a"], ["a"], 0.1),
    ]
    html = page("Robots <1>", outcomes, summarise(outcomes), {"a": "ROS & 2", "b": "Gazebo"})
    assert "Robots &lt;1&gt;" in html
    assert html.index("Gazebo") < html.index("ROS &amp; 2")  # the weakest chapter first
    assert "Not found (1)" in html
    assert "Refused though answerable (1)" in html
    assert "Answered though unanswerable (1)" in html
    assert "http" not in html  # nothing is loaded from elsewhere


def test_a_page_of_unlabelled_questions() -> None:
    outcomes = [outcome(["a"], [], answerable=None)]
    assert "By chapter" not in page("Robots", outcomes, summarise(outcomes), {})


def test_every_question_falls_into_one_bin() -> None:
    assert sum(binned([0.0, 0.5, 0.999, 1.0])) == 4
