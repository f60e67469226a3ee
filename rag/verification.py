"""Does the book say so? Small checks of one claim against its passage. No I/O here.

Each check returns what is wrong in a few words, or nothing. None of them understands language: they
catch what can be caught by looking, and keep what they cannot tell.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from rag.contradiction import contradiction
from rag.figures import Figure, figures_of, has, without_numbers
from rag.sentences import LIST_ITEM, clauses_of, is_fence, statements_of, stems

_EMPHASISED = re.compile(r"(?<![\w`])_(?!_)([^_\n]*[^\s_])_(?![\w`])")
"""Words that Markdown's underscores emphasise: a file's name in italics is still that name."""


@dataclass(frozen=True)
class Claim:
    """One sentence, list item, table or code block of an answer, without its markers."""

    text: str
    quotes: tuple[str, ...] = ()
    """The words of the passage that it says it rests on."""

    @property
    def is_code(self) -> bool:
        return is_fence(self.text)

    @cached_property
    def words(self) -> list[int]:
        """Its content words, stemmed, in order."""
        return stems(self.text)


@dataclass(frozen=True)
class Evidence:
    """What a claim may rest on: a passage under its title and headings, and the question."""

    passage: str
    headings: str = ""
    question: str = ""

    @cached_property
    def text(self) -> str:
        return _EMPHASISED.sub(r"\1", f"{self.headings}\n{self.passage}")

    @cached_property
    def known(self) -> str:
        return f"{self.text}\n{self.question}"

    @cached_property
    def statements(self) -> list[str]:
        return statements_of(self.passage)

    @cached_property
    def windows(self) -> dict[str, set[int]]:
        """Its statements and pairs of neighbouring ones, with their words."""
        pairs = [f"{one} {other}" for one, other in pairwise(self.statements)]
        return {text: set(stems(text)) for text in (*self.statements, *pairs)}

    @cached_property
    def heading_words(self) -> set[int]:
        return set(stems(self.headings))

    @cached_property
    def clauses(self) -> list["Clause"]:
        parts = [part for whole in self.statements for part in (whole, *clauses_of(whole))]
        return [Clause(part) for part in dict.fromkeys(parts)]

    @cached_property
    def unspaced(self) -> str:
        """Without white space and quotation marks, to look up a setting however it is written."""
        return re.sub(r"[\s\"'`]", "", self.known)

    @cached_property
    def words(self) -> set[int]:
        return set(stems(self.known))

    @cached_property
    def vocabulary(self) -> set[str]:
        return vocabulary_of(self.known)

    @cached_property
    def figures(self) -> set[Figure]:
        return figures_of(self.known)


@dataclass(frozen=True)
class Clause:
    """A part of a passage's sentence that states one thing."""

    text: str

    @cached_property
    def words(self) -> list[int]:
        return stems(self.text)

    @cached_property
    def sequence(self) -> list[str]:
        return words_of(self.text)


Check = Callable[[Claim, Evidence], str | None]


def fault_of(claim: Claim, evidence: Evidence) -> str | None:
    """The first thing that is wrong with a claim, by looking at words alone."""
    return _first_fault(OF_CODE if claim.is_code else OF_SENTENCES, claim, evidence)


def fault_of_lead(claim: Claim, evidence: Evidence) -> str | None:
    """A heading, or what leads into a list, says little: only its names and numbers count."""
    return _first_fault(OF_CODE, claim, evidence)


def _first_fault(checks: Sequence[Check], claim: Claim, evidence: Evidence) -> str | None:
    found = (check(claim, evidence) for check in checks)
    return next((fault for fault in found if fault), None)


# --- Quoted words ------------------------------------------------------------------------------


def misquoted(claim: Claim, evidence: Evidence) -> str | None:
    """Quoted words that do not stand in the passage."""
    stands = flattened(evidence.text)
    for quote in claim.quotes:
        parts = [flattened(part) for part in re.split(r"\.\.\.|…", quote)]
        if not all(part in stands for part in parts):
            return f'the passage does not say "{quote}"'
    return None


def flattened(text: str) -> str:
    """Without case, markup, quotation marks, punctuation at the ends and extra white space."""
    plain = re.sub(r"[\"“”'‘’`*_|]|\[(?=[^\]]*\]\()|\]\([^)]*\)", "", text.lower())
    return " ".join(plain.split()).strip(" .,;:!?")


# --- Numbers ------------------------------------------------------------------------------------


def unknown_number(claim: Claim, evidence: Evidence) -> str | None:
    """A number, with its unit, that the passage does not have."""
    for figure in sorted(figures_of(LIST_ITEM.sub("", claim.text))):
        if not has(evidence.figures, figure):
            return f"the passage does not have {figure.value} {figure.unit}".strip()
    return None


