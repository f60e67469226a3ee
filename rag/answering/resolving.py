"""A follow-up said in full, with the words of the question it leans on. No I/O here."""

import re
from collections.abc import Sequence

from rag.answering.asked import Asked
from rag.followups import is_dependent, with_swapped_place
from rag.terms import content_words

BRIEF_WORDS = 2

_POINTS_BACK = re.compile(
    r"\b(?:(?P<whose>its|their)|it|they|them|these|those|ones?(?=\W*$)|"
    r"(?:this|that)(?=\W*$|\s+(?:is|do|does|work|mean|differ|different|better)\b))(?![\w’'])",
    re.IGNORECASE,
)
_OTHER_ONE = re.compile(
    r"^\W*(?:(?:and|but|or|so|what about|how about)\s+)+(?:an?\s+|the\s+)?"
    r"(?P<other>[^?!]{2,60}?)\W*$",
    re.IGNORECASE,
)
_ANOTHER_QUESTION = re.compile(
    r"(?:\?\s+|,\s+|,?\s+and\s+)(?=(?:how|what|why|when|where|which)\s+"
    r"(?:(?!(?:i|you|we|he|she|it|they|this|that)\b)\w+\s+){0,2}(?:is|are|do|does|can|should|to)\b)",
    re.IGNORECASE,
)


def parts_of(question: str) -> list[str]:
    """ "What is a lease and how do I renew it?" asks two things."""
    parts = _ANOTHER_QUESTION.split(question) if Asked(question).is_question else []
    return parts if parts and all(map(content_words, parts)) else [question]


def resolved(question: str, earlier: Sequence[str]) -> Asked:
    """The question as it would be asked alone."""
    before = ""
    for said in earlier:
        asked = in_full(said, before)
        if not before or asked.topic or not is_dependent(said):
            before = asked.text
    return in_full(question, before)


def in_full(question: str, before: str) -> Asked:
    """ "It" is what the last question was about, and "and the local one?" asks of another thing
    what was asked of the first."""
    if swapped := with_swapped_place(question, before):
        return Asked(swapped)
    asked = Asked(question)
    points_back = _POINTS_BACK.search(question)
    if not before or not is_dependent(question) or (asked.topic and not points_back):
        return asked
    if topic := Asked(before).topic:
        if other := another(question, topic):
            return Asked(before.replace(topic, other))
        if points_back:
            return Asked(_POINTS_BACK.sub(topic, question, count=1))
    return Asked(question, before if is_brief(question) else "")


def another(question: str, topic: str) -> str:
    """What "and X?" puts in the place of the topic; "and the local one?" keeps its last word."""
    elliptic = _OTHER_ONE.match(question)
    if elliptic is None or len(content_words(elliptic["other"])) > BRIEF_WORDS + 1:
        return ""
    other = re.sub(r"\bones?$", topic.split()[-1], elliptic["other"])
    return "" if _POINTS_BACK.search(other) or Asked(other).is_question else other


def is_brief(question: str) -> bool:
    words = len(content_words(question))
    return words < BRIEF_WORDS or (words == BRIEF_WORDS and bool(_POINTS_BACK.search(question)))
