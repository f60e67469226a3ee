"""What the course's own site says about its pages: which generator builds it, and their chapters.

Read from the files that Docusaurus, mdBook, Sphinx, Jupyter Book and Hugging Face's courses keep;
one that is broken costs a name, never the course.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Any, cast

import yaml
from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from rag.ingestion.links import UrlStyle, strip_number_prefix
from rag.ingestion.sidebars import categories
from rag.ingestion.titles import title_in

_MAX_BYTES = 1_000_000
_CATEGORY_FILES = ("_category_.json", "_category_.yml", "_category_.yaml")
_OPENING_PAGES = ("index", "readme", "intro", "introduction", "overview")
_SIDEBARS = ("sidebars.js", "sidebars.ts", "sidebars.cjs", "sidebars.mjs", "sidebars.json")
_DOCUSAURUS_CONFIGS = [f"docusaurus.config.{suffix}" for suffix in ("js", "ts", "mjs", "cjs")]
_DOC_ID = re.compile(r"\A---[ \t]*\n(?:(?!---).*\n)*?id:[ \t]*[\"']?(?P<id>[\w./-]+)")
_TOCTREE = re.compile(
    r"^(?P<indent>[ \t]*)(?:\.\.[ \t]+toctree::|(?P<fence>`{3,}|:{3,})\{toctree\})[^\n]*\n"
    r"(?P<body>(?:(?P=indent)[ \t]+[^\n]*\n|[ \t]*\n|(?(fence)(?!(?P=fence))[^\n]+\n|(?!)))*)",
    re.M,
)
_TITLED_TARGET = re.compile(r"(?P<title>.*?)\s*<(?P<target>[^<>]+)>")


@dataclass(frozen=True)
class Entry:
    """A page in the table of contents."""

    title: str = ""
    chapter: str = ""
    """The name of the chapter it stands in, where the table of contents has one."""
    number: int | None = None
    """The chapter's number, where the generator shows one."""


@dataclass(frozen=True)
class Contents:
    """The table of contents of a course."""

    url_style: UrlStyle = "docusaurus"
    site_root: str = ""
    """The folder whose files lie at the top of the site."""
    labels: dict[str, str] = field(default_factory=dict[str, str])
    """Folder → its name in the site's sidebar."""
    openings: dict[str, str] = field(default_factory=dict[str, str])
    """Folder → the title of the page that opens it, which sites show for want of a name."""
    entries: dict[str, Entry] = field(default_factory=dict[str, Entry])


def read_contents(root: Path, files: Iterable[str]) -> Contents:
    """What can be known of the site from its folder."""
    known = list(files)
    style, site_root = _generator(root, known)
    return Contents(
        url_style=style,
        site_root=site_root,
        labels=dict(_labels(root)),
        openings=_openings(root, known),
        entries=_entries(root, site_root, known),
    )


def _generator(root: Path, files: list[str]) -> tuple[UrlStyle, str]:
    """The site's generator, and the folder that is its root."""
    if (config := _nearest(root, *_DOCUSAURUS_CONFIGS)) is not None:
        return "docusaurus", _below(root, config.parent)
    marks: list[tuple[str, UrlStyle]] = [
        ("SUMMARY.md", "mdbook"),
        ("book.toml", "mdbook"),
        ("conf.py", "sphinx"),
        ("_toc.yml", "sphinx"),
        ("_quarto.yml", "mdbook"),  # its pages are named and anchored much the same
        ("index.rst", "sphinx"),
    ]
    for name, style in marks:
        if (found := _nearest(root, name)) is not None:
            return style, _below(root, found.parent)
    only_rst = bool(files) and all(file.lower().endswith(".rst") for file in files)
    return ("sphinx" if only_rst else "docusaurus"), ""


def _nearest(root: Path, *names: str) -> Path | None:
    """The file in the course folder, or in one directly below it, or two."""
    for pattern in ("{}", "*/{}", "*/*/{}"):
        for name in names:
            found = sorted(path for path in root.glob(pattern.format(name)) if path.is_file())
            if found:
                return found[0]
    return None


