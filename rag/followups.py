"""What a question is about when it leans on the conversation; without a model. No I/O here."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from rag.terms import Terms, content_words
from rag.types import Message

SUBJECT_TERMS, ANSWER_TERMS = 0.3, 0.15
SUBJECT_VECTOR, ANSWER_VECTOR = 0.6, 0.15
ANSWER_CHARACTERS = 1_000
"""An embedder reads no further into a long answer anyway."""

_PRONOUN = re.compile(
    r"\b(it|its|itself|that|this|these|those|they|them|their|he|she|one|ones|former|latter)\b",
    re.IGNORECASE,
)
_OPENER = re.compile(
    r"^\W*(and|but|so|or|also|what about|how about|why not|what if|in that case|same|instead|"
    r"tell me more|more|again|another|elaborate|for example|e\.?g)\b",
    re.IGNORECASE,
)
_DEFINITION = re.compile(
    r"^\W*(?:(?:and|but|so|or|also)[\s,]+)?(?:what(?:['’]s|\s+is|\s+are)|define|explain)\s+"
    r"(?!the\b)\w",
    re.IGNORECASE,
)
"""What is *a* topic says what it asks about; what *the* default is depends."""
_ELLIPSIS = re.compile(
    r"^\W*(?:and|but|so|or|what about|how about)\s+"
    r"(?P<preposition>in|on|with|for|using|from|at|under)\s+(?P<place>[\w .+#/-]{1,60}?)\W*$",
    re.IGNORECASE,
)
_NEW_SUBJECT = re.compile(
    r"\b(chang\w+ (a (little )?bit )?(of |the )?(subject|topic)|(new|another|different) "
    r"(subject|topic|question)|something else|unrelated)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Asked:
    """A question as it is searched for: its words, and the texts whose vectors are mixed."""

    terms: Terms
    texts: dict[str, float] = field(default_factory=dict[str, float])

    @classmethod
    def alone(cls, question: str) -> "Asked":
        return cls({question: 1.0}, {question: 1.0})


def standalone(question: str, history: Sequence[Message]) -> Asked:
    """The question by itself, or with what it leans on if it cannot stand alone."""
    subject = subject_of([m.content for m in history if m.role == "user"])
    if swapped := with_swapped_place(question, subject):
        return Asked({swapped: 1.0, question: 1.0}, {swapped: 1.0})
    if not subject or not is_dependent(question):
        return Asked.alone(question)
    answers = [m.content for m in history if m.role == "assistant" and m.content.strip()]
    answer = answers[-1][:ANSWER_CHARACTERS] if answers else ""
    said = {answer: ANSWER_TERMS} if answer else {}
    meant = {answer: ANSWER_VECTOR} if answer else {}
    return Asked(
        terms={**said, subject: SUBJECT_TERMS, question: 1.0},
        texts={question: 1.0, f"{subject} {question}": SUBJECT_VECTOR, **meant},
    )


def is_dependent(question: str) -> bool:
    """Whether a question only makes sense with what was said before it."""
    words, points_back = content_words(question), bool(_PRONOUN.search(question))
    defines = bool(words) and not points_back and bool(_DEFINITION.search(question))
    if defines or _NEW_SUBJECT.search(question):
        return False
    return points_back or len(words) <= 1 or (bool(_OPENER.search(question)) and len(words) <= 4)


def subject_of(questions: Sequence[str]) -> str:
    """The last question that stands on its own, with what later questions put in its place."""
    subject = ""
    for question in questions:
        swapped = with_swapped_place(question, subject)
        if swapped or not subject or not is_dependent(question):
            subject = swapped or question
    return subject


def with_swapped_place(question: str, subject: str) -> str | None:
    """ "And in Gazebo?" after "How do I … in Isaac Sim?" asks "How do I … in Gazebo?"."""
    elliptic = _ELLIPSIS.match(question)
    if elliptic is None or not subject:
        return None
    preposition, place = elliptic["preposition"], elliptic["place"]
    parts = re.split(rf"\b{preposition}\b", subject, flags=re.IGNORECASE)
    return f"{preposition.join(parts[:-1])}{preposition} {place}?" if len(parts) > 1 else None
