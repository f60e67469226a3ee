"""Teaches docutils the directives and roles of Sphinx and its extensions, without running them."""

import re
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive, directives, roles
from docutils.parsers.rst.directives import images
from docutils.parsers.rst.languages import en
from docutils.statemachine import StringList

# What leads elsewhere or only matters to the site's builder.
DROPPED = (
    "toctree redirect-from index meta raw highlight default-role currentmodule module contents "
    "tabularcolumns graphviz digraph graph mermaid uml plantuml inheritance-diagram role title "
    "sectnum header footer youtube video raw-html bibliography autosummary"
)
CODE = "code-block sourcecode code prompt parsed-literal ipython ipython3 doctest testcode console"
# Content under a name that the reader sees: a tab, a card, a version.
_NAMED = "group-tab tab tab-item code-tab card dropdown grid-item-card proof"
CHANGES = {
    "versionadded": "Added in",
    "versionchanged": "Changed in",
    "deprecated": "Deprecated since",
}
# Their argument is a condition or a layout, not text.
BARE = (
    "tabs tab-set only ifconfig container compound glossary rst-class cssclass grid grid-item "
    "hlist panels"
)
_CODE_ROLE = re.compile(
    r"(?:py|c|cpp|js|rst|std)(?::.*)?|func|class|meth|mod|attr|data|const|exc|obj|file|command"
    r"|program|option|envvar|samp|code|ros-.*|keyword|cmd|token|type|member|macro|struct"
)
_DIRECTIVE_NAME = re.compile(r"^[ \t]*\.\.[ \t]+(?:\|[^|\n]+\|[ \t]+)?([\w:.+-]+?)[ \t]?::", re.M)
_ROLE_NAME = re.compile(r":([A-Za-z][\w.+-]*(?::[A-Za-z][\w.+-]*)*):`|`:([A-Za-z][\w.:+-]*?):")
_TITLE_AND_TARGET = re.compile(r"(?s)(.+?)\s*<[^<>]*>\s*")


class _AnyOption(dict[str, Any]):
    """Options that we do not know are the builder's business."""

    def __missing__(self, name: str) -> Any:
        return directives.unchanged


_ANY_OPTION = _AnyOption(name=directives.unchanged)


class _Lenient(Directive):
    """Any argument, any option, any content."""

    optional_arguments = 1
    final_argument_whitespace = True
    option_spec: ClassVar[Any] = _ANY_OPTION
    has_content = True

    @property
    def argument(self) -> str:
        return self.arguments[0].strip() if self.arguments else ""

    def body(self) -> list[nodes.Node]:
        holder = nodes.container()
        self.state.nested_parse(self.content, self.content_offset, holder, match_titles=True)
        return holder.children

    def paragraph(self, text: str) -> nodes.paragraph:
        inline, _ = self.state.inline_text(text, self.lineno)
        return nodes.paragraph(text, "", *inline)


class _Dropped(_Lenient):
    def run(self) -> list[nodes.Node]:
        return []


class _Bare(_Lenient):
    def run(self) -> list[nodes.Node]:
        return self.body()


class _Unknown(_Lenient):
    """What it says is kept: its argument as a paragraph, then its content."""

    def run(self) -> list[nodes.Node]:
        opening = [self.paragraph(self.argument)] if self.argument else []
        return [*opening, *self.body()]


class _Named(_Lenient):
    """A tab or a card: its name stays with what it holds."""

    def run(self) -> list[nodes.Node]:
        if self.name == "code-tab":
            language, _, title = self.argument.partition(" ")
            return [_named(title or language, [_listing("\n".join(self.content), language)])]
        if not self.argument:
            return self.body()
        return [_named(self.argument.split("\n")[0], self.body())]


class _Changed(_Lenient):
    def run(self) -> list[nodes.Node]:
        return [self.paragraph(f"{CHANGES[self.name]} {self.argument}".strip()), *self.body()]


class _Code(_Lenient):
    def run(self) -> list[nodes.Node]:
        language = self.argument if self.name in ("code-block", "sourcecode", "code") else ""
        found: list[nodes.Node] = [_listing("\n".join(self.content), language)]
        if caption := self.options.get("caption"):
            found.insert(0, self.paragraph(caption))
        return found


class _LiteralInclude(_Lenient):
    """The lines of a file in the course folder; without it, its caption at least."""

    def run(self) -> list[nodes.Node]:
        settings = self.state.document.settings
        text = settings.read_included(self.argument) if self.argument else None
        caption = self.options.get("caption")
        found: list[nodes.Node] = [self.paragraph(caption)] if caption else []
        if text is not None:
            language = self.options.get("language", "")
            found.append(_listing(chosen_lines(text, self.options), language))
        return found


