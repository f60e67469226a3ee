import pytest

from rag.ingestion.hierarchy import Numbers, Place, assign, numbers_in_path, page_name, readable


@pytest.mark.parametrize(
    ("path", "chapter", "lesson", "declared"),
    [
        ("01-ros2/02-x.md", 1, 2, True),
        ("01-ros2/README.md", 1, 0, True),
        ("01-ros2/notes.md", 1, None, True),
        ("src/ch03-02-control-flow.md", 3, 2, True),
        ("src/ch03-00-common-concepts.md", 3, 0, True),
        ("chapter-4.md", 4, None, True),
        ("module-1-ros2/week-3-lesson-1-architecture.md", 3, 1, True),
        ("intro/week-1-2-sensors.md", 1, None, True),
        ("1-getting-started/lessons/3-sensors/README.md", 1, 3, True),
        ("1-getting-started/lessons/3-sensors/pi.md", 1, 3, True),
        ("1-getting-started/README.md", 1, 0, True),
        ("03-topics.md", 3, None, True),
        ("docs/03-topics.md", 3, None, True),
        ("ros2/03-topics.md", None, 3, False),
        ("module-2-gazebo/intro.md", 2, None, False),
        ("1973_oil_crisis.md", None, None, False),
        ("src/appendix-01-keywords.md", None, None, False),
        ("notes.md", None, None, False),
    ],
)
def test_numbers_are_read_from_paths(
    path: str, chapter: int | None, lesson: int | None, declared: bool
) -> None:
    found = numbers_in_path(path, {})
    assert (found.chapter, found.lesson, found.chapter_declared) == (chapter, lesson, declared)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("01-ros2/02-x.md", "ros2"),
        ("module-3-isaac/intro.md", "isaac"),
        ("isaac/intro.md", "isaac"),
        ("04-other/intro.md", None),
    ],
)
def test_a_folder_may_name_a_declared_module(path: str, expected: str | None) -> None:
    assert numbers_in_path(path, {"ros2": "ROS 2", "isaac": "Isaac"}).module == expected


def test_numbered_folders_above_the_chapters_are_modules() -> None:
    found = numbers_in_path("01-basics/02-loops/03-while.md", {})
    assert (found.module, found.chapter, found.lesson) == ("basics", 2, 3)


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("1-getting-started/lessons/3-sensors/pi.md", "1-getting-started"),
        ("docs/module-1-ros2/week-3-lesson-1.md", "docs/module-1-ros2"),
        ("docs/setup/cloud.md", "docs/setup"),
        ("src/ch03-02-x.md", ""),
        ("x.md", ""),
    ],
)
def test_the_folder_of_a_chapter(path: str, folder: str) -> None:
    assert numbers_in_path(path, {}).chapter_folder == folder


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("01-what-is-ros2.md", "What is ros2"),
        ("ch04-01-what-is-ownership.md", "What is ownership"),
        ("week-3-lesson-1-ros2-architecture.mdx", "Ros2 architecture"),
        ("Scottish_Parliament.md", "Scottish Parliament"),
        ("module-2", "Module 2"),
        ("12", "12"),
    ],
)
def test_names_become_readable(name: str, expected: str) -> None:
    assert readable(name) == expected


def test_an_index_page_without_a_title_is_called_after_its_folder() -> None:
    assert page_name("6-space-game/your-work/README.md") == "Your work"
    assert page_name("README.md") == "README"


def test_files_without_numbers_get_the_next_free_ones_in_path_order() -> None:
    nothing = Numbers()
    declared = {"b.md": nothing, "a.md": nothing, "x.md": Numbers(chapter=4, lesson=2)}
    assert assign(declared, {}) == {
        "a.md": Place("main", 5, 1),
        "b.md": Place("main", 6, 1),
        "x.md": Place("main", 4, 2),
    }


def test_files_of_a_folder_share_its_chapter() -> None:
    nothing = Numbers()
    places = assign({"setup/a.md": nothing, "setup/b.md": nothing, "tools/c.md": nothing}, {})
    assert [(p.chapter, p.lesson) for p in places.values()] == [(1, 1), (1, 2), (2, 1)]


def test_given_numbers_are_remembered() -> None:
    nothing = Numbers()
    known = {"b.md": Place("main", 1, 1), "d.md": Place("main", 2, 1)}
    places = assign({"a.md": nothing, "b.md": nothing}, known)
    assert places == {"a.md": Place("main", 3, 1), "b.md": Place("main", 1, 1)}


def test_a_declared_chapter_moves_a_file_to_its_next_free_lesson() -> None:
    known = {"a.md": Place("main", 7, 3), "c.md": Place("main", 2, 5)}
    places = assign({"a.md": Numbers(chapter=2, chapter_declared=True)}, known)
    assert places["a.md"] == Place("main", 2, 6)
