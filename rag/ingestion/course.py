"""A course folder and its optional `course.toml`, as one typed object."""

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from rag.errors import CourseError
from rag.ingestion.contents import Contents, read_contents
from rag.ingestion.hierarchy import readable
from rag.ingestion.links import UrlStyle

COURSE_FILE = "course.toml"
LESSON_SUFFIXES = {".md", ".mdx", ".rmd", ".qmd", ".rst", ".ipynb"}
PASSAGE_FILES = {"corpus.jsonl", "passages.jsonl"}
# A table of contents and repository manners are no course material.
NOT_LESSONS = {
    "SUMMARY.md",
    "CONTRIBUTING.md",
    "CODE_OF_CONDUCT.md",
    "SECURITY.md",
    "SUPPORT.md",
    "LICENSE.md",
    "AGENTS.md",
}
NOT_COURSE_FOLDERS = {"node_modules", "__pycache__"}
# Raise it when pages are cut differently, so that unchanged files are read again.
CHUNKING_VERSION = 3
_COURSE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class CourseSettings(BaseModel):
    """What `course.toml` may say."""

    model_config = ConfigDict(extra="forbid")

    id: str | None = None
    title: str | None = Field(default=None, min_length=1)
    base_url: str | None = None
    url_style: UrlStyle | None = None
    modules: dict[str, str] = Field(default_factory=dict)
    chapters: dict[int, str] = Field(default_factory=dict)
    include: list[str] = Field(default_factory=list)
    exclude: list[str] = Field(default_factory=list)

    @field_validator("base_url")
    @classmethod
    def _is_web_address(cls, url: str | None) -> str | None:
        if url is not None and not re.match(r"https?://[^\s/]", url):
            raise ValueError("it must begin with https:// or http://")
        return url


@dataclass(frozen=True)
class Course:
    """A course as it lies on disk."""

    id: str
    title: str
    root: Path
    files: tuple[str, ...]
    """Lesson files, relative to `root`, in path order."""
    base_url: str | None = None
    url_style: UrlStyle = "docusaurus"
    modules: dict[str, str] = field(default_factory=dict[str, str])
    chapters: dict[int, str] = field(default_factory=dict[int, str])
    contents: Contents = field(default_factory=Contents)
    whole: bool = True
    """False for one lesson file: the course's other files are not gone, only not looked at."""

    def fingerprint(self, file: str) -> str:
        """Changes when a setting changes what is stored of this file."""
        folder = PurePosixPath(file).parent.as_posix()
        labels, openings = self.contents.labels, self.contents.openings
        listed = self.contents.entries.get(file)
        settings = [
            CHUNKING_VERSION,
            self.base_url,
            self.url_style,
            self.modules,
            {str(number): title for number, title in self.chapters.items()},
            {name: label for name, label in labels.items() if _holds(name, folder)},
            {name: title for name, title in openings.items() if _holds(name, folder)},
            self.contents.site_root if self.base_url else "",
            [listed.title, listed.chapter, listed.number] if listed else [],
        ]
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def _holds(folder: str, inner: str) -> bool:
    return inner == folder or inner.startswith(f"{folder}/")


def load_course(path: Path, course_id: str | None) -> Course:
    """The course in a folder, or made of one file."""
    if not path.exists():
        raise CourseError(f"There is no course at {path}.")
    path = path.resolve()
    root = path if path.is_dir() else path.parent
    settings = _read_settings(root / COURSE_FILE)
    name = path.name if path.is_dir() else path.stem
    files = sorted(_lessons(root, settings)) if path.is_dir() else [path.name]
    if not files or (path.is_file() and not _is_lesson(PurePosixPath(path.name))):
        kinds = "Markdown, reStructuredText, notebooks or corpus.jsonl"
        raise CourseError(f"There are no lessons ({kinds}) in {path}.")
    contents = read_contents(root, files) if path.is_dir() else Contents()
    return Course(
        id=_valid_id(course_id or settings.id or _derived_id(name)),
        title=settings.title or readable(name),
        root=root,
        files=tuple(files),
        base_url=settings.base_url,
        url_style=settings.url_style or contents.url_style,
        modules=settings.modules,
        chapters=settings.chapters,
        contents=contents,
        whole=path.is_dir() or path.name in PASSAGE_FILES,
    )


def _read_settings(file: Path) -> CourseSettings:
    if not file.is_file():
        return CourseSettings()
    try:
        return CourseSettings.model_validate(tomllib.loads(file.read_text("utf-8")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise CourseError(f"{file} is not valid TOML: {error}.") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            raise CourseError(f"{file} is wrong at {where}: there is no such setting.") from error
        message = first["msg"].removeprefix("Value error, ")
        raise CourseError(f"{file} is wrong at {where}: {message}.") from error


def _derived_id(name: str) -> str:
    return re.sub(r"[^a-z0-9._]+", "-", name.lower()).strip("-._") or "course"


def _valid_id(course_id: str) -> str:
    if not _COURSE_ID.fullmatch(course_id):
        raise CourseError(
            f"{course_id!r} cannot be a course id: use letters, digits, dots and hyphens."
        )
    return course_id


def _lessons(root: Path, settings: CourseSettings) -> Iterator[str]:
    for folder, folders, names in os.walk(root, onerror=unreadable_folder):
        here = Path(folder)
        linked = [name for name in folders if (here / name).is_symlink()]
        folders[:] = [n for n in folders if _is_course_folder(n) and n not in linked]
        for name in names:
            path = PurePosixPath((here / name).relative_to(root).as_posix())
            if _is_lesson(path) and _is_wanted(path, settings):
                yield str(path)
        for name in linked:
            if _is_course_folder(name) and not (here / name).resolve().is_relative_to(root):
                yield (here / name).relative_to(root).as_posix()


def unreadable_folder(error: OSError) -> None:
    """Not to see a folder would mean to take its lessons for deleted."""
    raise CourseError(f"The folder {error.filename} cannot be read: {error.strerror}.") from error


def _is_course_folder(name: str) -> bool:
    return not name.startswith((".", "_")) and name not in NOT_COURSE_FOLDERS


def _is_lesson(path: PurePosixPath) -> bool:
    if path.name in PASSAGE_FILES:
        return True
    partial = path.name.startswith((".", "_")) and path.stem != "_index"
    return path.suffix.lower() in LESSON_SUFFIXES and path.name not in NOT_LESSONS and not partial


def _is_wanted(path: PurePosixPath, settings: CourseSettings) -> bool:
    included = not settings.include or _matches(path, settings.include)
    return included and not _matches(path, settings.exclude)


def _matches(path: PurePosixPath, patterns: list[str]) -> bool:
    """`*` also crosses folders, and `**/x` matches `x` in the course folder itself."""
    text = str(path)
    return any(
        fnmatchcase(text, pattern) or fnmatchcase(f"/{text}", f"/{pattern}".replace("/**/", "*/"))
        for pattern in patterns
    )
