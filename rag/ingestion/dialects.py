"""Turns what single tools add to Markdown into Markdown: mdBook, R Markdown, Quarto, Hugo, Jekyll.

Text inside code listings stays as it is, except where a listing includes a file.
"""

import html
import re
from collections.abc import Callable

from rag.ingestion.includes import MAX_DEPTH, picked_lines
from rag.ingestion.markdown import LAYOUT

ReadIncluded = Callable[[str], str | None]

_FENCED_OR = (
    r"(?ms)(?P<code>^[ \t>]*(?P<fence>`{3,}|~{3,})[^\n]*\n.*?(?:^[ \t>]*(?P=fence)[`~]*[ \t]*$|\Z))"
)
_MDBOOK_INCLUDE = re.compile(
    r"(?m)^(?P<indent>[ \t]*)\{\{\s*#(?:rustdoc_)?include\s+(?P<file>[^}:\s]+)"
    r"(?::(?P<lines>[^}\s]*))?\s*\}\}[ \t]*$"
)
_MDBOOK_OTHER = re.compile(r"(?m)^[ \t]*\{\{\s*#[^}]*\}\}[ \t]*(?:\n|\Z)")
_QUARTO_INCLUDE = re.compile(r"(?m)^[ \t]*\{\{<\s*include\s+(?P<file>\S+)\s*>\}\}[ \t]*$")
_SHORTCODE = re.compile(r"\{\{<[^\n]*?>\}\}")
_RUST = re.compile(
    r"(?ms)^(?P<opening>(?P<fence>[ \t]*(?:`{3,}|~{3,}))[ \t]*rust\b[^\n]*\n)(?P<rust>.*?)"
    r"(?P<closing>^(?P=fence)[ \t]*$)"
)
_HIDDEN = re.compile(
    r"(?m)^(?P<indent>[ \t]*)#(?:(?P<escaped>#)(?P<rest>[^\n]*)$|(?:[ ][^\n]*)?(?:\n|\Z))"
)
_LISTING = re.compile(r"(?m)^[ \t]*<Listing\b(?P<attributes>(?:[^>\"]|\"[^\"]*\")*)>[ \t]*$")
_LISTING_END = re.compile(r"(?m)^[ \t]*</Listing>[ \t]*$")
_CHUNK_OPENING = re.compile(r"(?m)^(?P<fence>[ \t>]*(?:`{3,}|~{3,}))\s*\{(?P<inside>[^}\n]*)\}")
_CHUNK_OPTION = re.compile(r"(?m)^[ \t]*(?:#|//|--|%)\|[^\n]*\n")
_DIV = re.compile(r"(?m)^(?P<colons>:{3,})[ \t]*\{(?P<inside>[^}\n]*)\}[ \t:]*$")
_HEADING_ATTRIBUTES = re.compile(
    r"(?m)^(?P<heading>#{1,6} [^\n]*?)[ \t]*\{(?P<inside>[^}\n]*)\}[ \t]*$"
)
_JSX_HEADING = re.compile(
    _FENCED_OR + r"|^[ \t]*<(?P<tag>h[1-6])\b(?P<attributes>[^>]*)>(?P<text>.*?)</(?P=tag)\s*>",
    re.I,
)
_PRE = re.compile(
    _FENCED_OR + r"|<pre\b(?P<attributes>[^>]*>\s*(?:<code\b[^>]*>)?)(?P<listing>.*?)</pre\s*>",
    re.I,
)
_LANGUAGE = re.compile(r"\blang(?:uage)?[-=][\"']?(\w+)")
_TEMPLATE = re.compile(
    _FENCED_OR + r"|(?P<inline>(?P<ticks>`+)[^`\n]+(?P=ticks))"
    r"|^\{%-?[ ]*highlight[ ]+(?P<language>\w+)[^}\n]*%\}\n"
    r"(?P<listing>.*?)\n\{%-?[ ]*endhighlight[ ]*-?%\}"
    r"|^(?P<heading>\#{1,6}[ ][^\n]+)\n\{:(?P<attributes>[^}\n]*)\}[ \t]*$"
    r"|^(?P<tab>[ \t]*)===[!+]?[ ]+\"(?P<name>[^\"\n]+)\"[ \t]*$"
    r"|^(?P<quote>[ \t>]*>[ \t]*)\[!(?P<alert>\w+)\][+-]?[ \t]*(?P<title>[^\n]*)$"
    r"|(?:^[-*+][^\n]*\n)?\{:toc\}|\{:[ ]?(?:[.#][A-Za-z]|\w+=)[^}\n]*\}"
    r"|\{\{[<%][^{}]*?[%>]\}\}|\{%[^{}]*?%\}|^--8<--[^\n]*$"
)
_ID = re.compile(r"\bid=(?:\"([\w.:-]+)\"|'([\w.:-]+)')")
_TAG = re.compile(r"</?[A-Za-z][^>]*>")


def from_mdbook(text: str, read_included: ReadIncluded, depth: int = 0) -> str:
    """Includes put in place, a listing's caption above its code, quizzes and the like dropped."""
    if "{{" in text:
        text = _MDBOOK_INCLUDE.sub(lambda match: _included(match, read_included, depth), text)
        text = _MDBOOK_OTHER.sub("", text)
    return _with_captions(text) if "<Listing" in text else text


def without_hidden_lines(text: str) -> str:
    """Rust that mdBook compiles and does not show: lines that begin with a number sign alone."""
    return _RUST.sub(
        lambda m: f"{m['opening']}{_HIDDEN.sub(_shown, m['rust'])}{m['closing']}", text
    )


