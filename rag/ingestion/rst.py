"""A reStructuredText page, plain or Sphinx's, as sections of whole blocks.

docutils reads it. Directives and roles that only Sphinx or its extensions know are not run: a few
are understood, the others keep their text. Nothing is ever drawn in from outside the course folder.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from docutils import nodes
from docutils.core import publish_doctree
from docutils.utils import SystemMessage

from rag.ingestion.blocks import (
    Block,
    Heading,
    RawSection,
    framed,
    item_list,
    listing,
    table,
    titled,
)
from rag.ingestion.sphinx_markup import prepare, role_text

ReadIncluded = Callable[[str], str | None]
"""The text of a file that the page includes, or None where that is not possible."""

_SETTINGS: dict[str, Any] = {
    "report_level": 5,
    "halt_level": 5,
    "warning_stream": False,
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "doctitle_xform": False,
    "docinfo_xform": False,
    "sectsubtitle_xform": False,
    "syntax_highlight": "none",
    "auto_id_prefix": "id",  # as Sphinx sets it, so that its anchors are ours
    "smart_quotes": False,
    "_disable_config": True,
    "line_length_limit": 1_000_000,
}
_SILENT = (
    nodes.comment,
    nodes.target,
    nodes.substitution_definition,
    nodes.system_message,
    nodes.raw,
    nodes.pending,
    nodes.transition,
    nodes.decoration,
    nodes.meta,
)
_COUNTED_ID = re.compile(r"id\d+")
_NO_LANGUAGE = {"code", "none", "default", "literal-block"}


class UnparsablePage(Exception):
    """docutils gave up on the page."""


def parse_rst(text: str, read_included: ReadIncluded = lambda target: None) -> list[RawSection]:
    """The page's sections in order; the first has no heading when text stands above them all."""
    prepare(text)
    settings = _SETTINGS | {"read_included": read_included}
    try:
        document = publish_doctree(text, settings_overrides=settings)
    except SystemMessage as error:
        raise UnparsablePage(str(error)) from error
    sections = [RawSection(None)]
    _walk(document, 0, sections)
    return [section for section in sections if section.heading or section.blocks]


def _walk(parent: nodes.Element, level: int, sections: list[RawSection]) -> None:
    for node in parent.children:
        if isinstance(node, nodes.section):
            leads = len(sections) == 1 and not sections[0].blocks
            sections.append(RawSection(_heading(node, level + 1, leads)))
            _walk(node, level + 1, sections)
        elif not isinstance(node, nodes.title):
            sections[-1].blocks.extend(_blocks(node))


def _heading(section: nodes.section, level: int, leads: bool) -> Heading:
    title = section.next_node(nodes.title)
    text = " ".join(title.astext().split()) if title is not None else ""
    # A label above a heading takes its name, and the section gets both anchors.
    ids = sorted(section["ids"], key=lambda id: bool(_COUNTED_ID.fullmatch(id)))
    raw = f"{text} {{#{ids[0]}}}" if ids else text
    return Heading(level=level, text=text, raw=raw, leads=leads)


def _blocks(node: nodes.Node) -> list[Block]:
    block = _block(node)
    return [block] if block.text.strip() else []


def _nested(node: nodes.Element) -> list[Block]:
    return [block for child in node.children for block in _blocks(child)]


def _block(node: nodes.Node) -> Block:
    if isinstance(node, nodes.Text):
        return Block(node.astext().strip())
    if isinstance(node, _SILENT) or not isinstance(node, nodes.Element):
        return Block("")
    for kind, render in _RENDERERS:
        if isinstance(node, kind):
            return render(node)
    return _group(node) if _holds_blocks(node) else Block(_inline(node))


def _holds_blocks(node: nodes.Element) -> bool:
    return any(isinstance(child, nodes.Body | nodes.Part) for child in node.children)


def _group(node: nodes.Element) -> Block:
    children = _nested(node)
    return Block("\n\n".join(child.text for child in children), tuple(children))


# --- Blocks ------------------------------------------------------------------------------------


def _paragraph(node: nodes.Element) -> Block:
    return Block(_inline(node))


def _literal(node: nodes.Element) -> Block:
    names = [name for name in node["classes"] if name not in _NO_LANGUAGE]
    return listing(node.astext(), names[0] if names else "")


def _bullets(node: nodes.Element) -> Block:
    items = [_item(item, "- ") for item in node.children]
    return item_list([item for item in items if item.text])


def _numbered(node: nodes.Element) -> Block:
    first = int(node.get("start", 1))
    items = [_item(item, f"{first + n}. ") for n, item in enumerate(node.children)]
    return item_list([item for item in items if item.text])


