"""What kind of answer a question wants: a definition, the steps, a list, the fix of an error."""

import re
from dataclasses import dataclass
from functools import cached_property

from rag.terms import term_ids

_HOW = re.compile(
    r"\b(?:how (?:do|can|to|would|should|does|could)|steps?|commands?|install|set ?up|configure)\b",
    re.IGNORECASE,
)
_WHICH = re.compile(
    r"\b(?:which|what are|list|types?|kinds?|name the|rules|options)\b", re.IGNORECASE
)
_DEFINE = re.compile(
    r"^\W*(?:so |and |but )?"
    r"(?:what(?:['’]s| is| are| does| do)|define|explain|describe|meaning of)\s+"
    r"(?:an?\s+|the\s+|is\s+)?(?P<subject>.+?)"
    r"(?:\s+(?:mean|stand for|do|good for|used for|for|about))?(?:\s+in\s+[\w .#+]{1,30})?\W*$",
    re.IGNORECASE,
)
_SIDES = re.compile(
    r"(?:difference\s+between|differences\s+between|compare)\s+(?P<one>.+?)\s+(?:and|with|to)\s+"
    r"(?P<other>.+?)\W*$|how\s+does\s+(?P<this>.+?)\s+differ\s+from\s+(?P<that>.+?)\W*$",
    re.IGNORECASE,
)
_QUESTION = re.compile(
    r"\?|^\W*(?:what|how|why|when|where|which|who|can|could|do|does|is|are|should|will|explain|"
    r"define|describe|tell|give|list|show)\b",
    re.IGNORECASE,
)
_ERROR = re.compile(
    r"error|fail|not found|cannot|could not|timed out|exception|E\d{4}|warning", re.I
)
_SAYS_WHAT = re.compile(
    r"^(?!(?:every|each|some|this|that|our|your|these|those|many|most|any|such|another|its|"
    r"where|when|if|because|although|while|as|since|once|after|before|for|with)\b)"
    r"(?P<what>[^.;:]{2,90}?)\s+(?:is|are|means?|refers? to|stands? for|defines?|describes?|lets?|"
    r"allows?|represents?|consists? of|predicts?)\s",
    re.IGNORECASE,
)


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
    def quotes_error(self) -> bool:
        """Whether it is an error message, pasted as it is or within a question."""
        pasted = not _QUESTION.search(self.text)
        return bool(_ERROR.search(self.text)) and (pasted or bool(re.search(r"[`'\"“]", self.text)))

    @cached_property
    def subjects(self) -> list[str]:
        """What is to be defined: one thing, the two sides of a comparison, or nothing."""
        if sides := _SIDES.search(self.text):
            return [side for side in sides.groups() if side]
        asked = None if self.wants_steps else _DEFINE.match(self.text)
        return [asked["subject"]] if asked and 0 < len(term_ids(asked["subject"])) <= 4 else []

    def is_defined_by(self, sentence: str) -> float:
        return max((defined(subject, sentence) for subject in self.subjects), default=0.0)

    def is_message_of(self, text: str) -> bool:
        """Whether a text begins with the very message that was pasted."""
        message = re.match(r"^\W*(?:\*\*)?[`\"“](?P<message>[^`\"”]+)", text)
        if message is None:
            return False
        quoted = term_ids(message["message"])
        return len(self.terms & quoted) >= 0.6 * max(len(quoted), len(self.terms), 1)


def defined(subject: str, sentence: str) -> float:
    """How clearly a sentence says what something is: 1 if it is about nothing else."""
    says = _SAYS_WHAT.match(re.sub(r"[*_`]|\([^)]*\)", "", sentence).strip())
    if says is None:
        return 0.0
    what, wanted = term_ids(says["what"]), term_ids(subject)
    if what == wanted:
        return 1.0
    return 0.5 if wanted and wanted <= what and len(what) <= len(wanted) + 1 else 0.0
