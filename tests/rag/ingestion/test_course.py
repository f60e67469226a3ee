from pathlib import Path

import pytest

from rag.errors import CourseError
from rag.ingestion.course import load_course

SAMPLE = Path(__file__).parents[3] / "courses" / "physical-ai-robotics"


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return root


def test_the_sample_course_is_described_by_its_toml() -> None:
    course = load_course(SAMPLE, None)
    assert (course.id, course.title) == ("physical-ai-robotics", "Physical AI & Humanoid Robotics")
    assert list(course.modules) == ["ros2", "gazebo", "isaac", "vla"]
    assert course.chapters[3] == "NVIDIA Isaac"
    assert course.contents.labels["01-ros2"] == "Robot Operating System 2"
    assert course.files[0] == "01-ros2/01-nodes-topics-services.md"
    assert len(course.files) == 16
    assert course.whole


def test_without_toml_the_folder_names_the_course(tmp_path: Path) -> None:
    course = load_course(write(tmp_path / "Intro to Robots", {"a.md": "Text"}), None)
    assert (course.id, course.title) == ("intro-to-robots", "Intro to Robots")


def test_a_given_id_wins(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "Text", "course.toml": 'id = "own"'})
    assert load_course(tmp_path, None).id == "own"
    assert load_course(tmp_path, "given").id == "given"


@pytest.mark.parametrize(
    ("files", "settings", "expected"),
    [
        (["b.md", "a/x.mdx", "c.txt"], "", ["a/x.mdx", "b.md"]),
        (["a.md", "questions.jsonl", "questions_2.jsonl"], "", ["a.md"]),
        (["corpus.jsonl", "passages.jsonl", "other.jsonl"], "", ["corpus.jsonl", "passages.jsonl"]),
        (["a.md", "SUMMARY.md", "_part.md", "_x/b.md", ".git/c.md"], "", ["a.md"]),
        (["a.md", "node_modules/b.md"], "", ["a.md"]),
        (["a.md", "b/c.md"], 'include = ["b/*.md"]', ["b/c.md"]),
        (["a.md", "x/translations/b.md"], 'exclude = ["**/translations/**"]', ["a.md"]),
        (["a.md", "translations/b.md"], 'exclude = ["**/translations/*"]', ["a.md"]),
    ],
)
def test_lessons_are_found_in_path_order(
    tmp_path: Path, files: list[str], settings: str, expected: list[str]
) -> None:
    write(tmp_path, {name: "Text" for name in files} | {"course.toml": settings})
    assert list(load_course(tmp_path, "c").files) == expected


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("id = ", "not valid TOML"),
        ("colour = 'red'", "wrong at colour: there is no such setting"),
        ("url_style = 'jekyll'", "wrong at url_style"),
        ("base_url = 'example.org'", "wrong at base_url: it must begin with https://"),
        ("[chapters]\none = 'One'", "wrong at chapters"),
        ("id = 'a b'", "cannot be a course id"),
    ],
)
def test_a_wrong_toml_is_one_clear_sentence(tmp_path: Path, toml: str, message: str) -> None:
    write(tmp_path, {"a.md": "Text", "course.toml": toml})
    with pytest.raises(CourseError, match=message) as failure:
        load_course(tmp_path, None)
    assert "\n" not in str(failure.value)


def test_a_missing_or_empty_folder_is_one_clear_sentence(tmp_path: Path) -> None:
    with pytest.raises(CourseError, match="There is no course at"):
        load_course(tmp_path / "nowhere", None)
    with pytest.raises(CourseError, match="There are no lessons"):
        load_course(tmp_path, None)
    write(tmp_path, {"notes.txt": "Text"})
    with pytest.raises(CourseError, match="There are no lessons"):
        load_course(tmp_path / "notes.txt", None)


def test_one_file_is_a_course_that_leaves_the_others_alone(tmp_path: Path) -> None:
    write(tmp_path, {"loops.md": "Text", "other.md": "Text", "corpus.jsonl": "{}"})
    course = load_course(tmp_path / "loops.md", None)
    assert (course.id, course.files, course.whole) == ("loops", ("loops.md",), False)
    assert load_course(tmp_path / "corpus.jsonl", "c").whole


def test_the_fingerprint_follows_what_shapes_the_files_of_a_folder(tmp_path: Path) -> None:
    write(tmp_path, {"a/x.md": "Text", "b/y.md": "Text"})
    plain = load_course(tmp_path, "c")
    write(tmp_path, {"a/_category_.json": '{"label": "Arms"}'})
    labelled = load_course(tmp_path, "c")
    assert plain.fingerprint("a/x.md") != labelled.fingerprint("a/x.md")
    assert plain.fingerprint("b/y.md") == labelled.fingerprint("b/y.md")
    write(tmp_path, {"course.toml": 'base_url = "https://example.org"'})
    assert load_course(tmp_path, "c").fingerprint("b/y.md") != plain.fingerprint("b/y.md")


def test_a_broken_category_file_is_ignored(tmp_path: Path) -> None:
    write(tmp_path, {"a/x.md": "Text", "a/_category_.json": "{", "b/_category_.json": "[]"})
    assert load_course(tmp_path, "c").contents.labels == {}
