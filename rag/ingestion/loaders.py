"""Reads one document of a course as titled sections, whatever its format."""

import re
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path, PurePosixPath

from rag.ingestion.blocks import Heading, RawSection
from rag.ingestion.boilerplate import without
from rag.ingestion.course import Course
from rag.ingestion.dialects import (
    from_mdbook,
    from_rmarkdown,
    with_closed_fences,
    with_jsx_headings,
    with_listings,
    without_hidden_lines,
    without_templates,
)
from rag.ingestion.front_matter import (
    BadFrontMatter,
    FrontMatter,
    split_field_list,
    split_front_matter,
)
from rag.ingestion.hierarchy import Numbers, numbers_in_path, page_name, readable
from rag.ingestion.includes import Includes
from rag.ingestion.links import UrlStyle, page_url
from rag.ingestion.markdown import parse_page
from rag.ingestion.myst import from_myst
from rag.ingestion.rst import UnparsablePage, parse_rst
from rag.ingestion.sections import Section, sections_under, title_heading
from rag.ingestion.sources import (
    MAX_FILE_BYTES,
    Passage,
    Source,
    UnreadableDocument,
    page_text,
    parse_passage,
    read_bytes,
)
from rag.types import HardwareTier, ProficiencyLevel, TeachingLayer


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


def declared_numbers(course: Course, source: Source) -> Numbers:
    """What a document says of its place, in its front matter or its path."""
    if source.offset is not None:
        return Numbers()
    front, _ = _page(source)
    return _numbers(course, source.source_file, front)


def read_document(course: Course, source: Source) -> Document:
    """The document's title, sections and attributes."""
    if source.problem is not None:
        raise UnreadableDocument(source.problem)
    if source.offset is not None:
        return _read_passage(course, source, parse_passage(_line(source)))
    front, body = _page(source)
    numbers = _numbers(course, source.source_file, front)
    raw = _parsed(course, source.path, without(body, source.left_out))
    opening = title_heading(raw, named=bool((front.title or "").strip()))
    listed = course.contents.entries.get(source.source_file)
    title = _own_title(front, opening) or (listed.title if listed else "")
    title = title or page_name(source.source_file)
    sections = () if source.same_as else sections_under(raw, opening, _anchor_style(course))
    return Document(
        source_file=source.source_file,
        file_hash=source.file_hash,
        title=title,
        url=page_url(
            course.id,
            source.source_file,
            base_url=course.base_url,
            style=course.url_style,
            slug=front.slug,
            doc_id=front.doc_id,
            site_root=course.contents.site_root,
        ),
        sections=sections,
        chapter_title=_chapter_title(course, source.source_file, front, numbers) or title,
        chapter_declared=numbers.chapter_declared,
        hardware_tier=front.hardware_tier,
        proficiency_level=front.proficiency_level,
        layer=front.layer,
        available_from=front.available_from,
        assessment=front.assessment,
    )


# --- Pages -------------------------------------------------------------------------------------


def _page(source: Source) -> tuple[FrontMatter, str]:
    text = page_text(read_bytes(source.path), source.source_file)
    # What begins with a rule is a title in reStructuredText, not front matter.
    split = split_field_list if source.path.suffix.lower() == ".rst" else split_front_matter
    try:
        return split(text)
    except BadFrontMatter as error:
        raise UnreadableDocument(str(error)) from error


def _parsed(course: Course, path: Path, text: str) -> list[RawSection]:
    """The page by the rules of its format."""
    suffix = path.suffix.lower()
    includes = Includes(course.root)

    def included(target: str) -> str | None:
        return includes.read(path, target)

    if suffix == ".rst":
        try:
            return parse_rst(text, included)
        except UnparsablePage as error:
            raise UnreadableDocument("it is no reStructuredText that can be parsed") from error
    if suffix in (".rmd", ".qmd"):
        return parse_page(from_rmarkdown(text, included))
    if suffix == ".ipynb":
        return parse_page(from_myst(text, included))
    text = with_closed_fences(from_myst(from_mdbook(text, included), included))
    if course.url_style == "mdbook":
        text = without_hidden_lines(text)
    text = with_jsx_headings(with_listings(without_templates(text)))
    return parse_page(text, mdx=suffix == ".mdx" or course.url_style == "docusaurus")


def _numbers(course: Course, source_file: str, front: FrontMatter) -> Numbers:
    found = numbers_in_path(source_file, course.modules)
    if front.module is not None and course.modules and front.module not in course.modules:
        known = ", ".join(course.modules)
        raise UnreadableDocument(f"its module is {front.module!r}, but the course has only {known}")
    listed = course.contents.entries.get(source_file)
    if found.chapter is None and listed is not None and listed.number is not None:
        found = replace(found, chapter=listed.number, chapter_declared=True)
    if front.chapter is not None:
        found = replace(found, chapter=front.chapter, chapter_declared=True)
    if front.lesson is not None:
        found = replace(found, lesson=front.lesson)
    return replace(found, module=front.module or found.module)


def _chapter_title(
    course: Course, source_file: str, front: FrontMatter, numbers: Numbers
) -> str | None:
    folder = numbers.chapter_folder
    if front.chapter_title and front.chapter_title.strip():
        return front.chapter_title.strip()
    if folder in course.contents.labels:
        return course.contents.labels[folder]
    if numbers.chapter_declared and numbers.chapter in course.chapters:
        return course.chapters[numbers.chapter]
    listed = course.contents.entries.get(source_file)
    if listed is not None and listed.chapter:
        return _without_number(listed.chapter, numbers)
    if folder in course.contents.openings:
        return course.contents.openings[folder]
    return readable(PurePosixPath(folder).name) if folder else None


def _without_number(chapter: str, numbers: Numbers) -> str:
    """`3. Ownership` is shown as `Chapter 3: Ownership`, with its number once."""
    number = str(numbers.chapter) if numbers.chapter_declared else ""
    rest = re.sub(rf"^(?:chapter\s+)?{number}\s*[.:)–-]\s+", "", chapter, flags=re.I)
    return rest if number and rest else chapter


def _own_title(front: FrontMatter, opening: Heading | None) -> str | None:
    title = (front.title or "").strip()
    return title or (opening.text if opening else None) or None


def _anchor_style(course: Course) -> UrlStyle:
    """Our own reader, which serves a course without a site, names anchors as GitHub does."""
    return "plain" if course.base_url is None else course.url_style


# --- Passages ----------------------------------------------------------------------------------


def _line(source: Source) -> bytes:
    try:
        with source.path.open("rb") as file:
            file.seek(source.offset or 0)
            return file.readline(MAX_FILE_BYTES)
    except OSError as error:
        raise UnreadableDocument(f"it cannot be read: {error.strerror}") from error


def _read_passage(course: Course, source: Source, passage: Passage) -> Document:
    title = " ".join(passage.title.split()) or re.sub(r"[-_\s]+", " ", passage.id)
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