def _below(root: Path, folder: Path) -> str:
    relative = folder.relative_to(root).as_posix()
    return "" if relative == "." else relative


def _labels(root: Path) -> Iterator[tuple[str, str]]:
    for name in _CATEGORY_FILES:
        for file in sorted(root.rglob(name)):
            content = _loaded(file)
            label = content.get("label") if isinstance(content, dict) else None
            if isinstance(label, str) and label.strip():
                yield _below(root, file.parent), label.strip()


def _openings(root: Path, files: list[str]) -> dict[str, str]:
    """The better of several opening pages comes last, and so wins."""
    found: dict[str, str] = {}
    for stem in reversed(_OPENING_PAGES):
        for file in files:
            path = PurePosixPath(file)
            if path.parent.name and path.stem.lower() == stem:
                found[str(path.parent)] = title_in(_text(root / file), file)
    return {folder: title for folder, title in found.items() if title}


def _entries(root: Path, site_root: str, files: list[str]) -> dict[str, Entry]:
    """The first table of contents that says something."""
    readers: tuple[tuple[tuple[str, ...], Callable[[str, Any], Iterator[tuple[str, Entry]]]], ...]
    readers = (
        (("SUMMARY.md",), _mdbook),
        (("_toctree.yml",), _hugging_face),
        (("_toc.yml",), lambda folder, content: _jupyter_book(root, folder, content)),
        (_SIDEBARS, lambda folder, content: _docusaurus(root, files, folder, content)),
    )
    for names, reader in readers:
        file = _nearest(root, *names)
        if file is None:
            continue
        content = _loaded(file) if file.suffix == ".yml" else _text(file)
        found = _resolved(reader(_below(root, file.parent), content), files)
        if found:
            return found
    return _resolved(_sphinx(root, site_root, files), files)


def _resolved(found: Iterable[tuple[str, Entry]], files: list[str]) -> dict[str, Entry]:
    """By file: tables of contents mostly leave out the suffix."""
    by_stem = {str(PurePosixPath(file).with_suffix("")): file for file in reversed(files)}
    known = set(files)
    entries: dict[str, Entry] = {}
    for target, entry in found:
        path = normpath(target)
        file = path if path in known else by_stem.get(path)
        if file is not None:
            entries.setdefault(file, entry)
    return entries


def _text(file: Path) -> str:
    """Its text; a link may lead out of the course, and a pipe may never end."""
    try:
        if file.is_symlink() or not file.is_file() or file.stat().st_size > _MAX_BYTES:
            return ""
        return file.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError):
        return ""


def _loaded(file: Path) -> Any:
    try:
        text = _text(file)
        return json.loads(text) if file.suffix == ".json" else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError):
        return None


# --- mdBook ------------------------------------------------------------------------------------


def _mdbook(folder: str, summary: str) -> Iterator[tuple[str, Entry]]:
    """Top-level list items are the numbered chapters; what stands outside lists has no number."""
    tree = SyntaxTreeNode(MarkdownIt("commonmark").parse(summary))
    number = 0
    for node in tree.children:
        if node.type in ("bullet_list", "ordered_list"):
            for item in node.children:
                number += 1
                links = list(_links(item))
                chapter = links[0][0] if links else ""
                for title, target in links:
                    yield _joined(folder, target), Entry(title, chapter, number)
        else:
            for title, target in _links(node):
                yield _joined(folder, target), Entry(title, title)


def _links(node: SyntaxTreeNode) -> Iterator[tuple[str, str]]:
    for link in node.walk():
        if link.type == "link":
            words = "".join(child.content for child in link.walk() if child.content)
            yield words, str(link.attrs.get("href", ""))


def _joined(folder: str, target: str) -> str:
    return normpath(f"{folder}/{target.partition('#')[0]}" if folder else target.partition("#")[0])


# --- Lists in YAML -----------------------------------------------------------------------------


