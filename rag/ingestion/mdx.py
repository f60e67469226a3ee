"""Turns what MDX adds to Markdown into Markdown: modules, labelled components. No I/O here."""

import re

_FENCED_OR = (
    r"(?ms)(?P<code>^[ \t>]*(?P<fence>`{3,}|~{3,})[^\n]*\n.*?(?:^[ \t>]*(?P=fence)[`~]*[ \t]*$|\Z))"
)
_IMPORT = r"^import\s+(?:[\w$*{},\s]+?\sfrom\s*)?['\"][^'\"\n]+['\"];?[ \t]*$"
_EXPORT = r"^export\s+(?:default|const|let|var|function|async|class)\b"
_MODULE = re.compile(_FENCED_OR + rf"|(?P<import>{_IMPORT})|(?P<export>{_EXPORT})")
_BRACKET_OR_END = re.compile(r"[({\[]|[)}\]]|\n(?=[ \t]*(?:\n|\Z))|\Z")
_COMPONENT = re.compile(
    _FENCED_OR + r"|^(?P<indent>[ \t]*)<(?P<name>[A-Z][\w.]*)"
    r"(?P<attributes>(?:\s(?:\"[^\"]*\"|'[^']*'|\{[^}]*\}|[^>\"'{])*?)?)(?P<single>/?)>"
    r"|(?P<end></TabItem\s*>)"
)
_ATTRIBUTE = re.compile(r"(?<![\w-])(\w+)=\{?(?:\"([^\"]*)\"|'([^']*)')")
_TAB = "::::::"
"""So many colons that an admonition inside a tab does not close it."""


def from_mdx(text: str) -> str:
    """Without imports and exports; tabs and titled components keep the name that readers see."""
    return _COMPONENT.sub(_named, _without_modules(text))


def _without_modules(text: str) -> str:
    kept: list[str] = []
    at = 0
    while match := _MODULE.search(text, at):
        end = _end_of_code(text, match.end()) if match["export"] else match.end()
        kept.append(text[at : end if match["code"] else match.start()])
        at = end
    return "".join(kept) + text[at:]


def _end_of_code(text: str, start: int) -> int:
    """Where an empty line follows and every bracket is closed; else the next empty line."""
    depth = 0
    paragraph_end = None
    for match in _BRACKET_OR_END.finditer(text, start):
        if match[0] in ("", "\n"):
            if depth <= 0:
                return match.start()
            paragraph_end = match.start() if paragraph_end is None else paragraph_end
        else:
            depth += 1 if match[0] in "({[" else -1
    return len(text) if paragraph_end is None else paragraph_end


def _named(match: re.Match[str]) -> str:
    if match["code"]:
        return match["code"]
    if match["end"]:
        return f"\n\n{_TAB}\n\n"
    given = {name: first or second for name, first, second in _ATTRIBUTE.findall(match[0])}
    if match["name"] == "TabItem":
        return f"\n\n{_TAB}tab {given.get('label') or given.get('value') or 'Tab'}\n\n"
    label = given.get("title") or given.get("label") or given.get("caption")
    return f"\n\n{match['indent']}**{label}**\n\n{match[0]}" if label else match[0]
