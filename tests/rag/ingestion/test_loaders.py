import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rag.ingestion.course import load_course
from rag.ingestion.hierarchy import Numbers
from rag.ingestion.loaders import Document, declared_numbers, read_document
from rag.ingestion.sources import Source, UnreadableDocument, find_sources
from tests.rag.ingestion.test_course import SAMPLE, write


def read(root: Path, file: str) -> Document:
    course = load_course(root, "c")
    return read_document(course, source(root, file))


def source(root: Path, file: str) -> Source:
    found = {entry.source_file: entry for entry in find_sources(load_course(root, "c"))}
    return found[file]


def numbers(root: Path, file: str) -> Numbers:
    return declared_numbers(load_course(root, "c"), source(root, file))


def test_a_page_of_the_sample_course() -> None:
    page = read(SAMPLE, "02-gazebo/02-sensors-physics-bridge.mdx")
    assert page.title == "Sensors, Physics and the ROS 2 Bridge in Gazebo"
    assert page.chapter_title == "Simulation with Gazebo"
    assert page.chapter_declared
    assert (page.hardware_tier, page.proficiency_level, page.layer) == (2, "B2", "L2")
    assert page.sections[0].path == ()
    assert "import Tabs" not in page.sections[0].blocks[0].text
    assert page.url == "/read/c/02-gazebo/02-sensors-physics-bridge.mdx"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("---\ntitle: Front\n---\n# Heading", "Front"),
        ("---\ntitle: 2024\n---\nText", "2024"),
        ("---\nother: x\n---\n# Heading", "Heading"),
        ("---\n---\n# Heading", "Heading"),
        ("\ufeff# Heading", "Heading"),
        ("Text", "My page"),
        ("---\ntitle:\n---\nText", "My page"),
        ("", "My page"),
        ("---\r\ntitle: Front\r\n---\r\nText", "Front"),
    ],
)
def test_titles(tmp_path: Path, text: str, title: str) -> None:
    (tmp_path / "01-my-page.md").write_bytes(text.encode())
    assert read(tmp_path, "01-my-page.md").title == title


@pytest.mark.parametrize(
    ("text", "sections"),
    [
        ("---\ntitle: Arms\n---\n## Overview\n\nText.\n\n## Parts\n\nText.", ["Overview", "Parts"]),
        ("---\ntitle: Arms\n---\n# All arms\n\nText.\n\n## Parts\n\nText.", [None, "Parts"]),
        ("---\ntitle: Arms\n---\n# Overview\n\nText.\n\n# Parts\n\nText.", ["Overview", "Parts"]),
        ("# Arms\n\nText.\n\n# Parts\n\nText.", [None, "Parts"]),
        ("## Arms\n\nText.\n\n## Parts\n\nText.", [None, "Parts"]),
    ],
)
def test_a_heading_is_a_section_unless_it_names_the_page(
    tmp_path: Path, text: str, sections: list[str | None]
) -> None:
    page = read(write(tmp_path, {"arms.md": text}), "arms.md")
    assert [section.path[-1] if section.path else None for section in page.sections] == sections


