"""Replies as messages within a platform's limits: an answer in, a list of messages out, no I/O."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any
from unicodedata import east_asian_width
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.tree import SyntaxTreeNode
from mdit_py_plugins.dollarmath import dollarmath_plugin

from adapters.delivery import Draft, Reply
from rag.types import AgentResponse, Citation, SearchResult, State

SLACK_MESSAGE_LIMIT = 4_000
SLACK_SECTION_LIMIT = 3_000
DISCORD_MESSAGE_LIMIT = 2_000

LONGEST_ATOM = 1_000
"""Links and emphasis are never split; longer ones are shown as plain words."""
LONGEST_WORD = 250
"""Longer words are cut; short enough that no escaping makes a piece exceed a limit."""
EXCERPT_CHARACTERS = 160
NO_BREAK = "\u200b"
"""Put into what would ping or end a code block; a reader does not see it."""

SEARCHING = "Searching the book…"
WRITING = "Writing…"
STATE_LINES: dict[State, str] = {"PENDING": SEARCHING, "RETRIEVING": SEARCHING}
NOTHING_FOUND = "Nothing in the book fits these words."


@dataclass(frozen=True)
class SlackMessage:
    """One Slack message; `text` says the same as the blocks, for when they are rejected."""

    text: str
    blocks: list[dict[str, Any]] | None


def slack_messages(reply: Reply, links: bool) -> list[SlackMessage]:
    return _slack(_reply(reply, _Writer(SLACK, links, _numbered(reply.citations))))


def discord_messages(reply: Reply, links: bool) -> list[str]:
    pieces = _reply(reply, _Writer(DISCORD, links, _numbered(reply.citations)))
    return _pack(pieces, DISCORD, DISCORD_MESSAGE_LIMIT)


def slack_sections(results: Sequence[SearchResult], links: bool) -> list[SlackMessage]:
    """The sections that a lookup found, as a list."""
    return _slack(_found(results, _Writer(SLACK, links)))


def discord_sections(results: Sequence[SearchResult], links: bool) -> list[str]:
    """The sections that a lookup found, as a list."""
    return _pack(_found(results, _Writer(DISCORD, links)), DISCORD, DISCORD_MESSAGE_LIMIT)


def _numbered(citations: list[Citation]) -> dict[int, Citation]:
    return {citation.n: citation for citation in citations}


# --- What the platforms write differently --------------------------------------------------------


@dataclass(frozen=True)
class _Dialect:
    bold: str
    italic: str
    strike: str
    bullet: str
    indent: str
    languages: bool
    """Whether the language after an opening fence is understood, or shown as code."""
    heading: Callable[[int, str], str]
    escape: Callable[[str], str]
    escape_code: Callable[[str], str]
    inline_code: Callable[[str], str]
    link: Callable[[str, str], str]
    ping: re.Pattern[str]
    """Where a character must come between, lest someone is called."""
    ping_in_code: bool


def _slack_escape_code(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _slack_escape(text: str) -> str:
    return _slack_escape_code(text.replace("`", "ˋ"))


def _slack_code(code: str) -> str:
    return f"`{_slack_escape(code)}`"


def _slack_link(url: str, label: str) -> str:
    return f"<{_slack_escape_code(_safe_url(url))}|{_slack_escape(_safe_label(label))}>"


def _discord_escape(text: str) -> str:
    # A heading or a subtext starts with these; anywhere else the backslash is not seen.
    shown = re.sub(r"(?<!\S)(?=(?:#{1,3}|-#)\s|(?:#{1,3}|-#)$)", r"\\", text)
    return re.sub(r"([*_~`|<>]|\\(?!#|-#))", r"\\\1", shown)


def _discord_code(code: str) -> str:
    if "`" not in code:
        return f"`{code}`"
    return f"`` {code.replace('``', f'`{NO_BREAK}`')} ``"


def _discord_link(url: str, label: str) -> str:
    text = _discord_escape(_safe_label(label))
    # The angle brackets keep Discord from adding a preview.
    return f"[{text}](<{_safe_url(url)}>)"


def _safe_url(url: str) -> str:
    """The address with everything encoded that could end the link around it, or ping."""
    return re.sub(r"[\s<>|()\[\]\\`\"@*]", lambda hit: f"%{ord(hit[0]):02X}", url)


def _safe_label(label: str) -> str:
    """Neither platform can escape these inside a link's label."""
    plain = label.translate(str.maketrans("[]|", "()/", "`"))
    return " ".join(plain.split())[:LONGEST_WORD]


