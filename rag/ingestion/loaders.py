"""Reads a course's files: which documents there are, and each one as titled sections."""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, cast

import yaml
from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, ValidationError

from rag.ingestion.course import PASSAGE_FILES, Course
from rag.ingestion.hierarchy import Numbers, numbers_in_path, page_name, readable
from rag.ingestion.links import UrlStyle, page_url
from rag.ingestion.markdown import Heading, RawSection, parse_page
from rag.ingestion.sections import Section, sections_under, title_heading
from rag.types import HardwareTier, Moment, ProficiencyLevel, TeachingLayer

_FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.S | re.M)


class UnreadableDocument(Exception):
    """One file cannot be ingested; its message is the sentence reported for it."""


@dataclass(frozen=True)
class Source:
    """One document to ingest, found but not yet read: a file, or one line of a passage file."""

    source_file: str
    path: Path
    file_hash: str
    """Hash of the content alone."""
    state_hash: str
    """Hash of the content and of the settings that shape what is stored of it."""
    offset: int | None = None
    problem: str | None = None
    """Why it cannot be read, when that is known already."""


@dataclass(frozen=True)
class Document:
    """A page of the course, read and understood, not yet cut."""

    source_file: str
    file_hash: str
    title: str
    url: str
    sections: tuple[Section, ...]
    chapter_title: str
    chapter_declared: bool
    hardware_tier: HardwareTier
    proficiency_level: ProficiencyLevel
    layer: TeachingLayer
    available_from: datetime | None
    assessment: bool


def _upper(value: object) -> object:
    return value.strip().upper() if isinstance(value, str) else value


def _number(value: object) -> object:
    return int(value) if isinstance(value, str) and value.strip().isdecimal() else value


def _text(value: object) -> object:
    return str(value) if isinstance(value, int | float | date) else value


def _moment(value: object) -> object:
    """YAML reads `2026-02-01` as a day, which begins at midnight UTC."""
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    if isinstance(value, str):
        return _moment(datetime.fromisoformat(value))
    return value


_Text = Annotated[str | None, BeforeValidator(_text)]
_Number = Annotated[int | None, Field(ge=0), BeforeValidator(_number)]


class FrontMatter(BaseModel):
    """What a page says about itself; other fields are the site's business."""

    title: _Text = None
    module: _Text = None
    chapter: _Number = None
    lesson: _Number = None
    chapter_title: _Text = None
    hardware_tier: Annotated[HardwareTier, BeforeValidator(_number)] = 1
    proficiency_level: Annotated[ProficiencyLevel, BeforeValidator(_upper)] = "A2"
    layer: Annotated[TeachingLayer, BeforeValidator(_upper)] = "L1"
    available_from: Annotated[Moment | None, BeforeValidator(_moment)] = None
    assessment: bool = False
    slug: _Text = None
    doc_id: _Text = Field(default=None, validation_alias=AliasChoices("id", "doc_id"))


class Passage(BaseModel):
    """One line of `corpus.jsonl` or `passages.jsonl`."""

    id: Annotated[str, Field(min_length=1), BeforeValidator(_text)]
    title: str = ""
    text: str
    url: str = ""


# --- Finding documents -------------------------------------------------------------------------


def find_sources(course: Course) -> list[Source]:
    """Every document of the course, in path order, with what its content hashes to."""
    found: dict[str, Source] = {}
    for file in course.files:
        for source in _sources_of(course, file):
            earlier = found.get(source.source_file)
            if earlier is None:
                found[source.source_file] = source
            elif earlier.problem is None:
                problem = f"two documents are called {source.source_file}"
                found[source.source_file] = replace(earlier, problem=problem)
    return [found[name] for name in sorted(found)]


def _sources_of(course: Course, file: str) -> Iterator[Source]:
    path = course.root / file
    fingerprint = course.fingerprint(PurePosixPath(file).parent.as_posix())
    if problem := _refused(course.root, path):
        yield Source(file, path, "", "", problem=problem)
        return
    try:
        if path.name in PASSAGE_FILES:
            yield from _lines_of(path, file, fingerprint)
        else:
            yield _source(file, path, path.read_bytes(), fingerprint)
    except OSError as error:
        yield Source(file, path, "", "", problem=f"it cannot be read: {error.strerror}")


def _refused(root: Path, path: Path) -> str | None:
    if not path.resolve().is_relative_to(root):
        return "it is a link to something outside the course folder"
    return None if path.exists() else "it is a link to a file that does not exist"


def _lines_of(path: Path, file: str, fingerprint: str) -> Iterator[Source]:
    with path.open("rb") as lines:
        offset = 0
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    yield _source(_passage(line).id, path, line, fingerprint, offset)
                except UnreadableDocument as error:
                    yield Source(f"{file}:{number}", path, "", "", offset, problem=str(error))
            offset += len(line)


def _source(
    name: str, path: Path, content: bytes, fingerprint: str, offset: int | None = None
) -> Source:
    content = content.strip() if offset is not None else content
    file_hash = hashlib.sha256(content).hexdigest()
    state_hash = hashlib.sha256(f"{fingerprint}:{file_hash}".encode()).hexdigest()
    return Source(name, path, file_hash, state_hash, offset)


# --- Reading one document ----------------------------------------------------------------------


def declared_numbers(course: Course, source: Source) -> Numbers:
    """What a document says of its place, in its front matter or its path."""
    if source.offset is not None:
        return Numbers()
    front, _ = _split(_decoded(_content(source)))
    return _numbers(course, source.source_file, front)