@pytest.mark.parametrize(
    ("front", "expected"),
    [
        ("", Numbers(None, 1, 2, True, "01-ros2")),
        ("module: vla", Numbers("vla", 1, 2, True, "01-ros2")),
        ("chapter: 5\nlesson: '7'", Numbers(None, 5, 7, True, "01-ros2")),
        ("lesson: 0", Numbers(None, 1, 0, True, "01-ros2")),
    ],
)
def test_front_matter_wins_over_path_numbers(tmp_path: Path, front: str, expected: Numbers) -> None:
    write(tmp_path, {"01-ros2/02-x.md": f"---\n{front}\n---\nText"})
    assert numbers(tmp_path, "01-ros2/02-x.md") == expected


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"01-arms/x.md": "---\nchapter_title: Front\n---\n"}, "Front"),
        ({"01-arms/x.md": "", "01-arms/_category_.json": '{"label": "Sidebar"}'}, "Sidebar"),
        ({"01-arms/x.md": "", "course.toml": '[chapters]\n1 = "Toml"'}, "Toml"),
        ({"01-arms/x.md": "# Page"}, "Arms"),
        ({"docs/x.md": "# Page"}, "Page"),
        ({"x.md": "# Page"}, "Page"),
    ],
)
def test_chapter_titles(tmp_path: Path, files: dict[str, str], expected: str) -> None:
    write(tmp_path, files)
    assert read(tmp_path, next(iter(files))).chapter_title == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("2026-02-01", datetime(2026, 2, 1, tzinfo=UTC)),
        ("2026-02-01T08:00:00+02:00", datetime(2026, 2, 1, 6, tzinfo=UTC)),
        ("2026-02-01T08:00:00", datetime(2026, 2, 1, 8, tzinfo=UTC)),
        ("'2026-02-01 08:00'", datetime(2026, 2, 1, 8, tzinfo=UTC)),
    ],
)
def test_release_dates(tmp_path: Path, written: str, expected: datetime) -> None:
    write(tmp_path, {"x.md": f"---\navailable_from: {written}\nassessment: true\n---\nText"})
    page = read(tmp_path, "x.md")
    assert page.available_from == expected
    assert page.assessment


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("---\ntitle: [\n---\n", "front matter is not valid YAML"),
        ("---\n- a\n---\n", "front matter is not a list of fields"),
        ("---\nhardware_tier: 9\n---\n", "hardware_tier in its front matter is 9"),
        ("---\nproficiency_level: D1\n---\n", "proficiency_level in its front matter is 'D1'"),
        ("---\nlayer: L9\n---\n", "layer in its front matter is 'L9'"),
        ("---\nchapter: -1\n---\n", "chapter in its front matter is -1"),
        ("---\nchapter: one\n---\n", "chapter in its front matter is 'one'"),
        ("---\navailable_from: soon\n---\n", "available_from in its front matter is 'soon'"),
        ("---\navailable_from: 2026-13-45\n---\n", "front matter is not valid YAML|is '2026-13"),
        ("---\nmodule: vla\n---\n", "its module is 'vla', but the course has only ros2"),
        ("\udcff", "not UTF-8"),
    ],
)
def test_a_page_that_cannot_be_read_says_why_in_one_sentence(
    tmp_path: Path, text: str, reason: str
) -> None:
    write(tmp_path, {"course.toml": "[modules]\nros2 = 'ROS 2'"})
    (tmp_path / "x.md").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UnreadableDocument, match=reason) as failure:
        read(tmp_path, "x.md")
    assert "\n" not in str(failure.value)


def test_case_and_quotes_of_values_do_not_matter(tmp_path: Path) -> None:
    front = "proficiency_level: b1\nlayer: l3\nhardware_tier: '3'"
    write(tmp_path, {"x.md": f"---\n{front}\n---\nText"})
    page = read(tmp_path, "x.md")
    assert (page.proficiency_level, page.layer, page.hardware_tier) == ("B1", "L3", 3)


def test_the_site_address_honours_slug_and_id(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "course.toml": 'base_url = "https://example.org/docs"',
            "01-a/02-x.md": "---\nslug: /start\n---\nText",
            "01-a/03-y.md": "---\nid: why\n---\nText",
        },
    )
    assert read(tmp_path, "01-a/02-x.md").url == "https://example.org/docs/start"
    assert read(tmp_path, "01-a/03-y.md").url == "https://example.org/docs/a/why"


def test_passages_are_documents_of_their_own(tmp_path: Path) -> None:
    lines = [
        '{"id": "n#1", "title": "Normans", "text": "They came from the north."}',
        "",
        '{"id": 7, "title": "", "url": "https://x.org/p", "text": "# A\\n\\nbad \\ud800 half"}',
        "{broken",
        '{"id": "no-text"}',
    ]
    write(tmp_path, {"passages.jsonl": "\n".join(lines)})
    first = read(tmp_path, "n#1")
    assert (first.title, first.chapter_title) == ("Normans", "Normans")
    assert first.url == "/read/c/n%231"
    second = read(tmp_path, "7")
    assert (second.title, second.url) == ("7", "https://x.org/p")
    assert second.sections[0].anchors == ("",)
    assert second.sections[0].blocks[0].text == "bad ? half"
    assert source(tmp_path, "passages.jsonl:4").problem == "its line is not valid JSON"
    assert source(tmp_path, "passages.jsonl:5").problem == "its line has no text"


def test_a_repeated_passage_id_is_reported_once(tmp_path: Path) -> None:
    line = '{"id": "a", "text": "Some text."}\n'
    write(tmp_path, {"corpus.jsonl": line, "passages.jsonl": line})
    found = find_sources(load_course(tmp_path, "c"))
    assert [entry.problem for entry in found] == ["two documents are called a"]


