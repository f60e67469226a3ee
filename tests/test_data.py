"""The labelled claims and questions about the sample course are what measurements rest on."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bot.settings import SAMPLE_COURSE

DATA = Path(__file__).parent / "data"
SUPPORTED = {"verbatim", "paraphrase", "merged", "simplified", "code"}
UNSUPPORTED = {"number", "name", "term", "negation", "order", "outside", "detail", "flag"}
CLAIM_FIELDS = {
    *("id", "claim", "passage", "title", "breadcrumb", "question", "supported", "kind"),
}
QUESTION_FIELDS = {"id", "question", "answerable", "gold", "kind", "natural"}
FOLLOW_UP_FIELDS = QUESTION_FIELDS | {"history", "standalone"}


def records(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]


def spaced(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture(scope="module")
def lessons() -> dict[str, str]:
    """Every lesson's text by its path, with its white space normalised."""
    files = [path for path in SAMPLE_COURSE.rglob("*") if path.suffix in {".md", ".mdx"}]
    return {
        path.relative_to(SAMPLE_COURSE).as_posix(): spaced(path.read_text("utf-8"))
        for path in files
    }


@pytest.fixture(scope="module")
def claims() -> list[dict[str, Any]]:
    return records("claims.jsonl")


@pytest.fixture(scope="module")
def questions() -> list[dict[str, Any]]:
    return records("questions.jsonl")


def test_every_claim_is_complete_and_told_apart(claims: list[dict[str, Any]]) -> None:
    for claim in claims:
        assert set(claim) == CLAIM_FIELDS, claim
        texts = [claim[field] for field in CLAIM_FIELDS - {"supported"}]
        assert all(text and text == text.strip() for text in texts), claim
    assert len({claim["id"] for claim in claims}) == len(claims)
    assert len({(claim["claim"], claim["passage"]) for claim in claims}) == len(claims)


def test_a_claims_kind_says_whether_it_is_supported(claims: list[dict[str, Any]]) -> None:
    for claim in claims:
        assert claim["kind"] in (SUPPORTED if claim["supported"] else UNSUPPORTED), claim["id"]


def test_there_are_enough_claims_of_each_kind(claims: list[dict[str, Any]]) -> None:
    kinds = Counter(claim["kind"] for claim in claims)
    assert set(kinds) == SUPPORTED | UNSUPPORTED
    assert min(kinds.values()) >= 20, kinds
    assert len(claims) >= 240
    assert 0.45 <= sum(claim["supported"] for claim in claims) / len(claims) <= 0.55


def test_every_passage_stands_in_the_lesson_it_names(
    claims: list[dict[str, Any]], lessons: dict[str, str]
) -> None:
    pages = by_title(lessons)
    for claim in claims:
        assert spaced(claim["passage"]) in pages[claim["title"]], claim["id"]
    assert {claim["title"] for claim in claims} == set(pages)


def by_title(lessons: dict[str, str]) -> dict[str, str]:
    return {text.split('title: "', 1)[1].split('"', 1)[0]: text for text in lessons.values()}


def test_a_breadcrumb_is_the_page_and_the_headings_above(
    claims: list[dict[str, Any]], lessons: dict[str, str]
) -> None:
    pages = by_title(lessons)
    for claim in claims:
        page, *headings = claim["breadcrumb"].split(" > ")
        assert page == claim["title"]
        before = pages[page].partition(spaced(claim["passage"]))[0]
        places = [before.rfind(f"# {heading}") for heading in headings]
        assert headings, claim["id"]
        assert all(place >= 0 for place in places), claim["id"]
        assert places == sorted(places), claim["id"]


def test_a_verbatim_claim_is_copied_from_its_passage(claims: list[dict[str, Any]]) -> None:
    for claim in claims:
        copied = spaced(claim["claim"]) in spaced(claim["passage"])
        assert copied or claim["kind"] != "verbatim", claim["id"]
        assert not copied or claim["supported"], claim["id"]


def test_every_question_is_complete_and_told_apart(questions: list[dict[str, Any]]) -> None:
    for question in questions:
        follow_up = question["kind"] == "follow-up"
        assert set(question) == (FOLLOW_UP_FIELDS if follow_up else QUESTION_FIELDS), question
        assert question["question"].strip()
    assert len({question["id"] for question in questions}) == len(questions)
    standalone = {question.get("standalone", question["question"]) for question in questions}
    assert len(standalone) >= len(questions) - 1  # one is asked alone and as a follow-up


def test_the_history_of_a_follow_up_takes_turns(questions: list[dict[str, Any]]) -> None:
    follow_ups = [question for question in questions if question["kind"] == "follow-up"]
    assert len(follow_ups) == 15
    for question in follow_ups:
        roles = [turn["role"] for turn in question["history"]]
        assert roles == ["user", "assistant"] * (len(roles) // 2)
        assert roles
        assert all(turn["content"] for turn in question["history"])


def test_the_questions_are_balanced(questions: list[dict[str, Any]]) -> None:
    kinds = Counter(question["kind"] for question in questions)
    answerable = sum(question["answerable"] for question in questions)
    assert (answerable, kinds["off-topic"], kinds["not covered"]) == (100, 20, 20)
    assert all(kinds[kind] >= 10 for kind in ("definition", "how-to", "why", "comparison", "error"))


def test_gold_names_lessons_and_every_lesson_is_asked_about(
    questions: list[dict[str, Any]], lessons: dict[str, str]
) -> None:
    for question in questions:
        assert bool(question["gold"]) == question["answerable"], question["id"]
    asked = Counter(file for question in questions for file in question["gold"])
    assert set(asked) == set(lessons)
    assert min(asked.values()) >= 4, asked
