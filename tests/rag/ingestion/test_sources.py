import os
from pathlib import Path

import pytest

from rag.errors import CourseError
from rag.ingestion.boilerplate import FEWEST_FILES
from rag.ingestion.course import load_course, unreadable_folder
from rag.ingestion.loaders import read_document
from rag.ingestion.sources import (
    MAX_FILE_BYTES,
    Source,
    UnreadableDocument,
    find_sources,
    page_text,
)
from tests.rag.ingestion.test_course import write

FOOTER = "Licensed under CC BY 4.0, see the licence."


def sources(root: Path) -> dict[str, Source]:
    return {source.source_file: source for source in find_sources(load_course(root, "c"))}


def stored_text(root: Path, file: str) -> str:
    document = read_document(load_course(root, "c"), sources(root)[file])
    return "\n".join(block.text for section in document.sections for block in section.blocks)


def test_files_that_cannot_be_read_are_named_with_the_reason(tmp_path: Path) -> None:
    write(tmp_path, {"good.md": "Text", "bad.ipynb": "{"})
    (tmp_path / "binary.md").write_bytes(b"\x7fELF\x00\x01\x02")
    (tmp_path / "latin.rst").write_bytes("Über".encode("latin-1"))
    (tmp_path / "wide.md").write_bytes("Text".encode("utf-16"))
    os.mkfifo(tmp_path / "pipe.md")
    os.symlink("round.md", tmp_path / "round.md")
    os.symlink(".", tmp_path / "itself")
    with (tmp_path / "huge.md").open("wb") as file:
        file.truncate(100_000_000)
    assert {name: source.problem for name, source in sources(tmp_path).items()} == {
        "bad.ipynb": "it is not a valid notebook",
        "binary.md": "it is not a text file",
        "good.md": None,
        "huge.md": "it is too large: 100 MB, and the limit is 20 MB",
        "latin.rst": "it is not UTF-8 text",
        "pipe.md": "it is not a file",
        "round.md": "it is a link that leads back to itself",
        "wide.md": "it is not a text file",
    }


def test_a_linked_folder_that_leads_outside_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "outside", {"secret.md": "Secret"})
    course = write(tmp_path / "course", {"a.md": "Text"})
    os.symlink(tmp_path / "outside", course / "more")
    found = sources(course)
    assert found["more"].problem == "it is a link to something outside the course folder"
    assert set(found) == {"a.md", "more"}


@pytest.mark.parametrize("kept", ["a.md", "lessons/a.md"])
def test_a_copy_is_kept_once_where_it_lies_least_deep(tmp_path: Path, kept: str) -> None:
    copy = f"i18n/fr/{kept}"
    write(tmp_path, {kept: "---\ntitle: A\n---\n# A\n\nSome text.", copy: "# A\n\nSome  text.\n"})
    assert sources(tmp_path)[copy].same_as == kept
    assert stored_text(tmp_path, kept) == "Some text."
    assert stored_text(tmp_path, copy) == ""


def test_a_copy_takes_over_from_an_original_that_cannot_be_read(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "---\ntitle: [A\n---\nSome text.", "b/a.md": "Some text."})
    assert sources(tmp_path)["b/a.md"].same_as is None
    assert stored_text(tmp_path, "b/a.md") == "Some text."


def test_a_copy_takes_over_when_the_original_goes(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "Some text.", "b/a.md": "Some text."})
    before = sources(tmp_path)["b/a.md"]
    (tmp_path / "a.md").unlink()
    after = sources(tmp_path)["b/a.md"]
    assert before.state_hash != after.state_hash
    assert stored_text(tmp_path, "b/a.md") == "Some text."


def test_empty_pages_are_no_copies_of_each_other(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "", "b.md": "\n", "c.md": "---\ntitle: C\n---\n"})
    assert [source.same_as for source in sources(tmp_path).values()] == [None] * 3