class _Include(_Lenient):
    """Another page of the course folder, read in place."""

    def run(self) -> list[nodes.Node]:
        settings = self.state.document.settings
        depth = getattr(settings, "include_depth", 0)
        text = settings.read_included(self.argument) if self.argument and depth < 5 else None
        if text is None:
            return []
        prepare(text)
        lines = chosen_lines(text, self.options).splitlines()
        if "code" in self.options or "literal" in self.options:
            return [_listing("\n".join(lines), self.options.get("code", ""))]
        settings.include_depth = depth + 1
        holder = nodes.container()
        content = StringList(lines, source=self.argument)
        self.state.nested_parse(content, 0, holder, match_titles=True)
        settings.include_depth = depth
        return holder.children


class _QuietImage(images.Image):
    option_spec: ClassVar[Any] = _ANY_OPTION

    def run(self) -> list[nodes.Node]:
        return [nodes.image(alt=self.options.get("alt", ""), uri=self.arguments[0])]


class _QuietFigure(_Lenient):
    def run(self) -> list[nodes.Node]:
        return [nodes.image(alt=self.options.get("alt", ""), uri=self.argument), *self.body()]


def _named(name: str, content: list[nodes.Node]) -> nodes.Node:
    return nodes.admonition("", nodes.title("", name), *content)


def _listing(code: str, language: str) -> nodes.literal_block:
    return nodes.literal_block(code, code, classes=[language] if language.strip() else [])


def chosen_lines(text: str, options: dict[str, str]) -> str:
    """Sphinx's `:lines:`, `:start-after:`, `:end-before:` and their relatives."""
    lines = text.splitlines()
    if wanted := options.get("lines"):
        lines = _numbered(lines, wanted)
    for name, offset in (("start-after", 1), ("start-at", 0)):
        if name in options:
            lines = lines[_first(lines, options[name], -offset) + offset :]
    for name, offset in (("end-before", 0), ("end-at", 1)):
        if name in options:
            lines = lines[: _first(lines, options[name], len(lines)) + offset]
    return "\n".join(lines)


def _numbered(lines: list[str], wanted: str) -> list[str]:
    """`1-3, 7, 9-`"""
    found: list[str] = []
    for part in wanted.split(","):
        first, dash, last = (word.strip() for word in part.partition("-"))
        if not (first + last).isdecimal():
            continue
        begin = int(first or 1)
        end = (int(last) if last else len(lines)) if dash else begin
        found += lines[begin - 1 : end]
    return found


def _first(lines: list[str], text: str, otherwise: int) -> int:
    return next((at for at, line in enumerate(lines) if text in line), otherwise)


# --- Roles -------------------------------------------------------------------------------------


def role_text(role: str, text: str) -> str:
    """What a reader sees of a cross-reference."""
    if match := _TITLE_AND_TARGET.fullmatch(text):
        return match[1]
    if role == "doc":
        return re.sub(r"[-_]+", " ", text.rstrip("/").rsplit("/", 1)[-1])
    if role in ("ref", "numref") and " " not in text:
        return re.sub(r"[-_]+", " ", text)
    if role == "download":
        return text.rsplit("/", 1)[-1]
    return text.rsplit(".", 1)[-1] if text.startswith("~") else text.lstrip("!")


def is_code_role(role: str) -> bool:
    return bool(_CODE_ROLE.fullmatch(role.lower()))


def _role(name: str, rawtext: str, text: str, lineno: int, inliner: Any, *_: Any, **__: Any) -> Any:
    shown = role_text(name.lower(), text.replace("\x00", ""))
    kind = nodes.literal if is_code_role(name) else nodes.inline
    return [kind(rawtext, shown)], []


def prepare(text: str) -> None:
    """Registers what this text uses and docutils does not know."""
    for name in {match[1].lower() for match in _DIRECTIVE_NAME.finditer(text)}:
        if name not in _registered and name not in en.directives:
            directives.register_directive(name, _Unknown)
            _registered.add(name)
    for match in _ROLE_NAME.finditer(text):
        name = (match[1] or match[2]).lower()
        if name not in _registered_roles and name not in en.roles:
            roles.register_local_role(name, _role)
            _registered_roles.add(name)


def _register(names: str, directive: type[Directive]) -> set[str]:
    for name in names.split():
        directives.register_directive(name, directive)
    return set(names.split())


_registered: set[str] = (
    _register(DROPPED, _Dropped)
    | _register(CODE, _Code)
    | _register(_NAMED, _Named)
    | _register(" ".join(CHANGES), _Changed)
    | _register(BARE, _Bare)
    | _register("literalinclude", _LiteralInclude)
    | _register("include", _Include)
    | _register("image", _QuietImage)
    | _register("figure", _QuietFigure)
    | _register("seealso todo class", _Unknown)
)
_registered_roles: set[str] = set()