def _item(node: nodes.Node, marker: str) -> Block:
    children = _nested(node) if isinstance(node, nodes.Element) else []
    tight = sum(not child.parts for child in children) <= 1
    return framed(children, marker, "\n" if tight else "\n\n") if children else Block("")


def _definitions(node: nodes.Element) -> Block:
    items = [_definition(item) for item in node.children if isinstance(item, nodes.Element)]
    return Block("\n\n".join(item.text for item in items), tuple(items))


def _definition(item: nodes.Element) -> Block:
    terms = [_inline(child) for child in item.children if isinstance(child, nodes.term)]
    body = [b for c in item.children if isinstance(c, nodes.definition) for b in _nested(c)]
    return titled(", ".join(terms), body)


def _field(node: nodes.Element) -> Block:
    name, body = (node.children[0], node.children[1]) if len(node.children) > 1 else (node, None)
    texts = _nested(body) if isinstance(body, nodes.Element) else []
    return framed(texts, f"{name.astext()}: ") if texts else Block("")


def _table(node: nodes.Element) -> Block:
    rows = [[_cell(entry) for entry in row.children] for row in node.findall(nodes.row)]
    width = max((len(row) for row in rows), default=0)
    title = next((_inline(child) for child in node.children if isinstance(child, nodes.title)), "")
    if not width:
        return Block("")
    whole = table([row + [""] * (width - len(row)) for row in rows])
    return titled(title, [whole]) if title else whole


def _cell(entry: nodes.Node) -> str:
    texts = [block.text for block in _nested(entry)] if isinstance(entry, nodes.Element) else []
    return " ".join(texts)


def _admonition(node: nodes.Element) -> Block:
    own = [child for child in node.children if isinstance(child, nodes.title)]
    title = _inline(own[0]) if own else node.tagname.capitalize()
    children = [b for c in node.children if not isinstance(c, nodes.title) for b in _blocks(c)]
    return titled(title, children) if children else Block("")


def _topic(node: nodes.Element) -> Block:
    return Block("") if "contents" in node["classes"] else _admonition(node)


def _image(node: nodes.Element) -> Block:
    return Block(node.get("alt", "").strip())


def _math(node: nodes.Element) -> Block:
    return Block(f"$$\n{node.astext().strip()}\n$$")


def _rubric(node: nodes.Element) -> Block:
    return Block(f"**{_inline(node)}**")


def _footnote(node: nodes.Element) -> Block:
    label = next((c.astext() for c in node.children if isinstance(c, nodes.label)), "")
    body = [b for c in node.children if not isinstance(c, nodes.label) for b in _blocks(c)]
    return framed(body, f"[{label}] ") if body else Block("")


def _lines(node: nodes.Element) -> Block:
    return Block("\n".join(_inline(line) for line in node.findall(nodes.line)))


_RENDERERS: Sequence[tuple[Any, Callable[[nodes.Element], Block]]] = (
    (nodes.paragraph, _paragraph),
    ((nodes.literal_block, nodes.doctest_block), _literal),
    (nodes.bullet_list, _bullets),
    (nodes.enumerated_list, _numbered),
    (nodes.definition_list, _definitions),
    (nodes.field, _field),
    (nodes.table, _table),
    (nodes.Admonition, _admonition),
    ((nodes.topic, nodes.sidebar), _topic),
    (nodes.image, _image),
    (nodes.math_block, _math),
    (nodes.rubric, _rubric),
    ((nodes.footnote, nodes.citation), _footnote),
    (nodes.line_block, _lines),
)


# --- Inline ------------------------------------------------------------------------------------


def _inline(node: nodes.Element) -> str:
    lines = (" ".join(line.split()) for line in _texts(node.children).split("\n\n"))
    return "\n".join(line for line in lines if line)


def _texts(children: Iterable[nodes.Node]) -> str:
    return "".join(_text(child) for child in children)


def _text(node: nodes.Node) -> str:
    if isinstance(node, nodes.Text):
        return node.astext()
    if isinstance(node, _SILENT) or not isinstance(node, nodes.Element):
        return ""
    if isinstance(node, nodes.literal):
        return f"`{node.astext()}`"
    if isinstance(node, nodes.math):
        return f"${node.astext()}$"
    if isinstance(node, nodes.image):
        return node.get("alt", "")
    if isinstance(node, nodes.footnote_reference | nodes.citation_reference):
        return f"[{node.astext()}]"
    if isinstance(node, nodes.title_reference):
        return role_text("", node.astext())
    marks = {"strong": "**", "emphasis": "*"}.get(node.tagname, "")
    inner = _texts(node.children)
    return f"{marks}{inner}{marks}" if inner.strip() else inner
