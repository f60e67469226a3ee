import os
from pathlib import Path

import pytest

from rag.ingestion.includes import MAX_INCLUDED_BYTES, Includes, picked_lines, targets
from tests.rag.ingestion.test_course import write


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{#include ../a.rs:2:3}}\n{{#rustdoc_include b.rs}}", ["../a.rs", "b.rs"]),
        ("{{< include _part.qmd >}}", ["_part.qmd"]),
        (".. include:: x.rst\n  .. literalinclude:: y.py\n     :lines: 1", ["x.rst", "y.py"]),
        ("We include nothing.", []),
    ],
)
def test_what_a_page_asks_for(text: str, expected: list[str]) -> None:
    assert targets(text) == expected


@pytest.fixture
def course(tmp_path: Path) -> Path:
    write(tmp_path, {"secret.txt": "Secret"})
    root = write(
        tmp_path / "course",
        {
            "src/a.md": "",
            "code/x.rs": "x",
            "src/b.md": "{{#include ../code/x.rs}}{{#include no.md}}",
        },
    )
    (root / "code" / "large.rs").write_bytes(b"x" * (MAX_INCLUDED_BYTES + 1))
    (root / "code" / "binary.rs").write_bytes(b"\xff\xfe")
    os.symlink(tmp_path / "secret.txt", root / "code" / "linked.rs")
    os.symlink(root / "code" / "round.rs", root / "code" / "round.rs")
    return root


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("../code/x.rs", "x"),
        ("/code/x.rs", "x"),
        ("../code/missing.rs", None),
        ("../../secret.txt", None),
        ("../code/linked.rs", None),
        ("../code/round.rs", None),
        ("../code/large.rs", None),
        ("../code", None),
        ("../code/binary.rs", ""),
        ("\0", None),
    ],
)
def test_only_files_of_the_course_are_included(
    course: Path, target: str, expected: str | None
) -> None:
    assert Includes(course).read(course / "src" / "a.md", target) == expected


def test_files_behind_includes_are_found_too(course: Path) -> None:
    found, missing = Includes(course).look_up(course / "src" / "a.md", "{{#include b.md}}")
    assert found == [course / "src" / "b.md", course / "code" / "x.rs"]
    assert missing == ["no.md"]


def test_files_that_include_each_other_do_not_go_on_for_ever(course: Path) -> None:
    write(course, {"src/c.md": "{{#include d.md}}", "src/d.md": "{{#include c.md}}"})
    found, _ = Includes(course).look_up(course / "src" / "a.md", "{{#include c.md}}")
    assert 2 <= len(found) < 10


def test_marks_of_anchors_are_not_shown() -> None:
    text = "// ANCHOR: a\none\n// ANCHOR: b\ntwo\n// ANCHOR_END: b\n// ANCHOR_END: a\nthree"
    assert picked_lines(text, "") == "one\ntwo\nthree"
    assert picked_lines(text, "a") == "one\ntwo"
    assert picked_lines(text, "b") == "two"
    assert picked_lines(text, "c") == ""