SLACK = _Dialect(
    bold="*",
    italic="_",
    strike="~",
    bullet="•",
    indent="    ",
    languages=False,
    heading=lambda _level, text: f"*{text}*",
    escape=_slack_escape,
    escape_code=_slack_escape_code,
    inline_code=_slack_code,
    link=_slack_link,
    ping=re.compile(r"@(?=channel|here|everyone)", re.IGNORECASE),
    ping_in_code=False,
)
DISCORD = _Dialect(
    bold="**",
    italic="*",
    strike="~~",
    bullet="-",
    indent="  ",
    languages=True,
    heading=lambda level, text: f"{'#' * min(level, 3)} {text}",
    escape=_discord_escape,
    escape_code=str,
    inline_code=_discord_code,
    link=_discord_link,
    ping=re.compile(r"@(?=everyone|here|[!&]?\d)", re.IGNORECASE),
    ping_in_code=True,
)


# --- Parsing -------------------------------------------------------------------------------------

_MARKER = r'\[([1-9]\d*(?:\s*,\s*[1-9]\d*)*)(?:\|"[^"\n]*")?\]'
_MARKERS = re.compile(rf"{_MARKER}(?:[ \t]*{_MARKER})*")
_ADDRESS = re.compile(r"https?://[^\s<>\"'`]+[^\s<>\"'`.,:;!?)\]*_]")
_UNFINISHED_MARKER = re.compile(r"\s*\[[\d\s,]*(?:\|[^\]]*)?$")


def _citation_rule(state: StateInline, silent: bool) -> bool:
    """Markers that stand side by side become one token; code never gets here."""
    if not (found := _MARKERS.match(state.src, state.pos)):
        return False
    if not silent:
        token = state.push("citation", "", 0)
        numbers = re.findall(r"\d+", re.sub(r'\|"[^"\n]*"', "", found[0]))
        token.meta = {"numbers": list(dict.fromkeys(map(int, numbers)))}
    state.pos = found.end()
    return True


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    # A line such as "[1]: …" would otherwise turn the marker [1] into a link of the model's own.
    parser.disable(["reference", "html_block", "html_inline"])
    parser.use(dollarmath_plugin, allow_space=False, allow_digits=False)
    parser.inline.ruler.before("link", "citation", _citation_rule)
    return parser


_MARKDOWN = _parser()


# --- From tokens to pieces -----------------------------------------------------------------------


@dataclass(frozen=True)
class _Piece:
    """A paragraph, as words that are never split, or a block of code, as lines."""

    atoms: list[str]
    first: str = ""
    """What the first line starts with: a bullet, a quotation mark."""
    rest: str = ""
    """What every other line starts with."""
    gap: str = "\n\n"
    """What separates it from the piece before."""
    language: str | None = None
    """None for prose."""


