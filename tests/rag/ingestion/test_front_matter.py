from datetime import UTC, datetime

import pytest

from rag.ingestion.front_matter import (
    BadFrontMatter,
    FrontMatter,
    split_field_list,
    split_front_matter,
)

YAML = "---\ntitle: Nodes\nchapter: 3\n---\nText."
TOML = '+++\ntitle = "Nodes"\nchapter = 3\n+++\nText.'
JSON = '{\n  "title": "Nodes",\n  "chapter": 3\n}\n\nText.'
JSON_BETWEEN_MARKS = ';;;\n{"title": "Nodes", "chapter": 3}\n;;;\nText.'


@pytest.mark.parametrize("text", [YAML, TOML, JSON, JSON_BETWEEN_MARKS])
def test_every_kind_of_front_matter_is_read(text: str) -> None:
    front, body = split_front_matter(text)
    assert (front.title, front.chapter) == ("Nodes", 3)
    assert body.strip() == "Text."


@pytest.mark.parametrize(
    "field",
    [
        "tags: [a, {b: c}]",
        "date: 0000-99-99T",
        "sidebar_position: not a number",
        "description: !expr paste('a')",
        "authors:\n  - {name: Ada, age: .nan}",
        "slug: [1, 2]",
        "id: {a: b}",
        "title: [odd]",
        "1: 2\nnull: 3\ntrue: 4",
        "output: {html_document: {toc: true}}",
        "binary: !!binary aGVsbG8=",
    ],
)
def test_odd_values_in_fields_that_are_not_ours_never_fail_a_file(field: str) -> None:
    front, body = split_front_matter(f"---\n{field}\nlesson: 2\n---\nText.")
    assert front == FrontMatter(lesson=2)
    assert body == "Text."


@pytest.mark.parametrize(
    "text",
    [
        "Text.",
        "",
        "{not json}\n\nText.",
        '{"title": broken\n\nText.',
        "---\nA sentence between two rules\n---\nText.",
        "--- title: x",
        "+++ plus",
    ],
)
def test_what_only_looks_like_front_matter_is_text(text: str) -> None:
    assert split_front_matter(text) == (FrontMatter(), text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("---\ntitle: [\n---\n", "not valid YAML"),
        ("+++\ntitle = \n+++\n", "not valid TOML"),
        ("---\n- a\n---\n", "not a list of fields"),
        ('{"chapter": -1}\n', "chapter in its front matter is -1"),
        ("+++\nlayer = 'L9'\n+++\n", "layer in its front matter is 'L9'"),
    ],
)
def test_a_mistake_is_explained_in_one_sentence(text: str, reason: str) -> None:
    with pytest.raises(BadFrontMatter, match=reason) as failure:
        split_front_matter(text)
    assert "\n" not in str(failure.value)


def test_dates_of_toml_and_json_are_dates() -> None:
    expected = datetime(2026, 2, 1, tzinfo=UTC)
    for text in ("+++\navailable_from = 2026-02-01\n+++\n", '{"available_from": "2026-02-01"}\n'):
        front, _ = split_front_matter(text)
        assert front.available_from == expected


def test_yaml_may_end_with_three_dots() -> None:
    front, body = split_front_matter("---\ntitle: Nodes\n...\nText.")
    assert (front.title, body) == ("Nodes", "Text.")


@pytest.mark.parametrize(
    ("text", "front", "body"),
    [
        (":orphan:\n:lesson: 2\n\nTitle\n=====\n", FrontMatter(lesson=2), "\nTitle\n=====\n"),
        ("\n:chapter: 3\n", FrontMatter(chapter=3), ""),
        (":author: Ada\n:date: odd\n\nText", FrontMatter(), "\nText"),
        (":assessment: yes\n\nText", FrontMatter(assessment=True), "\nText"),
        ("Title\n=====\n\n:lesson: 2\n", FrontMatter(), "Title\n=====\n\n:lesson: 2\n"),
        ("---\nA: B\n---\n", FrontMatter(), "---\nA: B\n---\n"),
        (":doc:`x` begins a sentence.", FrontMatter(), ":doc:`x` begins a sentence."),
    ],
)
def test_restructured_text_has_a_field_list(text: str, front: FrontMatter, body: str) -> None:
    assert split_field_list(text) == (front, body)


def test_a_wrong_field_of_a_field_list_is_explained() -> None:
    with pytest.raises(BadFrontMatter, match="layer in its front matter is 'L9'"):
        split_field_list(":layer: L9\n\nText")