def test_links_out_of_the_folder_are_refused(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside", {"secret.md": "Secret", "more/a.md": "Secret"})
    course = write(tmp_path / "course", {"a.md": "Text"})
    os.symlink(outside / "secret.md", course / "linked.md")
    os.symlink(outside / "more", course / "folder")
    os.symlink(course / "a.md", course / "inside.md")
    os.symlink(course / "nothing.md", course / "broken.md")
    problems = {s.source_file: s.problem for s in find_sources(load_course(course, "c"))}
    assert problems == {
        "a.md": None,
        "broken.md": "it is a link to a file that does not exist",
        "folder": "it is a link to something outside the course folder",
        "inside.md": None,
        "linked.md": "it is a link to something outside the course folder",
    }
    with pytest.raises(UnreadableDocument, match="outside"):
        read(course, "linked.md")


NOTEBOOK = """{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [
  {"cell_type": "markdown", "metadata": {}, "source": "# Page\\nOpening.\\n## Part\\nMore."},
  {"cell_type": "code", "metadata": {}, "source": "x = 1", "outputs": [], "execution_count": 1}]}"""


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("page.md", "# Page\n\nOpening.\n\n## Part\n\nMore.\n\n```python\nx = 1\n```\n"),
        ("page.mdx", "# Page\n\nOpening.\n\n<h2>Part</h2>\n\nMore.\n\n```python\nx = 1\n```\n"),
        ("page.Rmd", "# Page\n\nOpening.\n\n## Part\n\nMore.\n\n```{python, echo=F}\nx = 1\n```\n"),
        (
            "page.qmd",
            "# Page\n\nOpening.\n\n## Part\n\nMore.\n\n```{python}\n#| echo: no\nx = 1\n```",
        ),
        (
            "page.rst",
            "Page\n====\n\nOpening.\n\nPart\n----\n\nMore.\n\n.. code:: python\n\n   x = 1\n",
        ),
        ("page.ipynb", NOTEBOOK),
    ],
)
def test_every_format_is_read_into_the_same_shape(tmp_path: Path, file: str, text: str) -> None:
    write(tmp_path, {file: text})
    page = read(tmp_path, file)
    assert page.title == "Page"
    assert [(section.path, section.anchors) for section in page.sections] == [
        ((), ()),
        (("Part",), ("part",)),
    ]
    texts = [[block.text for block in section.blocks] for section in page.sections]
    assert texts == [["Opening."], ["More.", "```python\nx = 1\n```"]]


@pytest.mark.parametrize(
    ("files", "page", "url"),
    [
        ({"src/SUMMARY.md": "", "src/a/README.md": "Text"}, "src/a/README.md", "a/index.html"),
        ({"source/index.rst": "", "source/a.rst": "Text"}, "source/a.rst", "a.html"),
        ({"docs/01-a.md": "Text"}, "docs/01-a.md", "docs/a"),
        (
            {"website/docusaurus.config.ts": "", "website/docs/01-a.md": "Text"},
            "website/docs/01-a.md",
            "docs/a",
        ),
    ],
)
def test_links_follow_the_generator_that_the_folder_shows(
    tmp_path: Path, files: dict[str, str], page: str, url: str
) -> None:
    write(tmp_path, files | {"course.toml": 'base_url = "https://example.org/book/"'})
    assert read(tmp_path, page).url == f"https://example.org/book/{url}"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"src/a.md": "", "src/SUMMARY.md": "- [B](b.md)\n- [A](a.md)"}, ("A", 2)),
        ({"src/ch04-a.md": "", "src/SUMMARY.md": "- [A](ch04-a.md)"}, ("A", 4)),
        ({"x/a.md": "---\nchapter: 9\n---\n", "SUMMARY.md": "- [A](x/a.md)"}, ("A", 9)),
        (
            {"ch1/a.mdx": "", "_toctree.yml": "- title: 1. Start\n  sections: [{local: ch1/a}]"},
            ("Start", 1),
        ),
        ({"a/x.md": "", "a/README.md": "# Arms"}, ("Arms", None)),
    ],
)
def test_chapters_of_the_table_of_contents(
    tmp_path: Path, files: dict[str, str], expected: tuple[str, int | None]
) -> None:
    write(tmp_path, files)
    file = next(iter(files))
    found = numbers(tmp_path, file)
    assert (read(tmp_path, file).chapter_title, found.chapter) == expected


def test_a_page_without_a_title_is_called_as_the_contents_call_it(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "Text", "SUMMARY.md": "- [All about arms](a.md)"})
    assert read(tmp_path, "a.md").title == "All about arms"


def test_a_long_page_without_any_heading_is_read(tmp_path: Path) -> None:
    write(tmp_path, {"notes.md": "One sentence of many.\n\n" * 4000})
    page = read(tmp_path, "notes.md")
    assert page.title == "Notes"
    assert [(section.path, len(section.blocks)) for section in page.sections] == [((), 4000)]


def test_rust_that_mdbook_hides_is_hidden_there_only(tmp_path: Path) -> None:
    page = "# Rust\n\n```rust\n# fn main() {\ngo();\n# }\n```\n"
    write(tmp_path / "book", {"SUMMARY.md": "- [Rust](rust.md)", "rust.md": page})
    write(tmp_path / "site", {"rust.md": page})
    shown, whole = (read(tmp_path / name, "rust.md").sections[0] for name in ("book", "site"))
    assert shown.blocks[0].text == "```rust\ngo();\n```"
    assert "fn main" in whole.blocks[0].text