def misplaced_number(claim: Claim, evidence: Evidence) -> str | None:
    """A number of the passage, but of another sentence than the one the claim repeats."""
    text = LIST_ITEM.sub("", claim.text)
    said = set(stems(without_numbers(text)))
    if len(said) < 2:
        return None
    repeated = [s for s in evidence.statements if said <= set(stems(s)) and figures_of(s)]
    theirs = {figure for statement in repeated for figure in figures_of(statement)}
    wrong = sorted(figure for figure in figures_of(text) if theirs and not has(theirs, figure))
    return f"the passage says so of another number than {wrong[0].value}" if wrong else None


# --- Names and terms ---------------------------------------------------------------------------

_FENCED = re.compile(
    r"^[ \t]*(?P<fence>```+|~~~+)[^\n]*\n(?P<code>.*?)\n?[ \t]*(?P=fence)[ \t]*$",
    re.DOTALL | re.MULTILINE,
)
_CODE_SPAN = re.compile(r"(`+)(.+?)\1", re.DOTALL)
_PAIR = re.compile(r"([\w-]+)[\"']?\s*([=:])\s*[\"']?([\w.-]*\w)")
_WORD = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*|[\w$][\w./:+#@~$-]*[\w+#]|\w")
_SUBJECT_PLACE = re.compile(r"(?:^|[.!?:;—|]\s+|\n\s*|[*_\"“(\[]+)$")


def unknown_term(claim: Claim, evidence: Evidence) -> str | None:
    """A name, technical term, identifier or backticked word that stands nowhere."""
    text = LIST_ITEM.sub("", claim.text)
    for code in codes_of(text):
        if not all(written_so(word, evidence) for word in code_words(code)):
            return f"the passage does not have {code}"
        if not is_known_command(code, evidence):
            return f"the passage does not have the command {code}"
        if pair := unknown_pair(code, evidence):
            return f"the passage does not have {pair}"
    for term in terms_of(text):
        if not stands(term, evidence.vocabulary):
            return f"the passage does not mention {term}"
    return None


def codes_of(text: str) -> list[str]:
    """The fenced blocks without their fences, and the code spans around them."""
    spans = _CODE_SPAN.finditer(_FENCED.sub("\n", text))
    return [fence["code"] for fence in _FENCED.finditer(text)] + [span[2] for span in spans]


def code_words(code: str) -> list[str]:
    """What stands between white space and brackets, without comments."""
    without_comments = re.sub(r"(?m)(?:^|\s)(?:#|//)\s.*$", "", code)
    words = re.findall(r"[^\s()\[\]{}\"'`,;<>|&]+", without_comments)
    return [word for word in words if re.search(r"[^\W\d]", word)]


def written_so(word: str, evidence: Evidence) -> bool:
    """Whether a word of code stands in the passage, or all parts of a dotted name do."""
    if re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", evidence.known):
        return True
    parts = re.findall(r"\w+", word)
    plain = not word.startswith("-") and re.fullmatch(r"[\w.:/]+", word)
    return bool(plain) and all(
        re.search(rf"(?<!\w){re.escape(part)}s?(?!\w)", evidence.known) for part in parts
    )


def is_known_command(code: str, evidence: Evidence) -> bool:
    """Whether the first two words of a command, `ros2 topic`, stand side by side there too."""
    command = re.match(r"\s*([a-z][\w-]*)\s+([a-z][\w-]*)", code)
    if command is None:
        return True
    pattern = rf"(?<!\w){re.escape(command[1])}[\s`]+{re.escape(command[2])}(?![\w-])"
    return bool(re.search(pattern, evidence.known))


def unknown_pair(code: str, evidence: Evidence) -> str | None:
    """A setting, `type="tel"` or `Blue: 10`, that the passage has with another value."""
    pairs = [key + joint + value for key, joint, value in _PAIR.findall(code)]
    return next((pair for pair in pairs if pair not in evidence.unspaced), None)


def terms_of(text: str) -> list[str]:
    """Of the prose, what looks like a name or an identifier."""
    prose = _CODE_SPAN.sub(" ` ", _FENCED.sub("\n", text))
    return [w[0] for w in _WORD.finditer(prose) if is_term(w[0], prose[: w.start()])]


def is_term(word: str, before: str) -> bool:
    """Whether a word of prose looks like a name: capitals, digits, underscores, dots, dashes."""
    if not re.search(r"[^\W\d]", word):
        return False
    if word.startswith("-") or re.search(r"[_/:@#+$]|\w\.\w|[a-z][A-Z]|[A-Z]{2}|\d", word):
        return True
    return word[0].isupper() and len(word) > 1 and not _SUBJECT_PLACE.search(before)


def vocabulary_of(text: str) -> set[str]:
    """Its words and what two or three neighbours give when they are written as one."""
    words = [w[0] for w in _WORD.finditer(text)]
    flags = {word for word in words if word.startswith("-")}
    parts = [part.lower() for word in words for part in re.findall(r"[^\W_]+", word)]
    joined = {"".join(parts[i : i + n]) for n in (1, 2, 3) for i in range(len(parts))}
    return joined | {squashed(word) for word in words} | flags


def stands(term: str, vocabulary: set[str]) -> bool:
    if term.startswith("-"):
        return term in vocabulary
    if is_known(squashed(term), vocabulary):
        return True
    parts = re.findall(r"\w+", term)
    return len(parts) > 1 and all(is_known(squashed(part), vocabulary) for part in parts)


def is_known(word: str, vocabulary: set[str]) -> bool:
    singular = [word[: -len(end)] for end in ("s", "es", "ed", "ing") if word.endswith(end)]
    return any(form in vocabulary for form in (word, word + "s", *singular))


def squashed(word: str) -> str:
    return re.sub(r"[\W_]+", "", re.sub(r"['’]s$", "", word)).lower()


# --- The same matter, otherwise ------------------------------------------------------------------

SAME_MATTER = 0.7
"""A clause is about the same matter as a claim if it has this share of the claim's words."""


def contradicted(claim: Claim, evidence: Evidence) -> str | None:
    """Whatever the passage says of the same matter, it says otherwise."""
    reasons = [contradiction(claim.text, clause.text) for clause in nearest(claim, evidence)]
    return reasons[0] if reasons and all(reasons) else None


def nearest(claim: Claim, evidence: Evidence) -> list[Clause]:
    """The clauses that are about the same matter, if any are."""
    said = set(claim.words)
    if len(said) < 2:
        return []
    shares = [(len(said & set(clause.words)) / len(said), clause) for clause in evidence.clauses]
    best = max((share for share, _ in shares), default=0.0)
    return [clause for share, clause in shares if share >= max(SAME_MATTER, best - 0.01)]


# --- A copy with another word ------------------------------------------------------------------

COPIED = 0.75
MAX_CHANGED_WORDS = 3


def changed_copy(claim: Claim, evidence: Evidence) -> str | None:
    """A sentence of the passage, word for word, but for one thing in the place of another."""
    said = words_of(claim.text)
    for clause in evidence.clauses:
        if changed := changed_words(said, clause.sequence):
            return f"the passage says {changed}"
    return None


def changed_words(said: list[str], written: list[str]) -> str | None:
    """What the passage has where a copy of it has something else."""
    same = 0
    while same < min(len(said), len(written)) and said[same] == written[same]:
        same += 1
    behind = 0
    while (
        behind < min(len(said), len(written)) - same and said[-1 - behind] == written[-1 - behind]
    ):
        behind += 1
    here = said[same : len(said) - behind]
    there = written[same : len(written) - behind]
    if not same or same + behind < COPIED * max(len(said), len(written)):
        return None
    if max(len(here), len(there)) > MAX_CHANGED_WORDS:
        return None
    one, other = set(stems(" ".join(here))), set(stems(" ".join(there)))
    return " ".join(there) if one - other and other - one else None


def words_of(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


# --- Details -----------------------------------------------------------------------------------

REPEATED = 0.9
_JOINT = re.compile(r"[,;:()—]\s|\b(?:and|or|which|because|so that|since|but|while)\b")


def added_detail(claim: Claim, evidence: Evidence) -> str | None:
    """A part of the claim without a single word of the passage, beside parts that repeat it."""
    parts = [set(stems(part)) for part in _JOINT.split(claim.text)]
    parts = [part for part in parts if part]
    strange = [part for part in parts if not part & evidence.words]
    rest = [word for part in parts if part & evidence.words for word in part]
    known = sum(word in evidence.words for word in rest)
    if strange and rest and known >= REPEATED * len(rest):
        return "the passage does not say a part of it"
    return None


# --- Closeness ---------------------------------------------------------------------------------

ENOUGH_WORDS = 0.6
"""With this share of its words within two neighbouring sentences a claim is close enough."""
LEAST_SUPPORT = 0.9
"""Otherwise that share and the cosine to the closest sentences together have to reach this. Both
were chosen on labelled claims, and on what a very small model writes."""
WINDOWS = 3


def coverage(claim: Claim, evidence: Evidence) -> float:
    """The share of a claim's words that the passage or the question has."""
    said = set(claim.words)
    return len(said & evidence.words) / len(said) if said else 1.0


def words_in_one_place(claim: Claim, evidence: Evidence) -> float:
    """The share of a claim's words, beyond those of the headings, that one window has: words that
    are gathered from all over a passage make a sentence that it does not say."""
    said = set(claim.words) - evidence.heading_words
    found = max((len(said & words) for words in evidence.windows.values()), default=0)
    return found / len(said) if said else 1.0


def closest_windows(claim: Claim, evidence: Evidence) -> list[str]:
    """The quoted words, and the windows that share most words with a claim."""
    said = set(claim.words)

    def share(text: str) -> float:
        words = evidence.windows[text]
        return len(said & words) / (1 + len(words)) ** 0.3  # a little for being brief

    nearest_first = sorted(evidence.windows, key=share, reverse=True)
    return [*claim.quotes, *nearest_first[:WINDOWS]]


OF_CODE: Sequence[Check] = (misquoted, unknown_number, unknown_term)
OF_SENTENCES: Sequence[Check] = (
    *OF_CODE,
    misplaced_number,
    changed_copy,
    added_detail,
    contradicted,
)
