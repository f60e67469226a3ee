"""Paragraphs that stand in most files of a course: navigation, licence footers. No I/O here.

They are left out of every file but the first that has them, so that nothing is lost and nothing
crowds out the lessons.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

SHARE_OF_FILES = 0.5
FEWEST_FILES = 6
"""In a smaller course, nothing can be called common."""
SAMPLED_FILES = 40

_FENCE = re.compile(r"[ \t>]*(`{3,}|~{3,})")
# Headings, directives, admonitions, tables and what only closes something belong to their page.
_OWN = re.compile(r"#{1,6}\s|\.\. |:::|!!!|\||</|\{|[ \t]")
_UNDERLINE = re.compile(r"([=\-`:.'\"~^_*+#])\1{2,}\s*")
_Item = TypeVar("_Item")


def sample(items: Sequence[_Item]) -> Sequence[_Item]:
    """A few, evenly spread: what stands in half of all files stands in some of these."""
    step = max(1, len(items) // SAMPLED_FILES)
    return items[::step][:SAMPLED_FILES]


def candidates(texts: Iterable[str]) -> frozenset[str]:
    """Paragraphs of sampled files that enough of them have to be looked for in all files."""
    counts: Counter[str] = Counter()
    files = 0
    for text in texts:
        counts.update(set(digests(text)))
        files += 1
    enough = max(2, files * SHARE_OF_FILES / 2)
    return frozenset(digest for digest, count in counts.items() if count >= enough)


def left_out(held: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """File → which of the candidates it holds are left out of it."""
    if len(held) < FEWEST_FILES:
        return {}
    counts = Counter(digest for found in held.values() for digest in found)
    common = {digest for digest, count in counts.items() if count >= SHARE_OF_FILES * len(held)}
    kept: set[str] = set()
    result: dict[str, frozenset[str]] = {}
    for file in sorted(held):
        repeated = held[file] & common
        result[file] = frozenset(repeated & kept)
        kept |= repeated
    return result


def digests(text: str) -> Iterator[str]:
    """What identifies each paragraph that may be boilerplate."""
    for paragraph in _paragraphs(text):
        if (digest := _digest(paragraph)) is not None:
            yield digest


def without(text: str, unwanted: frozenset[str]) -> str:
    """The text without these paragraphs."""
    if not unwanted:
        return text
    kept = (lines for lines in _paragraphs(text) if _digest(lines) not in unwanted)
    return "\n".join(line for lines in kept for line in lines)


def _paragraphs(text: str) -> Iterator[list[str]]:
    """Runs of lines between empty ones; a code listing is one run however many it has."""
    run: list[str] = []
    fence = ""
    for line in text.split("\n"):
        if not fence and not line.strip():
            if run:
                yield run
            yield [line]
            run = []
            continue
        run.append(line)
        if match := _FENCE.match(line):
            if not fence:
                fence = match[1]
            elif match[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
    if run:
        yield run


def _digest(lines: list[str]) -> str | None:
    """None for what is no paragraph of its own."""
    first = lines[0]
    if _OWN.match(first) or any(_FENCE.match(line) or _UNDERLINE.fullmatch(line) for line in lines):
        return None
    words = " ".join(" ".join(lines).split())
    if len(words.split(" ")) < 2:
        return None
    return hashlib.blake2b(words.encode("utf-8", "replace"), digest_size=8).hexdigest()
