"""What kind of answer a question wants: a definition, the steps, a list, the fix of an error."""

import re
from dataclasses import dataclass
from functools import cached_property

from rag.sentences import LIST_ITEM
from rag.terms import term_ids

_HOW = re.compile(
    r"\b(?:how (?:do|can|to|would|should|does|could)|steps?|commands?|install|set ?up|configure)\b",
    re.IGNORECASE,
)
_WHICH = re.compile(
    r"\b(?:which \w+s|what are|what \w+s are|list|types?|kinds?|name the|rules|options)\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"\bhow (?:many|much|long|big|large|small|fast|often|far|high|wide|old)\b|\bdefaults?\b|"
    r"\bwhat (?:size|rate|frequency|version|number|percentage)\b|\bwhen (?:was|were|did)\b",
    re.IGNORECASE,
)
_WHY = re.compile(r"\bwhy\b|\breasons?\b|\bwhat causes\b", re.IGNORECASE)
_CODE = re.compile(r"\b(?:code|snippet|script|syntax|command|example)\b", re.IGNORECASE)
_PASTED = re.compile(r"[`\"'“:;_=(){}\[\]]")
_DEFINE = re.compile(
    r"^\W*(?:so |and |but )?"
    r"(?:what(?:['’]?s| is| are| does| do)|define|explain|describe|meaning of|tell me about)\s+"
    r"(?:an?\s+|the\s+|is\s+)?(?P<subject>.+?)"
    r"(?:\s+(?:mean|stand for|do|good for|used for|for|about))?(?:\s+in\s+[\w .#+]{1,30})?\W*$",
    re.IGNORECASE,
)
_SIDES = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?:diff?e?rences?\s+between|compare)\s+(?P<one>.+?)\s+(?:and|with|to)\s+(?P<other>.+?)\W*$",
        r"how\s+(?:does|do|is|are)\s+(?P<one>.+?)\s+differ(?:ent)?\s+(?:from|to|than)\s+"
        r"(?P<other>.+?)\W*$",
        r"^\W*(?P<one>[^,;:]{2,50}?)\s+(?:vs\.?|versus)\s+(?P<other>[^,;:]{2,50}?)\W*$",
    )
]
_QUESTION = re.compile(
    r"\?|^\W*(?:what|how|why|when|where|which|who|can|could|do|does|is|are|should|will|explain|"
    r"define|describe|tell|give|list|show)\b",
    re.IGNORECASE,
)
_SAYS_WHAT = re.compile(
    r"^(?!(?:every|each|some|this|that|our|your|these|those|many|most|any|such|another|its|"
    r"where|when|if|because|although|while|as|since|once|after|before|for|with)\b)"
    r"(?P<what>[^.;:]{2,90}?)\s+(?:is|are|means?|refers? to|stands? for|defines?|describes?|lets?|"
    r"allows?|represents?|consists? of|predicts?)\s",
    re.IGNORECASE,
)

# "**Durability**: …", "Capacitive - …", "`NavFn` — …"
_LABELS = re.compile(r"^(?P<what>[^.;:?!]{2,60}?)(?::|\s[—–-])\s")

OPENING_CLARITY = 0.8
"""A section's first sentence mostly says what the section is about, whatever its form."""


@dataclass(frozen=True)
class Asked:
    """A question, read for what would answer it."""

    text: str
    before: str = ""
    """The question that it leans on, if any."""

    @cached_property
    def terms(self) -> set[int]:
        return term_ids(f"{self.before} {self.text}")

    @cached_property
    def wants_steps(self) -> bool:
        return bool(_HOW.search(self.text))

    @cached_property
    def wants_list(self) -> bool:
        return bool(_WHICH.search(self.text))

    @cached_property
    def wants_number(self) -> bool:
        return bool(_NUMBER.search(self.text))

    @cached_property
    def wants_reason(self) -> bool:
        return bool(_WHY.search(self.text))

    @cached_property
    def wants_code(self) -> bool:
        return bool(_CODE.search(self.text))

    @cached_property
    def may_want_code(self) -> bool:
        """Whoever asks how or for code, and whoever pastes what a program said."""
        pasted = not self.is_question and bool(_PASTED.search(self.text))
        return self.wants_steps or self.wants_code or pasted

    @cached_property
    def is_question(self) -> bool:
        return bool(_QUESTION.search(self.text))

    @cached_property
    def subjects(self) -> list[str]:
        """What is to be defined: one thing, the two sides of a comparison, or nothing."""
        if sides := next(filter(None, (p.search(self.text) for p in _SIDES)), None):
            return [sides["one"], sides["other"]]
        asked = None if self.wants_steps else _DEFINE.match(self.text)
        return [asked["subject"]] if asked and 0 < len(term_ids(asked["subject"])) <= 4 else []

    @cached_property
    def topic(self) -> str:
        """What a following "it" would mean."""
        return self.subjects[0] if self.subjects else ""

    def is_defined_by(self, text: str, heading: str = "", opens: bool = False) -> float:
        """How clearly a text says what is asked for; `opens` if it is the first of its section."""
        clearest = max((defined(s, text, heading) for s in self.subjects), default=0.0)
        named = opens and any(heads(s, heading) and says(s, text) for s in self.subjects)
        return max(clearest, OPENING_CLARITY * named)

    def is_message_of(self, text: str) -> bool:
        """Whether a text begins with the very message that was pasted, or asked about."""
        message = re.match(r"^\W*(?:\*\*)?[`\"“](?P<message>[^`\"”]+)", text)
        if message is None:
            return False
        quoted = term_ids(message["message"])
        if self.is_question and not quoted <= self.terms:
            return False
        return len(self.terms & quoted) >= 0.6 * max(len(quoted), len(self.terms), 1)


def defined(subject: str, sentence: str, heading: str = "") -> float:
    """How clearly a sentence says what something is: 1 if it is about nothing else. What its
    heading says, it need not repeat."""
    plain = re.sub(r"[*_`]|\([^)]*\)", "", LIST_ITEM.sub("", sentence)).strip()
    found = _SAYS_WHAT.match(plain) or _LABELS.match(plain)
    if found is None:
        return 0.0
    what, wanted = term_ids(found["what"]), term_ids(subject)
    if what and what <= wanted and wanted - what <= term_ids(heading):
        return 1.0
    return 0.5 if wanted and wanted <= what and len(what) <= len(wanted) + 1 else 0.0


def heads(subject: str, heading: str) -> bool:
    """Whether a section is about a subject: "What OpenVLA is", "OpenVLA: a model"."""
    return any(term_ids(part) == term_ids(subject) for part in re.split(r"[:()—–]", heading))


def says(subject: str, text: str) -> bool:
    return term_ids(subject) <= term_ids(text)