def read_document(course: Course, source: Source) -> Document:
    """The document's title, sections and attributes."""
    if source.problem is not None:
        raise UnreadableDocument(source.problem)
    content = _content(source)
    if source.offset is not None:
        return _read_passage(course, source, _passage(content))
    front, body = _split(_decoded(content))
    numbers = _numbers(course, source.source_file, front)
    mdx = source.path.suffix.lower() == ".mdx" or course.url_style == "docusaurus"
    raw = parse_page(body, mdx=mdx)
    opening = title_heading(raw)
    title = _own_title(front, opening) or page_name(source.source_file)
    url = page_url(
        course.id,
        source.source_file,
        base_url=course.base_url,
        style=course.url_style,
        slug=front.slug,
        doc_id=front.doc_id,
    )
    return Document(
        source_file=source.source_file,
        file_hash=source.file_hash,
        title=title,
        url=url,
        sections=sections_under(raw, opening, _anchor_style(course)),
        chapter_title=_chapter_title(course, front, numbers) or title,
        chapter_declared=numbers.chapter_declared,
        hardware_tier=front.hardware_tier,
        proficiency_level=front.proficiency_level,
        layer=front.layer,
        available_from=front.available_from,
        assessment=front.assessment,
    )


def _content(source: Source) -> bytes:
    try:
        with source.path.open("rb") as file:
            if source.offset is None:
                return file.read()
            file.seek(source.offset)
            return file.readline()
    except OSError as error:
        raise UnreadableDocument(f"it cannot be read: {error.strerror}") from error


def _decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise UnreadableDocument("it is not UTF-8 text") from error


def _split(text: str) -> tuple[FrontMatter, str]:
    match = _FRONT_MATTER.match(text)
    if match is None:
        return FrontMatter(), text
    try:
        fields: Any = yaml.safe_load(match[1])
    except (yaml.YAMLError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise UnreadableDocument(f"its front matter is not valid YAML: {reason}") from error
    if fields is None:
        return FrontMatter(), text[match.end() :]
    if not isinstance(fields, dict):
        raise UnreadableDocument("its front matter is not a list of fields")
    given = {k: v for k, v in cast(dict[Any, Any], fields).items() if v is not None}
    return _front_matter(given), text[match.end() :]


def _front_matter(fields: dict[Any, Any]) -> FrontMatter:
    try:
        return FrontMatter.model_validate({str(name): value for name, value in fields.items()})
    except ValidationError as error:
        raise UnreadableDocument(_first_problem(error, "its front matter")) from error


def _first_problem(error: ValidationError, where: str) -> str:
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"])
    message = first["msg"][:1].lower() + first["msg"][1:]
    if first["type"] == "missing":
        return f"{where} has no {name}"
    return f"{name} in {where} is {first['input']!r}: {message}"


def _numbers(course: Course, source_file: str, front: FrontMatter) -> Numbers:
    found = numbers_in_path(source_file, course.modules)
    if front.module is not None and course.modules and front.module not in course.modules:
        known = ", ".join(course.modules)
        raise UnreadableDocument(f"its module is {front.module!r}, but the course has only {known}")
    if front.chapter is not None:
        found = replace(found, chapter=front.chapter, chapter_declared=True)
    if front.lesson is not None:
        found = replace(found, lesson=front.lesson)
    return replace(found, module=front.module or found.module)


def _chapter_title(course: Course, front: FrontMatter, numbers: Numbers) -> str | None:
    folder = numbers.chapter_folder
    if front.chapter_title and front.chapter_title.strip():
        return front.chapter_title.strip()
    if folder in course.labels:
        return course.labels[folder]
    if numbers.chapter_declared and numbers.chapter in course.chapters:
        return course.chapters[numbers.chapter]
    return readable(PurePosixPath(folder).name) if folder else None


def _own_title(front: FrontMatter, opening: Heading | None) -> str | None:
    title = (front.title or "").strip()
    return title or (opening.text if opening else None) or None


def _anchor_style(course: Course) -> UrlStyle:
    """Our own reader, which serves a course without a site, names anchors as GitHub does."""
    return "plain" if course.base_url is None else course.url_style


# --- Passages ----------------------------------------------------------------------------------


def _passage(line: bytes) -> Passage:
    try:
        fields: Any = json.loads(line)
    except ValueError as error:
        raise UnreadableDocument("its line is not valid JSON") from error
    try:
        passage = Passage.model_validate(_encodable(fields))
    except ValidationError as error:
        raise UnreadableDocument(_first_problem(error, "its line")) from error
    return passage


def _encodable(fields: Any) -> Any:
    """JSON can spell lone surrogates, which no UTF-8 text can hold."""
    if not isinstance(fields, dict):
        return fields
    return {
        name: value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
        for name, value in cast(dict[str, Any], fields).items()
        if value is not None
    }


def _read_passage(course: Course, source: Source, passage: Passage) -> Document:
    title = " ".join(passage.title.split()) or readable(passage.id)
    raw = parse_page(passage.text)
    reader = page_url(course.id, passage.id, base_url=None, style="plain")
    return Document(
        source_file=source.source_file,
        file_hash=source.file_hash,
        title=title,
        url=passage.url.strip() or reader,
        sections=sections_under(raw, None, "plain") if not passage.url.strip() else _flat(raw),
        chapter_title=title,
        chapter_declared=False,
        hardware_tier=1,
        proficiency_level="A2",
        layer="L1",
        available_from=None,
        assessment=False,
    )


def _flat(raw: list[RawSection]) -> tuple[Section, ...]:
    """Sections without anchors: nothing is known of the page behind a passage's own address."""
    sections = sections_under(raw, None, "plain")
    return tuple(replace(section, anchors=("",) * len(section.path)) for section in sections)