@dataclass(frozen=True)
class _Writer:
    """Turns Markdown into pieces of one platform's dialect."""

    dialect: _Dialect
    links: bool
    citations: dict[int, Citation] = field(default_factory=dict[int, Citation])

    def markdown(self, text: str) -> Iterator[_Piece]:
        yield from self.blocks(SyntaxTreeNode(_MARKDOWN.parse(text)).children)

    def blocks(
        self, nodes: Sequence[SyntaxTreeNode], first: str = "", rest: str = "", gap: str = "\n\n"
    ) -> Iterator[_Piece]:
        for number, node in enumerate(nodes):
            yield from self.block(node, first if number == 0 else rest, rest, gap)
            gap = "\n" if rest and node.type != "fence" else "\n\n"

    def block(self, node: SyntaxTreeNode, first: str, rest: str, gap: str) -> Iterator[_Piece]:
        match node.type:
            case "fence" | "code_block" | "math_block":
                yield self.code(node, gap)
            case "table":
                yield _Piece(self.table(node), gap=gap, language="")
            case "bullet_list" | "ordered_list":
                yield from self.items(node, rest, gap)
            case "blockquote":
                yield from self.blocks(node.children, f"{first}> ", f"{rest}> ", gap)
            case "heading":
                yield _Piece(self.heading(node), first, rest, gap)
            case "hr":
                yield _Piece(["───"], first, rest, gap)
            case _:
                yield _Piece(self.inline(node.children), first, rest, gap)

    def heading(self, node: SyntaxTreeNode) -> list[str]:
        atoms = self.inline(node.children, bold=False)
        title = "".join(atoms).strip()
        if _size(title) > LONGEST_ATOM or not title:
            return atoms
        return [self.dialect.heading(int(node.tag[1:]), title)]

    def items(self, node: SyntaxTreeNode, indent: str, gap: str) -> Iterator[_Piece]:
        start = int(node.attrs.get("start", 1))
        for number, item in enumerate(node.children, start):
            mark = self.dialect.bullet if node.type == "bullet_list" else f"{number}."
            inner = indent + self.dialect.indent
            yield from self.blocks(item.children, f"{indent}{mark} ", inner, gap)
            gap = "\n"

    def code(self, node: SyntaxTreeNode, gap: str) -> _Piece:
        named = re.match(r"[\w+#.-]{1,20}", node.info) if self.dialect.languages else None
        lines = node.content.strip("\n").split("\n")
        return _Piece(lines, gap=gap, language=named[0] if named else "")

    def table(self, node: SyntaxTreeNode) -> list[str]:
        plain = _Writer(_PLAIN, False, self.citations)
        cells = [
            ["".join(plain.inline(cell.children)).strip() for cell in row.children]
            for part in node.children
            for row in part.children
        ]
        return _aligned(cells)

    def inline(self, nodes: Sequence[SyntaxTreeNode], bold: bool = True) -> list[str]:
        atoms: list[str] = []
        for number, node in enumerate(nodes):
            if node.type == "citation":
                self.cite(atoms, node.meta["numbers"])
            elif _inside_word(nodes, number):
                mark = self.words(node.markup)
                atoms += [*mark, *self.inline(node.children, bold), *mark]
            else:
                atoms += self.span(node, bold)
        return atoms

    def span(self, node: SyntaxTreeNode, bold: bool) -> list[str]:
        match node.type:
            case "text":
                return self.words(node.content)
            case "softbreak":
                return [" "]
            case "hardbreak":
                return ["\n"]
            case "code_inline" | "math_inline":
                return [self.dialect.inline_code(part) for part in _cut(node.content, LONGEST_WORD)]
            case "strong":
                inner = self.inline(node.children, bold=False)
                return _wrapped(inner, self.dialect.bold) if bold else inner
            case "em":
                return _wrapped(self.inline(node.children, bold), self.dialect.italic)
            case "s":
                return _wrapped(self.inline(node.children, bold), self.dialect.strike)
            case "link" | "image":
                return self.link(node, bold)
            case _:
                return self.inline(node.children, bold)

    def words(self, text: str) -> list[str]:
        words = re.findall(r"\S+\s*|\s+", text)
        return [atom for word in words for atom in self.word(word)]

    def word(self, word: str) -> list[str]:
        """One word, escaped, unless it is an address, which escaping would change."""
        found = _ADDRESS.search(word)
        if not found or len(word) > LONGEST_WORD * 2:
            return [self.dialect.escape(part) for part in _cut(word, LONGEST_WORD)]
        before, after = word[: found.start()], word[found.end() :]
        address = f"<{self.dialect.escape_code(_safe_url(found[0]))}>"
        return [
            part
            for part in (self.dialect.escape(before), address, self.dialect.escape(after))
            if part
        ]

    def link(self, node: SyntaxTreeNode, bold: bool) -> list[str]:
        url = str(node.attrs.get("href") or node.attrs.get("src") or "")
        label = _label(node)
        if label and (shown := self.linked(label, url)):
            return [shown]
        return self.inline(node.children, bold) if node.type == "link" else self.words(label)

    def linked(self, label: str, url: str) -> str | None:
        """A link, if the address is one that readers can open and short enough to be sent."""
        shown = self.dialect.link(url, label) if _is_public(url) else ""
        return shown if 0 < _size(shown) <= LONGEST_ATOM else None

    def cite(self, atoms: list[str], numbers: list[int]) -> None:
        known = [self.citations[number] for number in numbers if number in self.citations]
        shown = list(dict.fromkeys(self.reference(one.label, one.url) for one in known))
        while atoms and not atoms[-1].strip(" "):
            atoms.pop()
        if atoms:
            atoms[-1] = atoms[-1].rstrip(" ")
        if shown:
            lead = " " if atoms and not atoms[-1].endswith("\n") else ""
            joined = [f"{reference}; " for reference in shown[:-1]]
            atoms += _bracketed([*joined, shown[-1]], lead)

    def reference(self, label: str, url: str) -> str:
        shown = self.linked(label, url) if self.links else None
        return shown or self.dialect.escape(_safe_label(label))

    def line(self, text: str, mark: str = "", gap: str = "\n\n") -> _Piece:
        return _Piece(_wrapped(self.words(" ".join(text.split())), mark), gap=gap)

    def listed(self, citations: Sequence[Citation]) -> Iterator[_Piece]:
        entries = dict.fromkeys(self.reference(_place(one), one.url) for one in citations)
        for number, entry in enumerate(entries, 1):
            yield _Piece([f"{number}. {entry}"], gap="\n")


