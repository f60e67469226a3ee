"""Where a page and its sections are found on the course's own site. No I/O here."""

import re
import unicodedata
from collections.abc import Callable, Iterable
from pathlib import PurePosixPath
from typing import Literal
from urllib.parse import quote, urljoin

UrlStyle = Literal["docusaurus", "mdbook", "sphinx", "plain"]

INDEX_PAGES = {"index", "readme"}
_NUMBER_PREFIX = re.compile(r"^\d+\s*[-_.]+\s*(?=[^-_.\s])")
_DATE_OR_VERSION = re.compile(r"^\d+[-_.]\d+")
_ATTRIBUTE = r"(?:[#.][\w.:-]+|[\w-]+=(?:\"[^\"]*\"|[^\s}]+))"
_HEADING_ATTRIBUTES = re.compile(rf"\s*\{{:?\s*(?P<all>{_ATTRIBUTE}(?:\s+{_ATTRIBUTE})*)\s*\}}\s*$")
# Letters, marks, numbers and joining punctuation stay in GitHub's anchors.
_KEPT_CATEGORIES = ("L", "M", "Nd", "Nl", "Pc")


def split_heading_id(heading: str) -> tuple[str, str | None]:
    """`Title {#custom}` as its text and its own anchor; `{.class}` is neither."""
    match = _HEADING_ATTRIBUTES.search(heading)
    if match is None:
        return heading.strip(), None
    custom = re.search(r"(?<!\S)#(\S+)", match["all"])
    return heading[: match.start()].strip(), custom[1] if custom else None


def github_slug(heading: str) -> str:
    kept = (
        character
        for character in heading.lower()
        if character in " -" or unicodedata.category(character).startswith(_KEPT_CATEGORIES)
    )
    return "".join(kept).replace(" ", "-")


def mdbook_slug(heading: str) -> str:
    kept = (
        "-" if character.isspace() else character
        for character in heading.strip()
        if character.isalnum() or character.isspace() or character in "_-"
    )
    return re.sub("[A-Z]", lambda match: match[0].lower(), "".join(kept))


def sphinx_slug(heading: str) -> str:
    """docutils' `make_id`: an ASCII name that begins with a letter."""
    ascii_only = unicodedata.normalize("NFKD", heading.lower()).encode("ascii", "ignore").decode()
    hyphenated = re.sub(r"[^a-z0-9]+", "-", " ".join(ascii_only.split()))
    return re.sub(r"^[-0-9]+|-+$", "", hyphenated)


_SLUGS: dict[UrlStyle, Callable[[str], str]] = {
    "docusaurus": github_slug,
    "plain": github_slug,
    "mdbook": mdbook_slug,
    "sphinx": sphinx_slug,
}


def anchors(headings: Iterable[str], style: UrlStyle) -> list[str]:
    """The anchor of every heading of one page, in order, as the site's generator names them."""
    taken: set[str] = set()
    found: list[str] = []
    nameless = 0
    for heading in headings:
        text, custom = split_heading_id(heading)
        wanted = custom or _SLUGS[style](text)
        if style == "sphinx" and (not wanted or wanted in taken):
            nameless += 1
            anchor = f"id{nameless}"
        else:
            anchor = wanted if custom else _free(wanted, taken)
        taken.add(anchor)
        found.append(anchor)
    return found


def _free(wanted: str, taken: set[str]) -> str:
    anchor, repeat = wanted, 0
    while anchor in taken:
        repeat += 1
        anchor = f"{wanted}-{repeat}"
    return anchor


def strip_number_prefix(name: str) -> str:
    """`01-intro` → `intro`; dates and versions such as `2024-01-post` or `8.0-notes` stay."""
    return name if _DATE_OR_VERSION.match(name) else _NUMBER_PREFIX.sub("", name)


def page_path(
    source_file: str, style: UrlStyle, slug: str | None = None, doc_id: str | None = None
) -> str:
    """The page's path below the site's base, without a leading slash."""
    if style == "plain":
        return source_file
    path = PurePosixPath(source_file)
    if style == "mdbook" and path.stem.lower() == "readme":
        return str(path.with_name("index.html"))
    if style in ("mdbook", "sphinx"):
        return str(path.with_suffix(".html"))
    return _docusaurus_path(path, slug, doc_id)


def _docusaurus_path(path: PurePosixPath, slug: str | None, doc_id: str | None) -> str:
    folders = [strip_number_prefix(folder) for folder in path.parent.parts]
    folder = "".join(f"{name}/" for name in folders)
    if slug:
        return urljoin(f"/{folder}", slug).lstrip("/")
    if path.stem.lower() in INDEX_PAGES or (folders and path.stem == path.parent.name):
        return folder
    return folder + (doc_id or strip_number_prefix(path.stem))


def page_url(
    course_id: str,
    source_file: str,
    *,
    base_url: str | None,
    style: UrlStyle,
    slug: str | None = None,
    doc_id: str | None = None,
    site_root: str = "",
) -> str:
    """The page on the course's site, or on our own reader when the course has no site."""
    if base_url is None:
        return f"/read/{quote(course_id)}/{quote(source_file)}"
    below = source_file.removeprefix(f"{site_root}/") if site_root else source_file
    return base_url.rstrip("/") + "/" + quote(page_path(below, style, slug, doc_id))


def section_url(page: str, anchor: str) -> str:
    return f"{page}#{quote(anchor)}" if anchor else page