def _shown(match: re.Match[str]) -> str:
    return f"{match['indent']}#{match['rest']}" if match["escaped"] else ""


def _included(match: re.Match[str], read_included: ReadIncluded, depth: int) -> str:
    found = read_included(match["file"])
    if found is None:
        return ""
    chosen = picked_lines(found, match["lines"] or "")
    if depth < MAX_DEPTH and match["file"].endswith(".md"):
        chosen = from_mdbook(chosen, read_included, depth + 1)
    return "\n".join(f"{match['indent']}{line}".rstrip() for line in chosen.split("\n"))


def _with_captions(text: str) -> str:
    """`<Listing number="4-2" caption="…">` says above its code what mdBook prints around it."""
    text = _LISTING.sub(lambda match: _caption(match["attributes"]), text)
    return _LISTING_END.sub("", text)


def _caption(attributes: str) -> str:
    """`Listing 4-2: What it shows (src/main.rs)`"""
    fields = dict(re.findall(r'([\w-]+)="([^"]*)"', attributes))
    number = f"Listing {fields['number']}" if fields.get("number") else ""
    label = ": ".join(filter(None, [number, fields.get("caption", "")]))
    file = f" ({fields['file-name']})" if fields.get("file-name") else ""
    return f"{label}{file}\n" if label else ""


def from_rmarkdown(text: str, read_included: ReadIncluded, depth: int = 0) -> str:
    """Chunks keep their language and code; their options and shortcodes go."""

    def included(match: re.Match[str]) -> str:
        found = read_included(match["file"]) if depth < MAX_DEPTH else None
        return (
            from_rmarkdown(_without_front_matter(found), read_included, depth + 1) if found else ""
        )

    text = _QUARTO_INCLUDE.sub(included, text)
    text = _CHUNK_OPENING.sub(_plain_opening, text)
    text = _DIV.sub(_admonition, _HEADING_ATTRIBUTES.sub(_only_id, text))
    return _SHORTCODE.sub("", _CHUNK_OPTION.sub("", text))


def _plain_opening(match: re.Match[str]) -> str:
    """`{r setup, echo=FALSE}` and `{.python .numberLines}` name a language first."""
    words = re.split(r"[\s,]+", match["inside"].strip())
    return match["fence"] + words[0].lstrip("=.").lower()


def _admonition(match: re.Match[str]) -> str:
    """`::: {.callout-tip title="Try"}` is an admonition, any other division only layout."""
    kind = re.search(r"\.callout-(\w+)", match["inside"])
    title = re.search(r"title=\"([^\"]*)\"", match["inside"])
    name = f"{kind[1]} {title[1] if title else ''}".strip() if kind else LAYOUT
    return f"{match['colons']}{name}"


def _only_id(match: re.Match[str]) -> str:
    custom = re.search(r"#[\w.:-]+", match["inside"])
    return f"{match['heading']} {{{custom[0]}}}" if custom else match["heading"]


def _without_front_matter(text: str) -> str:
    return re.sub(r"\A---\n.*?^---\n", "", text, count=1, flags=re.S | re.M)


def with_listings(text: str) -> str:
    """`<pre><code>` is a code listing as good as a fence."""

    def fenced(match: re.Match[str]) -> str:
        if match["code"]:
            return match["code"]
        language = _LANGUAGE.search(match["attributes"])
        code = html.unescape(_TAG.sub("", match["listing"])).strip("\n")
        return f"\n\n~~~~{language[1] if language else ''}\n{code}\n~~~~\n\n"

    return _PRE.sub(fenced, text) if re.search("<pre", text, re.I) else text


def without_templates(text: str) -> str:
    """Shortcodes and attributes of Hugo, Jekyll and MkDocs go; what they frame or name stays."""
    return _TEMPLATE.sub(_filled_in, text)


def _filled_in(match: re.Match[str]) -> str:
    if match["code"] or match["inline"]:
        return match[0]
    if match["listing"]:
        return f"```{match['language']}\n{match['listing']}\n```"
    if match["heading"]:
        return f"{match['heading']} {{{match['attributes']}}}"
    if match["name"]:
        return f'{match["tab"]}!!! tab "{match["name"]}"'
    if match["alert"]:
        return (
            f"{match['quote']}**{match['title'] or match['alert'].capitalize()}**\n{match['quote']}"
        )
    return ""


def with_jsx_headings(text: str) -> str:
    """`<h2 className="x" id="y">Title</h2>` is a heading as good as `## Title {#y}`."""

    def heading(match: re.Match[str]) -> str:
        if match["code"]:
            return match["code"]
        words = " ".join(_TAG.sub("", match["text"]).split())
        custom = _ID.search(match["attributes"])
        anchor = f" {{#{custom[1] or custom[2]}}}" if custom else ""
        return f"\n{'#' * int(match['tag'][1])} {words}{anchor}\n" if words else ""

    return _JSX_HEADING.sub(heading, text) if re.search("<h[1-6]", text, re.I) else text


_FENCE = re.compile(r"(?m)^[ \t]{0,3}(`{3,}|~{3,})[^\n`]*$")
_SECTION = re.compile(r"\n\n(?=#{2,6} \S)")


def with_closed_fences(text: str) -> str:
    """A listing that is never closed ends where the next section begins, not with the page."""
    fence, opened = "", 0
    for match in _FENCE.finditer(text):
        if not fence:
            fence, opened = match[1], match.end()
        elif match[1].startswith(fence) and not match[0].strip().strip(fence[0]):
            fence = ""
    end = _SECTION.search(text, opened) if fence else None
    return f"{text[: end.start()]}\n{fence}{text[end.start() :]}" if end else text
