"""A Markdown or MDX page as sections of whole blocks. No I/O here.

Blocks are rendered back to plain, readable Markdown: links become their text, images their
description, and tags, imports, comments and diagrams disappear.
"""

import html
import re
from collections.abc import Callable, Iterable

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode
from mdit_py_plugins.admon import admon_plugin
from mdit_py_plugins.container import container_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin

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
from rag.ingestion.links import split_heading_id
from rag.ingestion.mdx import from_mdx

_FENCED_OR = r"(?ms)(^[ \t>]*(?P<fence>`{3,}|~{3,})[^\n]*\n.*?^[ \t>]*(?P=fence)[`~]*[ \t]*$)|"
_MDX_COMMENT = re.compile(_FENCED_OR + r"\{/\*(?P<comment>.*?)\*/\}")
_MDX_HEADING_ID = re.compile(r"\s*#([\w.:-]+)\s*")
_DIRECTIVE = re.compile(r"^[ \t]*\{\{\s*#[^}]*\}\}[ \t]*$\n?", re.M)
_DROPPED_ELEMENT = re.compile(r"<(script|style|svg|iframe|video)\b.*?</\1\s*>", re.S | re.I)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.S)
_IMAGE_TAG = re.compile(r"<img\b[^>]*?\balt=(?:\"([^\"]*)\"|'([^']*)')[^>]*>", re.I)
_BREAK_TAG = re.compile(
    r"<(?:br|hr)\s*/?>|</(?:p|div|li|tr|dt|dd|summary|caption|figcaption|h[1-6])\s*>", re.I
)
_NEXT_CELL = re.compile(r"</t[dh]\s*>\s*(?=<t[dh]\b)", re.I)
_TAG = re.compile(r"</?[A-Za-z][\w.:-]*(?:\s(?:\"[^\"]*\"|'[^']*'|\{[^}]*\}|[^>\"'{])*)?/?>|<>|</>")
_DIAGRAM_MARK = re.compile(r"`[\[({][^`\n]*[\])}]`")
LAYOUT = "layout"
"""A container of this name groups what it holds and says nothing itself."""
_NOT_PROSE = {"mermaid", "eval_rst"}

_Renderer = Callable[[Iterable[SyntaxTreeNode]], str]


def _parser() -> MarkdownIt:
    md = MarkdownIt("commonmark", {"maxNesting": 40}).enable(["table", "strikethrough"])
    container_plugin(md, "admonition", validate=lambda params, _: bool(params.strip()))
    admon_plugin(md)
    dollarmath_plugin(md, allow_space=False, allow_digits=False)
    return md


_MARKDOWN = _parser()
# In MDX, indentation inside a tag is layout, not a code listing.
_MDX = _parser().disable("code")


def parse_page(text: str, *, mdx: bool = False) -> list[RawSection]:
    """The page's sections in order; the first has no heading when text stands above them all."""
    if mdx:
        text = from_mdx(text)
    parser = _MDX if mdx else _MARKDOWN
    tree = SyntaxTreeNode(parser.parse(_without_mdx_comments(text)))
    sections = [RawSection(None)]
    for node in tree.children:
        if node.type == "heading":
            leads = len(sections) == 1 and not sections[0].blocks
            sections.append(RawSection(_heading(node, leads)))
        else:
            sections[-1].blocks.extend(_blocks(node))
    return [section for section in sections if section.heading or section.blocks]