def _hugging_face(folder: str, content: Any) -> Iterator[tuple[str, Entry]]:
    for part in _dicts(content):
        chapter = str(part.get("title") or "")
        for section in _dicts(part.get("sections")):
            if local := section.get("local"):
                title = str(section.get("title") or "")
                yield _joined(folder, str(local)), Entry(title, chapter or title)
            yield from _hugging_face(folder, [section] if section.get("sections") else [])


def _jupyter_book(root: Path, folder: str, content: Any) -> Iterator[tuple[str, Entry]]:
    """A chapter is called after its own page, whose sections follow it."""
    tops = content if isinstance(content, list) else [content]
    for top in _dicts(tops):
        yield from _jupyter_chapters(root, folder, top)
        for part in _dicts(top.get("parts")):
            yield from _jupyter_chapters(root, folder, part)


def _jupyter_chapters(root: Path, folder: str, part: dict[str, Any]) -> Iterator[tuple[str, Entry]]:
    for chapter in [*_dicts(part.get("chapters")), *_dicts(part.get("sections"))]:
        file = str(chapter.get("file") or "")
        title = str(chapter.get("title") or page_title(root, _joined(folder, file)))
        yield _joined(folder, file), Entry(title, title)
        for section in _all_sections(chapter):
            name = str(section.get("title") or "")
            yield _joined(folder, str(section.get("file") or "")), Entry(name, title)


def _all_sections(chapter: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for section in _dicts(chapter.get("sections")):
        yield section
        yield from _all_sections(section)


def _dicts(content: Any) -> list[dict[str, Any]]:
    items = cast(list[Any], content) if isinstance(content, list) else []
    return [cast(dict[str, Any], item) for item in items if isinstance(item, dict)]


# --- Docusaurus --------------------------------------------------------------------------------


def _docusaurus(
    root: Path, files: list[str], folder: str, source: str
) -> Iterator[tuple[str, Entry]]:
    by_id: dict[str, str] = {}
    for file in reversed(files):
        path = PurePosixPath(file).relative_to(folder) if folder else PurePosixPath(file)
        parts = [strip_number_prefix(part) for part in path.with_suffix("").parts]
        if own := _DOC_ID.match(_text(root / file)):
            parts[-1] = own["id"]
        by_id["/".join(parts)] = file
        by_id["/".join(parts[1:] if parts[0] == "docs" else parts)] = file
    for doc_id, category in categories(source):
        if category and doc_id in by_id:
            yield by_id[doc_id], Entry(chapter=category)


# --- Sphinx ------------------------------------------------------------------------------------


def _sphinx(root: Path, site_root: str, files: list[str]) -> Iterator[tuple[str, Entry]]:
    """A page belongs to the one whose toctree lists it, under its caption if there is one."""
    for file in files:
        if not file.lower().endswith((".rst", ".md")):
            continue
        text = _text(root / file)
        if "toctree" not in text:
            continue
        is_root = PurePosixPath(file).stem.lower() == "index"
        chapter = "" if is_root else title_in(text, file)
        for match in _TOCTREE.finditer(text):
            caption = re.search(r":caption:[ \t]*([^\n]+)", match["body"])
            name = chapter or (caption[1].strip() if caption else "")
            for title, target in _toctree_targets(match["body"]):
                top = target.startswith("/")
                path = _joined(site_root, target[1:]) if top else _beside(file, target)
                yield path, Entry(title, name)


def _toctree_targets(body: str) -> Iterator[tuple[str, str]]:
    for line in body.splitlines():
        entry = line.strip()
        if not entry or entry.startswith(":") or "*" in entry or "://" in entry:
            continue
        if match := _TITLED_TARGET.fullmatch(entry):
            yield match["title"], match["target"]
        else:
            yield "", entry


def _beside(file: str, target: str) -> str:
    return normpath(str(PurePosixPath(file).parent / target))


def page_title(root: Path, target: str) -> str:
    """The title of a page named without its suffix, from a glance at it."""
    for suffix in ("", ".md", ".rst", ".ipynb", ".mdx", ".qmd"):
        path = root / f"{target}{suffix}"
        if path.is_file():
            return title_in(_text(path), path.name)
    return ""
