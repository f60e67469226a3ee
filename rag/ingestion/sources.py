"""Finds a course's documents: which there are, what each hashes to, what cannot be read and why."""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, cast

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from rag.ingestion import boilerplate
from rag.ingestion.course import PASSAGE_FILES, Course
from rag.ingestion.front_matter import BadFrontMatter, first_problem, split_front_matter
from rag.ingestion.includes import Includes
from rag.ingestion.notebooks import UnreadableNotebook, notebook_markdown

MAX_FILE_BYTES = 20_000_000
_FRONT_MATTER = re.compile(r"\A(---|\+\+\+)[ \t]*\n.*?^\1[ \t]*(?:\n|\Z)", re.S | re.M)


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
    """Hash of the content and of all else that shapes what is stored of it."""
    offset: int | None = None
    problem: str | None = None
    """Why it cannot be read, when that is known already."""
    same_as: str | None = None
    """The file that has the same text, and keeps it."""
    left_out: frozenset[str] = frozenset()
    """Its paragraphs that most files of the course have."""
    missing: tuple[str, ...] = ()
    """What it includes and the course folder does not have."""


class Passage(BaseModel):
    """One line of `corpus.jsonl` or `passages.jsonl`."""

    id: Annotated[
        str,
        Field(min_length=1),
        BeforeValidator(lambda id: str(id) if isinstance(id, int | float) else id),
    ]
    title: str = ""
    text: str
    url: str = ""


@dataclass
class _Glance:
    """What is remembered of a page between the first look at all files and the end of planning."""

    source: Source
    body_hash: str
    held: frozenset[str] = field(default_factory=frozenset[str])


def find_sources(course: Course) -> list[Source]:
    """Every document of the course, in path order, with what its content hashes to."""
    found: dict[str, Source] = {}
    for source in [*_pages(course), *_passages(course)]:
        earlier = found.get(source.source_file)
        if earlier is None:
            found[source.source_file] = source
        elif earlier.problem is None:
            problem = f"two documents are called {source.source_file}"
            found[source.source_file] = replace(earlier, problem=problem)
    return [found[name] for name in sorted(found)]


# --- Pages -------------------------------------------------------------------------------------


def _pages(course: Course) -> list[Source]:
    files = [file for file in course.files if PurePosixPath(file).name not in PASSAGE_FILES]
    common = boilerplate.candidates(_sampled_texts(course, files))
    glances = [_glance(course, file, common) for file in files]
    readable = {g.source.source_file: g for g in glances if g.source.problem is None}
    originals = _originals(course, readable)
    unwanted = boilerplate.left_out({file: glance.held for file, glance in readable.items()})
    return [
        _settled(g.source, originals.get(g.body_hash), unwanted.get(g.source.source_file))
        for g in glances
    ]


def _sampled_texts(course: Course, files: list[str]) -> Iterator[str]:
    if len(files) < boilerplate.FEWEST_FILES:
        return
    for file in boilerplate.sample(files):
        try:
            yield page_text(_checked_bytes(course.root, course.root / file), file)
        except UnreadableDocument:
            continue


def _glance(course: Course, file: str, common: frozenset[str]) -> _Glance:
    path = course.root / file
    try:
        content = _checked_bytes(course.root, path)
        text = page_text(content, file)
    except UnreadableDocument as error:
        return _Glance(Source(file, path, "", "", problem=str(error)), "")
    body = " ".join(_FRONT_MATTER.sub("", text, count=1).split())
    held = common.intersection(boilerplate.digests(text)) if common else frozenset[str]()
    file_hash = hashlib.sha256(content).hexdigest()
    included, missing = Includes(course.root).look_up(path, text)
    source = Source(
        file,
        path,
        file_hash,
        _hash_of(course.fingerprint(file), file_hash, *map(_digest_of, included)),
        missing=tuple(missing),
    )
    return _Glance(source, _hash_of(body) if body else "", held)


def _originals(course: Course, glances: dict[str, _Glance]) -> dict[str, str]:
    """Text → the file that keeps it: the least nested one, for translations lie deeper."""
    order = sorted(glances, key=lambda file: (file.count("/"), file))
    having: dict[str, list[str]] = {}
    for file in order:
        if glances[file].body_hash:
            having.setdefault(glances[file].body_hash, []).append(file)
    return {
        body: next((file for file in files if _can_be_read(course, file)), files[0])
        for body, files in having.items()
        if len(files) > 1
    }


