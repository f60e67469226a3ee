"""A page's headings made into a hierarchy of sections with anchors. No I/O here."""

from dataclasses import dataclass

from rag.ingestion.blocks import Block, Heading, RawSection
from rag.ingestion.links import UrlStyle, anchors


@dataclass(frozen=True)
class Section:
    """What stands under one heading."""

    path: tuple[str, ...]
    """The headings it stands under, below the page's title; empty for the page's opening."""
    anchors: tuple[str, ...]
    """The anchor of each of these headings."""
    blocks: tuple[Block, ...]


def title_heading(raw: list[RawSection], *, named: bool = False) -> Heading | None:
    """The heading that names the page: its first h1, else one that leads the page.

    Where the page is `named` in another way, only a single h1 says the same once more.
    """
    headings = [section.heading for section in raw if section.heading]
    highest = [heading for heading in headings if heading.level == 1]
    if named:
        return highest[0] if len(highest) == 1 else None
    if not highest and headings and headings[0].leads:
        return headings[0]
    return highest[0] if highest else None


def sections_under(
    raw: list[RawSection], title: Heading | None, style: UrlStyle
) -> tuple[Section, ...]:
    """Every stretch of text with the headings it stands under, but without the page's title."""
    headings = [section.heading for section in raw if section.heading]
    names = iter(anchors([heading.raw for heading in headings], style))
    above: list[tuple[Heading, str]] = []
    sections: list[Section] = []
    for section in raw:
        if section.heading:
            anchor = next(names)
            above = [entry for entry in above if entry[0].level < section.heading.level]
            if section.heading is not title and section.heading.text:
                above.append((section.heading, anchor))
        if section.blocks:
            path = tuple(heading.text for heading, _ in above)
            where = tuple(anchor for _, anchor in above)
            sections.append(Section(path, where, tuple(section.blocks)))
    return tuple(sections)