def test_footers_are_left_out_of_all_files_but_the_first(tmp_path: Path) -> None:
    files = {f"{n}.md": f"Page {n} says more.\n\n{FOOTER}\n" for n in range(FEWEST_FILES)}
    write(tmp_path, files)
    assert FOOTER in stored_text(tmp_path, "0.md")
    assert stored_text(tmp_path, "3.md") == "Page 3 says more."


def test_a_footer_that_becomes_common_changes_the_files_that_have_it(tmp_path: Path) -> None:
    few = FEWEST_FILES // 2 - 1
    write(tmp_path, {f"{n}.md": f"Page {n} says more.\n\n{FOOTER}\n" for n in range(few)})
    write(tmp_path, {f"x{n}.md": f"Other page {n}." for n in range(FEWEST_FILES)})
    before = sources(tmp_path)
    write(tmp_path, {f"y{n}.md": f"New page {n}.\n\n{FOOTER}\n" for n in range(FEWEST_FILES)})
    after = sources(tmp_path)
    changed = {name for name in before if before[name].state_hash != after[name].state_hash}
    assert changed == {f"{n}.md" for n in range(1, few)}


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("page.md", "{{#include code/x.rs}}"),
        ("page.qmd", "{{< include code/x.rs >}}"),
        ("page.rst", ".. literalinclude:: code/x.rs"),
    ],
)
def test_a_page_changes_with_what_it_includes(tmp_path: Path, page: str, text: str) -> None:
    write(tmp_path, {page: text, "code/x.rs": "one"})
    before = sources(tmp_path)[page]
    write(tmp_path, {"code/x.rs": "two"})
    assert sources(tmp_path)[page].state_hash != before.state_hash
    assert sources(tmp_path)[page].file_hash == before.file_hash
    assert "two" in stored_text(tmp_path, page)


def test_a_page_changes_with_its_place_in_the_contents(tmp_path: Path) -> None:
    write(tmp_path, {"src/a.md": "A", "src/b.md": "B", "src/SUMMARY.md": "- [A](a.md)"})
    before = sources(tmp_path)
    write(tmp_path, {"src/SUMMARY.md": "- [A](a.md)\n- [B](b.md)"})
    after = sources(tmp_path)
    assert before["src/a.md"].state_hash == after["src/a.md"].state_hash
    assert before["src/b.md"].state_hash != after["src/b.md"].state_hash


def test_a_folder_that_cannot_be_looked_into_stops_the_run() -> None:
    # Its lessons would otherwise be taken for deleted.
    with pytest.raises(CourseError, match=r"The folder /x cannot be read: Permission denied\."):
        unreadable_folder(PermissionError(13, "Permission denied", "/x"))


def test_old_line_ends_are_understood() -> None:
    assert page_text(b"\xef\xbb\xbfone\r\ntwo\rthree", "a.md") == "one\ntwo\nthree"


def test_a_line_of_passages_may_be_as_long_as_a_file(tmp_path: Path) -> None:
    (tmp_path / "passages.jsonl").write_bytes(b'{"id": "' + b"x" * (MAX_FILE_BYTES + 10) + b'"}\n')
    problems = [source.problem for source in sources(tmp_path).values()]
    assert problems == ["its line is not valid JSON"] * 2


def test_a_page_that_vanishes_is_reported(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "Text"})
    source = sources(tmp_path)["a.md"]
    (tmp_path / "a.md").unlink()
    with pytest.raises(UnreadableDocument, match="it cannot be read: No such file"):
        read_document(load_course(write(tmp_path, {"b.md": "Text"}), "c"), source)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "its line is not valid JSON"),
        ("[1]", "its line is not a JSON object"),
        ('{"id": "a"}', "its line has no text"),
    ],
)
def test_a_wrong_line_of_passages_says_why(tmp_path: Path, line: str, problem: str) -> None:
    write(tmp_path, {"corpus.jsonl": line})
    assert sources(tmp_path)["corpus.jsonl:1"].problem == problem
