"""A file's module, chapter and lesson: declared, read from its path, or given once. No I/O here."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from rag.ingestion.links import INDEX_PAGES, strip_number_prefix

DEFAULT_MODULE = "main"
# Folders that hold a course but name no chapter of it.
CONTAINERS = {
    "src",
    "source",
    "docs",
    "doc",
    "content",
    "book",
    "lessons",
    "chapters",
    "translations",
    "website",
    "site",
    "pages",
}
_LEADING_NUMBER = re.compile(r"^(\d{1,3})(?=[-_. ]|$)")
_CHAPTER_AND_LESSON = re.compile(
    r"^ch(?:ap(?:ter)?)?[-_ ]?(\d{1,3})(?:[-_.](\d{1,3})(?!\d))?", re.I
)
_CHAPTER = re.compile(r"^(?:week|unit)[-_ ]?(\d{1,3})(?!\d)", re.I)
_MODULE = re.compile(r"^(?:module|part)[-_ ]?(\d{1,3})(?!\d)", re.I)
_LESSON = re.compile(r"(?:^|[-_ ])lesson[-_ ]?(\d{1,3})(?!\d)", re.I)
_PREFIX = re.compile(
    r"^(?:(?:ch(?:ap(?:ter)?)?|week|unit|module|part|lesson)[-_ ]?)?"
    r"\d{1,3}(?:[-_.]\d{1,3})?(?:[-_. ]+|$)(?:lesson[-_ ]?\d{1,3}(?:[-_. ]+|$))?",
    re.I,
)


@dataclass(frozen=True)
class Numbers:
    """What a file says of its place; None where it says nothing."""

    module: str | None = None
    chapter: int | None = None
    lesson: int | None = None
    chapter_declared: bool = False
    chapter_folder: str = ""
    """The folder that stands for the chapter, or empty when the page itself does."""


@dataclass(frozen=True)
class Place:
    """A file's place in its course."""

    module: str
    chapter: int
    lesson: int


def page_name(source_file: str) -> str:
    """What to call a page without a title: its file, or for an index page its folder."""
    path = PurePosixPath(source_file)
    is_index = path.stem.lower() in INDEX_PAGES and path.parent.name
    return readable(path.parent.name if is_index else path.name)


def readable(name: str) -> str:
    """`01-what-is-ros2` → `What is ros2`: a file or folder name as a person would write it."""
    stem = re.sub(r"\.(md|mdx|rmd|qmd|rst|ipynb|jsonl)$", "", name, flags=re.I)
    words = re.sub(r"[-_\s]+", " ", _PREFIX.sub("", stem) or stem).strip()
    return words[:1].upper() + words[1:] or name


def numbers_in_path(source_file: str, modules: Mapping[str, str]) -> Numbers:
    """The numbers that folder and file names carry: `01-ros2/02-x.md`, `ch03-02-x.md`, …"""
    path = PurePosixPath(source_file)
    folders = list(path.parent.parts)
    chapter, lesson, declared, folder = _chapter_of(folders, path.stem)
    outer = _folder_above(folder) if not modules else None
    if lesson is None and folder and path.stem.lower() in INDEX_PAGES and declared:
        lesson = 0
    return Numbers(
        module=_module_of(folders, modules) or outer,
        chapter=chapter,
        lesson=lesson,
        chapter_declared=declared,
        chapter_folder=folder or _nearest_folder(folders),
    )


def _chapter_of(folders: list[str], stem: str) -> tuple[int | None, int | None, bool, str]:
    """Chapter, lesson, whether the chapter is the course's own number, and its folder."""
    lesson = _number(_LESSON, stem)
    if match := _CHAPTER_AND_LESSON.match(stem):
        second = int(match[2]) if match[2] else None
        return int(match[1]), lesson if second is None else second, True, ""
    if (week := _number(_CHAPTER, stem)) is not None:
        return week, lesson, True, ""
    numbered = [(n, i) for i, name in enumerate(folders) if (n := _folder_number(name)) is not None]
    own = _number(_LEADING_NUMBER, stem) if lesson is None else lesson
    if not numbered:
        return _chapter_of_module(folders, own, named=lesson is not None)
    if own is not None:
        (chapter, at), lesson = numbered[-1], own
    elif len(numbered) > 1:
        (chapter, at), lesson = numbered[-2], numbered[-1][0]
    else:
        (chapter, at), lesson = numbered[-1], None
    return chapter, lesson, True, "/".join(folders[: at + 1])