_PLAIN = _Dialect(
    bold="",
    italic="",
    strike="",
    bullet="-",
    indent="  ",
    languages=False,
    heading=lambda _level, text: text,
    escape=str,
    escape_code=str,
    inline_code=str,
    link=lambda _url, label: label,
    ping=SLACK.ping,
    ping_in_code=False,
)
"""For the cells of a table, which are escaped as code afterwards."""


def _reply(reply: Reply, writer: _Writer) -> Iterator[_Piece]:
    if isinstance(reply, Draft):
        yield from writer.markdown(_UNFINISHED_MARKER.sub("", reply.text))
        yield writer.line(STATE_LINES.get(reply.state, WRITING), writer.dialect.italic)
    else:
        yield from _answer(reply, writer)


def _answer(response: AgentResponse, writer: _Writer) -> Iterator[_Piece]:
    yield from writer.markdown(response.content)
    if response.notice:
        yield writer.line(response.notice, writer.dialect.italic)
    named = response.closest if response.kind == "refusal" else response.citations
    if named and response.kind != "chat":
        title = "Closest sections:" if response.kind == "refusal" else "Sources:"
        yield writer.line(title, writer.dialect.bold)
        yield from writer.listed(named)


def _found(results: Sequence[SearchResult], writer: _Writer) -> Iterator[_Piece]:
    if not results:
        yield writer.line(NOTHING_FOUND)
    for number, result in enumerate(results, 1):
        citation = Citation.of(result, number)
        yield _Piece([f"{number}. {writer.reference(_place(citation), citation.url)}"])
        yield writer.line(_excerpt(result.text), gap="\n")


def _place(citation: Citation) -> str:
    """`Chapter 3: ROS 2 — Communication patterns`, as the list of sources names it."""
    name = citation.chapter_name
    same = citation.section in (name, citation.chapter_title)
    return name if same else f"{name} — {citation.section}"


def _excerpt(text: str) -> str:
    flat = " ".join(text.split())
    if len(flat) <= EXCERPT_CHARACTERS:
        return flat
    return flat[:EXCERPT_CHARACTERS].rsplit(" ", 1)[0] + "…"


def _is_public(url: str) -> bool:
    return url.startswith(("http://", "https://")) and bool(urlsplit(url).netloc)


def _label(node: SyntaxTreeNode) -> str:
    if node.type in ("text", "code_inline"):
        return node.content
    return "".join(_label(child) for child in node.children) or node.content


def _inside_word(nodes: Sequence[SyntaxTreeNode], number: int) -> bool:
    """Whether this emphasis is none: the stars of `2*3*4` are meant as they stand."""
    if nodes[number].type not in ("em", "strong", "s") or not 0 < number < len(nodes) - 1:
        return False
    before, after = nodes[number - 1], nodes[number + 1]
    return (
        before.type == after.type == "text" and (before.content[-1:] + after.content[:1]).isalnum()
    )


def _wrapped(atoms: list[str], mark: str) -> list[str]:
    """The words between two marks, as one atom, so that no split separates the marks."""
    text = "".join(atoms)
    inner = text.strip()
    if not mark or not inner or _size(inner) > LONGEST_ATOM or "\n" in inner:
        return atoms
    return [text.replace(inner, f"{mark}{inner}{mark}", 1)]


