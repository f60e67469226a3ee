"""Text as a reader sees it: sentences, list items, tables and code blocks. No I/O here."""

import re
from functools import lru_cache

from rag.terms import content_words, term_ids

_WORD = re.compile(r"[^\W_]+")
_CLAUSE_END = re.compile(
    r";\s+|:\s+|,\s+(?=(?:but|while|whereas|although|so|where|which)\b)|\s+—\s+"
)
LIST_ITEM = re.compile(r"^\s*(?:[-*+]|\d{1,3}[.)])\s+")
_SENTENCE_END = re.compile(r"(?<=[.!?])([\"”')\]*_`]*)\s+(?=[\"“'(\[*_]*[A-Z0-9`])")
ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|vs|cf|Fig|Eq|Dr|Mr|Ms|No|approx|St)\.|(?<!\w)[A-Z]\.)$"
)


def blocks_of(text: str) -> list[str]:
    """Paragraphs, lists, tables and fences, by blank lines outside fences."""
    blocks: list[list[str]] = [[]]
    in_fence = False
    for line in text.splitlines():
        fence = is_fence(line)
        if fence and not in_fence and blocks[-1] and not LIST_ITEM.match(blocks[-1][0]):
            blocks.append([])
        if not line.strip() and not in_fence:
            blocks.append([])
        else:
            blocks[-1].append(line)
        if fence:
            in_fence = not in_fence
            if not in_fence and not LIST_ITEM.match(blocks[-1][0]):
                blocks.append([])
    return _with_whole_lists(["\n".join(lines) for lines in blocks if lines])


def _with_whole_lists(blocks: list[str]) -> list[str]:
    """Items of one list that stand apart by blank lines or code are one block again."""
    merged: list[str] = []
    for block in blocks:
        in_list = bool(merged) and bool(LIST_ITEM.match(merged[-1]))
        continues = LIST_ITEM.match(block) or block.startswith("  ")
        shows_item = is_fence(block) and in_list and merged[-1].rstrip().endswith(":")
        if in_list and (continues or shows_item):
            merged[-1] += ("\n" if continues and not _ends_in_fence(merged[-1]) else "\n\n") + block
        else:
            merged.append(block)
    return merged


def _ends_in_fence(block: str) -> bool:
    return is_fence(block.rpartition("\n")[2])


def is_fence(line: str) -> bool:
    return line.lstrip().startswith(("```", "~~~"))


def is_prose(block: str) -> bool:
    first = block.lstrip()
    return not (first.startswith(("```", "~~~", "|", "$$")) or LIST_ITEM.match(block))


def sentences_of(paragraph: str) -> list[str]:
    text = " ".join(paragraph.split())
    sentences: list[str] = []
    start = 0
    for end in _SENTENCE_END.finditer(text):
        if not ABBREVIATION.search(text[start : end.start()]):
            sentences.append(text[start : end.start()] + end[1])
            start = end.end()
    sentences.append(text[start:])
    return [sentence for sentence in sentences if len(sentence) > 2]


def clauses_of(statement: str) -> list[str]:
    """The parts of a sentence that state something each; of a part with ", and", its halves too."""
    parts = [part for part in _CLAUSE_END.split(statement) if re.search(r"\w", part)]
    halves = [half for part in parts if ", and " in part for half in part.split(", and ")]
    return parts + halves


def statements_of(text: str) -> list[str]:
    """What a text says, piece by piece: its sentences, list items, table rows and lines of code."""
    statements: list[str] = []
    for block in blocks_of(text):
        if is_prose(block):
            statements += sentences_of(block)
        else:
            lines = [line.strip() for line in block.splitlines() if not is_fence(line)]
            worded = [line for line in lines if re.search(r"\w", line)]
            statements += [part for line in worded for part in _parts_of(line)]
    return statements


def _parts_of(line: str) -> list[str]:
    """A list item may hold several sentences; a row or a line of code is one statement."""
    item = LIST_ITEM.match(line)
    return sentences_of(line[item.end() :]) if item else [line]


def stems(text: str) -> list[int]:
    """Content words as the index sees them, in order, with repeats."""
    return [stem for word in _WORD.findall(text) for stem in _stems_of(word)]


@lru_cache(maxsize=20_000)
def _stems_of(word: str) -> tuple[int, ...]:
    return tuple(term_ids(word)) if content_words(word) else ()