def _chapter_of_module(
    folders: list[str], own: int | None, *, named: bool
) -> tuple[int | None, int | None, bool, str]:
    """Without numbered chapters: a module's number keeps its files together but is not shown."""
    for at, name in enumerate(folders):
        if (number := _number(_MODULE, name)) is not None:
            return number, own, False, "/".join(folders[: at + 1])
    flat = all(name.lower() in CONTAINERS for name in folders)
    if flat and not named and own is not None:
        return own, None, True, ""
    return None, own, False, ""


def _folder_number(name: str) -> int | None:
    for pattern in (_LEADING_NUMBER, _CHAPTER_AND_LESSON, _CHAPTER, _LESSON):
        if (number := _number(pattern, name)) is not None:
            return number
    return None


def _number(pattern: re.Pattern[str], name: str) -> int | None:
    match = pattern.search(name)
    return int(match[1]) if match else None


def _module_of(folders: list[str], modules: Mapping[str, str]) -> str | None:
    for name in folders:
        for candidate in (name, strip_number_prefix(name), _PREFIX.sub("", name)):
            if candidate in modules:
                return candidate
    return None


def _folder_above(chapter_folder: str) -> str | None:
    """Numbered folders above the chapter's number its chapters anew, so they are its modules."""
    for name in PurePosixPath(chapter_folder).parent.parts:
        if _folder_number(name) is not None:
            return strip_number_prefix(name)
    return None


def _nearest_folder(folders: list[str]) -> str:
    for at in range(len(folders), 0, -1):
        if folders[at - 1].lower() not in CONTAINERS:
            return "/".join(folders[:at])
    return ""


def assign(declared: Mapping[str, Numbers], known: Mapping[str, Place]) -> dict[str, Place]:
    """A place for every declared file: what it says, else what it had, else the next free one."""
    numbering = _Numbering(declared, known)
    return {path: numbering.place(path, declared[path]) for path in sorted(declared)}


class _Numbering:
    """The numbers already in use, from which the next free ones follow."""

    def __init__(self, declared: Mapping[str, Numbers], known: Mapping[str, Place]) -> None:
        self._known = known
        self._last_chapter = 0
        self._last_lesson: dict[tuple[str, int], int] = {}
        self._folder_chapter: dict[str, int] = {}
        for path in sorted({*known, *declared}):
            place = _declared_place(declared.get(path)) or known.get(path)
            if place is not None:
                self._use(place)
                self._folder_chapter.setdefault(_shared_folder(path), place.chapter)

    def _use(self, place: Place) -> None:
        self._last_chapter = max(self._last_chapter, place.chapter)
        key = (place.module, place.chapter)
        self._last_lesson[key] = max(self._last_lesson.get(key, 0), place.lesson)

    def place(self, path: str, numbers: Numbers) -> Place:
        module = numbers.module or DEFAULT_MODULE
        chapter = self._chapter(path) if numbers.chapter is None else numbers.chapter
        lesson = numbers.lesson
        if lesson is None:
            lesson = self._lesson(path, module, chapter)
        place = Place(module, chapter, lesson)
        self._use(place)
        return place

    def _chapter(self, path: str) -> int:
        if path in self._known:
            return self._known[path].chapter
        return self._folder_chapter.setdefault(_shared_folder(path), self._last_chapter + 1)

    def _lesson(self, path: str, module: str, chapter: int) -> int:
        before = self._known.get(path)
        if before is not None and (before.module, before.chapter) == (module, chapter):
            return before.lesson
        return self._last_lesson.get((module, chapter), 0) + 1


def _declared_place(numbers: Numbers | None) -> Place | None:
    if numbers is None or numbers.chapter is None:
        return None
    return Place(numbers.module or DEFAULT_MODULE, numbers.chapter, numbers.lesson or 0)


def _shared_folder(source_file: str) -> str:
    """Files without numbers share their folder's chapter; outside any folder each is its own."""
    folder = _nearest_folder(list(PurePosixPath(source_file).parent.parts))
    return f"{folder}/" if folder else source_file
