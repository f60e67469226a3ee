"""Docusaurus' `sidebars.js` as far as it can be read without running it. No I/O here."""

import re
from collections.abc import Iterator
from typing import Any, cast

_TOKEN = re.compile(
    r"//[^\n]*|/\*.*?\*/"
    r"|(?P<string>'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"|`(?:[^`\\]|\\.)*`)"
    r"|(?P<mark>[{}\[\]:,])"
    r"|(?P<word>[^\s{}\[\]:,'\"`]+)",
    re.S,
)
_OPENING = re.compile(
    r"(?:module\.exports|\bsidebars\b[^={\n]*)\s*=\s*(?=\{)|export\s+default\s*(?=\{)|\A\s*(?=\{)"
)
_CLOSING = {"}", "]", ""}
_MAX_DEPTH = 50


def categories(source: str) -> Iterator[tuple[str, str]]:
    """Document id → the name of the category it stands in, and of the category's own page."""
    if match := _OPENING.search(source):
        value = _Reader(source[match.end() :]).value()
        if isinstance(value, dict):
            for items in cast(dict[str, Any], value).values():
                yield from _documents(items, "")


def _documents(items: Any, category: str) -> Iterator[tuple[str, str]]:
    if isinstance(items, str):
        yield items, category
    elif isinstance(items, list):
        for item in cast(list[Any], items):
            yield from _documents(item, category)
    elif isinstance(items, dict):
        yield from _entry(cast(dict[str, Any], items), category)


def _entry(item: dict[str, Any], category: str) -> Iterator[tuple[str, str]]:
    kind = item.get("type")
    if kind == "category":
        label = str(item.get("label") or category)
        link = item.get("link")
        if isinstance(link, dict) and isinstance(own := cast(Any, link).get("id"), str):
            yield own, label
        yield from _documents(item.get("items"), label)
    elif kind == "doc" and isinstance(item.get("id"), str):
        yield item["id"], category
    elif kind is None:  # the short form, { Category: [items] }
        for label, items in item.items():
            yield from _documents(items, label)


class _Reader:
    """Reads object and array literals; what is neither a literal nor a string becomes None."""

    def __init__(self, source: str) -> None:
        found = (match for match in _TOKEN.finditer(source) if match.lastgroup)
        self._tokens = [(str(match.lastgroup), match[0]) for match in found]
        self._at = 0
        self._depth = 0

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("", "")

    def _take(self) -> tuple[str, str]:
        token = self._peek()
        self._at += 1
        return token

    def value(self) -> Any:
        kind, text = self._peek()
        if kind == "string":
            self._at += 1
            found: Any = re.sub(r"\\(.)", r"\1", text[1:-1])
        elif text in ("{", "[") and self._depth < _MAX_DEPTH:
            found = self._nested(text)
        else:
            found = None
        self._skip_expression()
        return found

    def _nested(self, opening: str) -> Any:
        self._depth += 1
        self._at += 1
        found = self._object() if opening == "{" else self._array()
        self._depth -= 1
        return found

    def _skip_expression(self) -> None:
        """What follows a literal in the same place, and what is none."""
        depth = 0
        while (token := self._peek()[1]) and (depth > 0 or token not in (",", "}", "]")):
            if self._peek()[0] != "string":
                depth += sum(token.count(mark) for mark in "({[")
                depth -= sum(token.count(mark) for mark in ")}]")
            self._at += 1

    def _object(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while (token := self._take())[1] not in _CLOSING:
            if token[1] == "," or self._peek()[1] != ":":
                continue
            self._at += 1
            name = token[1][1:-1] if token[0] == "string" else token[1]
            found[name] = self.value()
        return found

    def _array(self) -> list[Any]:
        found: list[Any] = []
        while (text := self._peek()[1]) not in _CLOSING:
            if text == ",":
                self._at += 1
            else:
                found.append(self.value())
        self._at += 1
        return found
