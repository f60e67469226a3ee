"""The course that comes with the bot: the first thing anyone asks questions about."""

import re
from collections import Counter

import pytest

from bot.settings import SAMPLE_COURSE
from rag.ingestion.course import load_course
from rag.ingestion.loaders import Document, declared_numbers, read_document
from rag.ingestion.sources import find_sources

COURSE = load_course(SAMPLE_COURSE, None)
SOURCES = {source.source_file: source for source in find_sources(COURSE)}
FRONT_MATTER = {
    *("title", "description", "sidebar_position", "module", "chapter", "lesson"),
    *("hardware_tier", "proficiency_level", "layer"),
}
LESSON_NUMBERS = {
    (module, chapter, lesson)
    for chapter, module in enumerate(COURSE.modules, start=1)
    for lesson in range(1, 5)
}


def document(name: str) -> Document:
    return read_document(COURSE, SOURCES[name])


def source_text(name: str) -> str:
    return (SAMPLE_COURSE / name).read_text("utf-8")


def test_four_modules_have_four_lessons_each() -> None:
    numbers = [declared_numbers(COURSE, source) for source in SOURCES.values()]
    assert {(place.module, place.chapter, place.lesson) for place in numbers} == LESSON_NUMBERS
    assert len(numbers) == 16


@pytest.mark.parametrize("name", COURSE.files)
def test_a_lesson_declares_its_place_and_its_demands(name: str) -> None:
    head = source_text(name).split("---\n")[1]
    fields = dict(line.split(": ", 1) for line in head.splitlines())
    assert set(fields) == FRONT_MATTER
    assert fields["sidebar_position"] == fields["lesson"]
    assert name.startswith(f"0{fields['chapter']}-{fields['module']}/0{fields['lesson']}-")
    assert 1 <= document(name).hardware_tier <= 4
    assert document(name).proficiency_level in {"A2", "B1", "B2", "C1"}
    assert document(name).layer in {"L1", "L2", "L3", "L4"}


@pytest.mark.parametrize("name", COURSE.files)
def test_a_lesson_is_read_under_its_own_title_and_headings(name: str) -> None:
    lesson = document(name)
    assert f"\n# {lesson.title}\n" in source_text(name)
    assert lesson.chapter_declared
    headings = [section.path for section in lesson.sections]
    assert len(headings) >= 7
    assert len(set(headings)) == len(headings), "two sections share a heading path"
    assert headings[-1][0].startswith("Troubleshooting")


@pytest.mark.parametrize("name", COURSE.files)
def test_nothing_of_the_markup_is_left_in_what_students_read(name: str) -> None:
    blocks = [block.text for section in document(name).sections for block in section.blocks]
    prose = "\n".join(text for text in blocks if "```" not in text)
    assert ":::" not in prose
    assert "import Tabs" not in prose
    assert not re.search(r"</?Tab(s|Item)", prose)
    assert "flowchart" not in prose


@pytest.mark.parametrize("name", COURSE.files)
def test_a_lesson_has_the_length_of_one_sitting(name: str) -> None:
    prose = re.sub(r"```.*?```", "", source_text(name).split("---\n", 2)[2], flags=re.S)
    assert 600 <= len(prose.split()) <= 1200


@pytest.mark.parametrize("name", COURSE.files)
def test_code_fences_and_admonitions_are_closed(name: str) -> None:
    lines = source_text(name).splitlines()
    assert sum(line.startswith("```") for line in lines) % 2 == 0
    admonitions = [line for line in lines if line.startswith(":::")]
    assert [bool(line.strip(":")) for line in admonitions] == [True, False] * (
        len(admonitions) // 2
    )


def test_the_forms_a_real_course_uses_are_all_there() -> None:
    text = "\n".join(source_text(name) for name in COURSE.files)
    suffixes = Counter(name.rpartition(".")[2] for name in COURSE.files)
    assert suffixes["md"] >= 8
    assert suffixes["mdx"] >= 4
    for form in ("```python", "```bash", "```xml", "```yaml", "```mermaid", "<TabItem", "\n| "):
        assert text.count(form) >= 1, form
    assert text.count("\n**`") >= 20, "error messages with their remedy"
