"""Words as the index sees them: tokenised, stemmed and hashed by Qdrant's own BM25 model."""

import re
from collections.abc import Mapping

from qdrant_edge import Bm25, SparseVector

BM25 = Bm25()

Terms = Mapping[str, float]
"""Texts of a query with the weight of each: the question itself, and what it leans on."""

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_FUNCTION_WORDS_TEXT = """
    a about after again all also am an and any are as at be because been before but by can could
    did do does doing done each else even ever for from get give go had has have having he her here
    him his how i if in into is it its itself just let like made make many may me mean means might
    more most much must my need no not now of off on one only or other our out over own please say
    she should show so some such tell than that the their them then there these they thing things
    this those to too under up us use used using very was way we well were what when where which
    while who whom whose why will with would you your example examples explain difference between
    work works
"""
_FUNCTION_WORDS = frozenset(_FUNCTION_WORDS_TEXT.split())
# Without words that are also common in other languages ("in", "was", "on", "a", "me", "is", "of").
_ENGLISH_GLUE_TEXT = """
    the are were does did can could would should have you it this that these those my your its to
    from with about and not what how why when where which who if there any i'm isn't doesn't don't
"""
_ENGLISH_GLUE = frozenset(_ENGLISH_GLUE_TEXT.split())


def query_vector(terms: Terms) -> dict[int, float]:
    """Term ids with their weights; a term that several texts share keeps its largest weight."""
    weights: dict[int, float] = {}
    for text, weight in terms.items():
        for index in _indices(BM25.embed_query(text)):
            weights[index] = max(weights.get(index, 0.0), weight)
    return weights


def term_ids(text: str) -> set[int]:
    return set(_indices(BM25.embed_query(text)))


def _indices(vector: SparseVector) -> list[int]:
    return list(vector.indices)


def content_words(text: str) -> list[str]:
    """The words that carry a subject, in order, without repeats."""
    words = [word for word in _WORD.findall(text) if word.lower() not in _FUNCTION_WORDS]
    return list(dict.fromkeys(words))


def looks_english(text: str) -> bool:
    """Whether a question is plausibly English: Latin letters and, if it is long, English glue."""
    letters = [c for c in text if c.isalpha()]
    if not letters:
        return True
    if sum(c.isascii() for c in letters) < 0.8 * len(letters):
        return False
    words = [word.lower() for word in _WORD.findall(text)]
    return len(words) < 4 or any(word in _ENGLISH_GLUE for word in words)
