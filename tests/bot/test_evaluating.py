"""`footnote eval` as an instructor runs it: a questions file in, figures and files out."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from bot.cli import DONE, FAILED
from tests.bot.conftest import Footnote

pytestmark = pytest.mark.usefixtures("use_course")

QUESTIONS: list[dict[str, Any]] = [
    {
        "id": "q1",
        "question": "How long is a dipole for the twenty metre band?",
        "gold": ["01-antennas.md"],
        "answerable": True,
        "answers": ["ten metres long"],
    },
    {
        "id": "q2",
        "question": "How do I call CQ?",
        "gold_file": "02-procedure.md",
        "answerable": True,
        "difficulty": "easy",
    },
    {
        "id": "q3",
        "question": "What is a signal report made of?",
        "gold": ["03-reports.md"],  # which the course does not have: a miss to show
        "answerable": True,
    },
    {"id": "q4", "question": "Who painted the Mona Lisa?", "answerable": False},
]


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    file = tmp_path / "questions.jsonl"
    file.write_text("".join(json.dumps(question) + "\n" for question in QUESTIONS))
    return file


def test_the_figures_are_printed_as_a_table(footnote: Footnote, questions: Path) -> None:
    code, output, _ = footnote("eval", str(questions))
    assert code == DONE
    for name in ("hit@1", "hit@5", "MRR", "answerable questions answered", "AUROC", "p95"):
        assert name in output


def test_the_figures_are_printed_as_json(footnote: Footnote, questions: Path) -> None:
    code, output, _ = footnote("eval", str(questions), "--json")
    summary = json.loads(output)
    assert code == DONE
    assert (summary["questions"], summary["with_gold"]) == (4, 3)
    share, low, high, cases = summary["hit_at"]["1"]
    assert (share, cases) == (pytest.approx(2 / 3), 3)
    assert low < share < high
    assert summary["refused"][0] == 1.0
    assert summary["answer_quoted"][0] == 1.0


def test_each_question_is_written_with_what_was_found(
    footnote: Footnote, questions: Path, tmp_path: Path
) -> None:
    results = tmp_path / "results.jsonl"
    code, _, _ = footnote("eval", str(questions), "--answers", "--out", str(results))
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    assert code == DONE
    assert [row["id"] for row in rows] == ["q1", "q2", "q3", "q4"]
    assert rows[0]["retrieved"][0]["source_file"] == "01-antennas.md"
    assert rows[1]["difficulty"] == "easy"
    assert [row["kind"] for row in rows] == ["answer", "answer", "answer", "refusal"]
    assert "ten metres" in rows[0]["answer"]
    assert rows[0]["citations"]


def test_the_report_is_one_page_that_loads_nothing(
    footnote: Footnote, questions: Path, tmp_path: Path
) -> None:
    report = tmp_path / "report.html"
    code, _, _ = footnote("eval", str(questions), "--report", str(report))
    page = report.read_text()
    assert code == DONE
    assert "Amateur Radio: questions.jsonl" in page
    assert "What is a signal report made of?" in page  # the miss, with what was retrieved instead
    assert "Expected: 03-reports.md" in page
    assert "listen again for an answer" in page
    assert not re.search(r'(?:src|href)="(?:https?:)?//', page)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "questions.jsonl holds no questions."),
        ("{not json}\n", "questions.jsonl, line 1: this is not valid JSON"),
        ('["a list"]\n', "line 1: a question is a JSON object."),
        ('{"question": "fine?"}\n{"question": "  "}\n', "line 2: question: the question is blank"),
        ('{"gold": ["x.md"]}\n', "line 1: question: Field required"),
    ],
)
def test_a_questions_file_that_is_wrong_is_named_with_its_line(
    footnote: Footnote, questions: Path, content: str, sentence: str
) -> None:
    questions.write_text(content)
    code, _, complaint = footnote("eval", str(questions))
    assert code == FAILED
    assert sentence in complaint


def test_a_missing_file_and_an_unknown_course(
    footnote: Footnote, questions: Path, tmp_path: Path
) -> None:
    code, _, complaint = footnote("eval", str(tmp_path / "none.jsonl"))
    assert code == FAILED
    assert "cannot be read" in complaint
    code, _, complaint = footnote("eval", str(questions), "--course", "chemistry")
    assert code == FAILED
    assert "radio" in complaint


def test_a_report_that_cannot_be_written_is_a_sentence(
    footnote: Footnote, questions: Path, tmp_path: Path
) -> None:
    code, _, complaint = footnote("eval", str(questions), "--report", str(tmp_path / "no" / "r"))
    assert code == FAILED
    assert "cannot be written" in complaint