def _bracketed(atoms: list[str], lead: str) -> list[str]:
    atoms[0] = f"{lead}({atoms[0]}"
    atoms[-1] = f"{atoms[-1]})"
    return atoms


def _aligned(rows: list[list[str]]) -> list[str]:
    """A table's rows as lines of equal columns, with a rule under the head."""
    columns = list(zip(*rows, strict=True))
    widths = [max(map(_width, column)) for column in columns]
    lines = [
        "  ".join(
            cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)
        )
        for row in rows
    ]
    rule = "  ".join("-" * width for width in widths)
    return [line.rstrip() for line in (lines[0], rule, *lines[1:])]


def _width(text: str) -> int:
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)


# --- From pieces to messages ---------------------------------------------------------------------


def _slack(pieces: Iterator[_Piece]) -> list[SlackMessage]:
    messages: list[SlackMessage] = []
    group: list[str] = []
    for section in _pack(pieces, SLACK, SLACK_SECTION_LIMIT):
        if group and _size("\n\n".join([*group, section])) > SLACK_MESSAGE_LIMIT:
            messages.append(_slack_message(group))
            group = []
        group.append(section)
    return [*messages, _slack_message(group)]


def _slack_message(sections: list[str]) -> SlackMessage:
    # Verbatim: Slack must not look for names and channels to link in what was generated.
    blocks: list[dict[str, Any]] = [
        {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}
        for text in sections
    ]
    return SlackMessage("\n\n".join(sections), blocks)


def _pack(pieces: Iterator[_Piece], dialect: _Dialect, limit: int) -> list[str]:
    """The pieces in as few messages as possible; one is split only if it exceeds a message."""
    messages: list[str] = []
    for piece in pieces:
        for number, part in enumerate(_parts(piece, dialect, limit)):
            joined = messages[-1] + piece.gap + part if messages else part
            if number == 0 and messages and _size(joined) <= limit:
                messages[-1] = joined
            else:
                messages.append(part)
    return messages or ["…"]


def _parts(piece: _Piece, dialect: _Dialect, limit: int) -> list[str]:
    if piece.language is not None:
        return _code_parts(piece.atoms, piece.language, dialect, limit)
    parts: list[str] = []
    current = piece.first
    atoms = _quiet(piece.atoms, dialect.ping)
    for atom in (atom.replace("\n", f"\n{piece.rest}") for atom in atoms):
        if _size(current + atom.rstrip()) > limit:
            parts.append(current.rstrip())
            current = piece.rest
        current += atom
    parts.append(current.rstrip())
    return parts if "".join(piece.atoms).strip() else []


def _code_parts(lines: list[str], language: str, dialect: _Dialect, limit: int) -> list[str]:
    """The code in one fence, or in as many as its length needs, each opened and closed again."""
    opening, closing = f"```{language}\n", "\n```"
    room = limit - len(opening) - len(closing)
    parts: list[str] = []
    for line in _fitting(lines, dialect, room):
        if parts and _size(parts[-1]) + 1 + _size(line) <= room:
            parts[-1] += f"\n{line}"
        else:
            parts.append(line)
    return [f"{opening}{part}{closing}" for part in parts]


def _fitting(lines: list[str], dialect: _Dialect, room: int) -> Iterator[str]:
    quiet = _quiet(lines, dialect.ping) if dialect.ping_in_code else lines
    for line in quiet:
        safe = line.replace("```", f"``{NO_BREAK}`")
        pieces = [safe] if _size(dialect.escape_code(safe)) <= room else _cut(safe, LONGEST_WORD)
        yield from map(dialect.escape_code, pieces)


def _quiet(atoms: list[str], ping: re.Pattern[str]) -> list[str]:
    """The same atoms, where nothing calls anyone, not even a name put together from several."""
    quiet = list(atoms)
    starts = list(accumulate(map(len, atoms), initial=0))
    for end in reversed([hit.end() for hit in ping.finditer("".join(atoms))]):
        number = bisect_left(starts, end) - 1
        cut = end - starts[number]
        quiet[number] = f"{quiet[number][:cut]}{NO_BREAK}{quiet[number][cut:]}"
    return quiet


def _cut(text: str, length: int) -> list[str]:
    return [text[start : start + length] for start in range(0, len(text), length)]


def _size(text: str) -> int:
    """Counted in UTF-16 units, the strictest way a platform counts characters."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