def _can_be_read(course: Course, file: str) -> bool:
    """A file whose front matter is wrong will fail, and so cannot keep the text of others."""
    try:
        text = page_text(read_bytes(course.root / file), file)
        split_front_matter(text)
    except (BadFrontMatter, UnreadableDocument):
        return False
    return True


def _settled(source: Source, original: str | None, unwanted: frozenset[str] | None) -> Source:
    same_as = original if original != source.source_file else None
    if source.problem is not None or not (same_as or unwanted):
        return source
    state_hash = _hash_of(source.state_hash, same_as or "", *sorted(unwanted or ()))
    return replace(source, same_as=same_as, left_out=unwanted or frozenset(), state_hash=state_hash)


def _hash_of(*parts: str) -> str:
    return hashlib.sha256(":".join(parts).encode("utf-8", "replace")).hexdigest()


def _digest_of(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return ""


def page_text(content: bytes, file: str) -> str:
    """The file's text; a notebook's is the Markdown of its cells."""
    text = decoded(content)
    if not file.lower().endswith(".ipynb"):
        return text
    try:
        return notebook_markdown(text)
    except UnreadableNotebook as error:
        raise UnreadableDocument(str(error)) from error


def decoded(content: bytes) -> str:
    if b"\0" in content:
        raise UnreadableDocument("it is not a text file")
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise UnreadableDocument("it is not UTF-8 text") from error


def _checked_bytes(root: Path, path: Path) -> bytes:
    if problem := _refused(root, path):
        raise UnreadableDocument(problem)
    return read_bytes(path)


def read_bytes(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            limit = MAX_FILE_BYTES // 1_000_000
            raise UnreadableDocument(
                f"it is too large: {size // 1_000_000} MB, and the limit is {limit} MB"
            )
        return path.read_bytes()
    except OSError as error:
        raise UnreadableDocument(f"it cannot be read: {error.strerror}") from error


def _refused(root: Path, path: Path) -> str | None:
    try:
        if not path.resolve().is_relative_to(root):
            return "it is a link to something outside the course folder"
    except (OSError, RuntimeError):
        return "it is a link that leads back to itself"
    if not path.exists():
        return "it is a link to a file that does not exist"
    return None if path.is_file() else "it is not a file"


# --- Passages ----------------------------------------------------------------------------------


def _passages(course: Course) -> Iterator[Source]:
    for file in course.files:
        path = course.root / file
        if path.name in PASSAGE_FILES:
            try:
                yield from _lines_of(course, path, file)
            except OSError as error:
                yield Source(file, path, "", "", problem=f"it cannot be read: {error.strerror}")


def _lines_of(course: Course, path: Path, file: str) -> Iterator[Source]:
    if problem := _refused(course.root, path):
        yield Source(file, path, "", "", problem=problem)
        return
    fingerprint = course.fingerprint(file)
    with path.open("rb") as lines:
        offset = 0
        number = 0
        while line := lines.readline(MAX_FILE_BYTES):
            number += 1
            if line.strip():
                yield _line(path, f"{file}:{number}", line, offset, fingerprint)
            offset += len(line)


def _line(path: Path, name: str, line: bytes, offset: int, fingerprint: str) -> Source:
    try:
        passage = parse_passage(line)
    except UnreadableDocument as error:
        return Source(name, path, "", "", offset, problem=str(error))
    file_hash = hashlib.sha256(line.strip()).hexdigest()
    return Source(passage.id, path, file_hash, _hash_of(fingerprint, file_hash), offset)


def parse_passage(line: bytes) -> Passage:
    try:
        fields: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UnreadableDocument("its line is not valid JSON") from error
    if not isinstance(fields, dict):
        raise UnreadableDocument("its line is not a JSON object")
    try:
        return Passage.model_validate(_encodable(cast(dict[str, Any], fields)))
    except ValidationError as error:
        raise UnreadableDocument(first_problem(error, "its line")) from error


def _encodable(fields: dict[str, Any]) -> dict[str, Any]:
    """JSON can spell lone surrogates, which no UTF-8 text can hold."""
    return {
        name: value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
        for name, value in fields.items()
        if value is not None
    }