def _without_mdx_comments(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        if match["fence"]:
            return match[0]
        custom = _MDX_HEADING_ID.fullmatch(match["comment"])
        return f"{{#{custom[1]}}}" if custom else ""

    return _MDX_COMMENT.sub(replace, text) if "{/*" in text else text


def _heading(node: SyntaxTreeNode, leads: bool) -> Heading:
    raw = " ".join(_plain(_children(node)).split())
    text, _ = split_heading_id(raw)
    return Heading(level=int(node.tag[1]), text=text, raw=raw, leads=leads)


def _blocks(node: SyntaxTreeNode) -> list[Block]:
    block = _block(node)
    return [block] if block.text.strip() else []


def _block(node: SyntaxTreeNode) -> Block:
    match node.type:
        case "paragraph":
            return Block(_paragraph(node))
        case "fence" | "code_block":
            return _listing(node)
        case "bullet_list" | "ordered_list":
            return _list(node)
        case "table":
            return _table(node)
        case "blockquote":
            return framed(_nested(node), "> ")
        case "container_admonition" | "admonition":
            return _admonition(node)
        case "html_block":
            return Block(_without_tags(node.content).strip())
        case "math_block" | "math_block_label":
            return Block(f"$$\n{node.content.strip()}\n$$")
        case "heading":
            return Block(f"**{_heading(node, leads=False).text}**")
        case _:
            return Block("")


def _nested(node: SyntaxTreeNode) -> list[Block]:
    return [block for child in node.children for block in _blocks(child)]


def _paragraph(node: SyntaxTreeNode) -> str:
    source = node.children[0].content
    if not source.strip(" :\t"):
        return ""  # the end of a container that was closed already
    if "{{" in source and not _DIRECTIVE.sub("", source).strip():
        return ""
    lines = (line.strip() for line in _inline(_children(node)).splitlines())
    return "\n".join(line for line in lines if line)


def _listing(node: SyntaxTreeNode) -> Block:
    language = re.split(r"[\s,{]", node.info.strip(), maxsplit=1)[0]
    if language.lower().strip("{}") in _NOT_PROSE:
        return Block("")
    code = _DIRECTIVE.sub("", node.content)
    if language == "aquascope":  # Rust with marks for a diagram
        language, code = "rust", _DIAGRAM_MARK.sub("", code)
    return listing(code, language)


def _list(node: SyntaxTreeNode) -> Block:
    first = int(node.attrs.get("start", 1)) if node.type == "ordered_list" else 0
    items: list[Block] = []
    for position, item in enumerate(node.children):
        marker = f"{first + position}. " if node.type == "ordered_list" else "- "
        children = _nested(item)
        if children:
            tight = all(child.hidden for child in item.children if child.type == "paragraph")
            items.append(framed(children, marker, "\n" if tight else "\n\n"))
    return item_list(items)


def _table(node: SyntaxTreeNode) -> Block:
    rows = [row for group in node.children for row in group.children]
    return table([[_inline(_children(cell)) for cell in row.children] for row in rows])


def _admonition(node: SyntaxTreeNode) -> Block:
    children = [
        block
        for child in node.children
        if child.type != "admonition_title"
        for block in _blocks(child)
    ]
    return titled(_admonition_title(node), children) if children else Block("")


def _admonition_title(node: SyntaxTreeNode) -> str:
    """`note Title`, `note[Title]` or `note "Title"`, else the kind itself: `Note`."""
    if node.info.strip() == LAYOUT:
        return ""
    kind, _, title = re.sub(r"[\[{\"]", " ", node.info.strip(), count=1).partition(" ")
    title = re.sub(r"[\]}\"]\s*$", "", title.strip()).strip()
    return _plain(_children(SyntaxTreeNode(_MARKDOWN.parseInline(title)))) or kind.capitalize()


def _children(node: SyntaxTreeNode) -> list[SyntaxTreeNode]:
    return [child for inline in node.children for child in inline.children]


def _inline(nodes: Iterable[SyntaxTreeNode]) -> str:
    return "".join(_inline_node(node) for node in nodes)


def _inline_node(node: SyntaxTreeNode) -> str:
    match node.type:
        case "code_inline":
            ticks = "``" if "`" in node.content else "`"
            pad = " " if "`" in node.content else ""
            return f"{ticks}{pad}{node.content}{pad}{ticks}"
        case "strong" | "em" | "s":
            inner = _inline(node.children)
            return f"{node.markup}{inner}{node.markup}" if inner.strip() else inner
        case "math_inline" | "math_inline_double":
            marks = "$" if node.type == "math_inline" else "$$"
            return f"{marks}{node.content}{marks}"
        case _:
            return _plain_node(node, _inline)


def _plain(nodes: Iterable[SyntaxTreeNode]) -> str:
    """The words alone, as headings and anchors need them."""
    return "".join(_plain_node(node, _plain) for node in nodes)


def _plain_node(node: SyntaxTreeNode, inner: _Renderer) -> str:
    match node.type:
        case "softbreak":
            return " "
        case "hardbreak":
            return "\n"
        case "image":
            return _plain(node.children)
        case "html_inline":
            return _without_tags(node.content)
        case _:
            return inner(node.children) if node.children else node.content


def _without_tags(source: str) -> str:
    source = _COMMENT.sub("", _DROPPED_ELEMENT.sub("", source))
    source = _IMAGE_TAG.sub(lambda match: match[1] or match[2] or "", source)
    source = _TAG.sub("", _BREAK_TAG.sub("\n", _NEXT_CELL.sub(" | ", source)))
    lines = (line.strip() for line in html.unescape(source).split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines))
