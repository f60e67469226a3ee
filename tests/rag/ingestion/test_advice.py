from pathlib import Path

import pytest

from rag.ingestion.advice import advice, exam_pattern
from rag.ingestion.course import load_course
from rag.ingestion.sources import find_sources
from tests.rag.ingestion.test_course import write


@pytest.mark.parametrize(
    ("file", "pattern"),
    [
        ("docs/module-1/quiz.md", "**/quiz.md"),
        ("docs/capstone-quiz.md", "**/capstone-quiz.md"),
        ("quizzes/one.md", "**/quizzes/**"),
        ("1-a/solution/README.md", "**/solution/**"),
        ("midterm_answers.rst", "**/midterm_answers.rst"),
        ("Answer-Key.ipynb", "**/Answer-Key.ipynb"),
        ("01-quizzical-robots.md", None),
        ("assignment.md", None),
        ("unanswered-questions.md", None),
    ],
)
def test_quizzes_and_answer_keys_are_known_by_their_name(file: str, pattern: str | None) -> None:
    assert exam_pattern(file) == pattern


def sentences(root: Path) -> list[str]:
    return advice(find_sources(load_course(root, "c")))


def test_the_suggested_line_works(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "A", "b/quiz.md": "B", "answers/c.md": "C"})
    [sentence] = sentences(tmp_path)
    assert sentence.startswith("answers/c.md, b/quiz.md look like quizzes or answer keys")
    line = sentence[sentence.index("exclude = ") :]
    assert line == 'exclude = ["**/answers/**", "**/quiz.md"]'
    write(tmp_path, {"course.toml": line})
    assert sentences(tmp_path) == []


def test_copies_are_named(tmp_path: Path) -> None:
    names = [f"translations/{n}.md" for n in range(5)]
    write(tmp_path, {"a.md": "Text", **dict.fromkeys(names, "Text")})
    assert sentences(tmp_path) == [
        "translations/0.md, translations/1.md, translations/2.md and 2 more have the same text as "
        "another file, kept once."
    ]


def test_missing_includes_are_named(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "{{#include ../code/x.rs}}", "b.md": "Text"})
    assert sentences(tmp_path) == [
        "a.md includes files that are not in the course folder (such as ../code/x.rs), whose text "
        "is therefore missing."
    ]


def test_a_plain_course_needs_no_advice(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "A", "passages.jsonl": '{"id": "quiz", "text": "Text"}'})
    assert sentences(tmp_path) == []
