"""Answers in the book's own words: the sentences, steps and code that fit the question best."""

import math
import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from rag.answering import Assignment
from rag.answering.asked import Asked, defined
from rag.embedding import Embedder
from rag.followups import subject_of, with_swapped_place
from rag.sentences import blocks_of, is_prose, sentences_of
from rag.terms import content_words, term_ids
from rag.types import SearchResult

READ_PASSAGES = 5
SEARCHED_PASSAGES = 12
MAX_EMBEDDED = 48
MAX_UNITS = 5
MAX_CHARACTERS = 1_100
SAME_PARAGRAPH = 0.65
SAME_PASSAGE = 0.8
OTHER_PASSAGE = 0.9
"""A unit is quoted if it comes this close to the best one: beside it, near it, elsewhere."""
FOLLOWING_A_DEFINITION = 2
BRIEF_WORDS = 2

WORD_WEIGHT = 0.5
DEFINITION_WEIGHT = 0.6
BLOCK_WEIGHT = 0.12
MESSAGE_WEIGHT = 1.0
RANK_WEIGHT = 0.04
ASIDE_WEIGHT = 0.25
HEADING_WEIGHT = 0.3

_HEADING = re.compile(r"^\*\*[^*]+\*\*:?$|^#{1,6}\s|^:::|^<[^>]+>$|^!\[[^\]]*\]\([^)]*\)$")
# What leads on or back instead of saying something: poor as a quotation.
_ASIDE = re.compile(
    r"^(?:let['’]s|next,|now,? |in this (?:chapter|section|lesson)|in the next|as discussed|as you|"
    r"recall|see the|we['’]ll|we will|you can use these|for more|first, let|in listing|the listing|"
    r"in other words|remember)\b|\b(?:quiz(?:zes)?|inventory)\b",
    re.IGNORECASE,
)
_POINTS_BACK = re.compile(r"\b(?:it|its|that|this|these|those|they|them|ones?)\b", re.IGNORECASE)
_LEANS_BACK = re.compile(
    r"^(?:this|that|these|those|it|they|such|then|however|instead|otherwise|here|both|the (?:first|"
    r"second|last|former|latter|command|code|output|result))\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Unit:
    """The smallest thing that may be quoted: a sentence, or a whole list, table or code block."""

    text: str
    passage: int
    position: int
    paragraph: int
    is_block: bool
    heading: str = ""
    """What its passage is about, in the book's own words."""


@dataclass(frozen=True)
class Scored:
    unit: Unit
    score: float
    defines: bool


class ExtractiveAnswerer:
    """Quotes faithfully, in reading order, and cites every quotation."""

    model = "extractive"
    verbatim = True

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    async def write(self, assignment: Assignment) -> AsyncIterator[str]:
        asked = asked_of(assignment)
        units = units_of(assignment.passages[:READ_PASSAGES])
        if not units:
            return
        units += await self._missing_definitions(asked, units, assignment)
        scored = await self._scored(asked, likely(asked, units))
        for piece in composed(chosen(asked, scored, units)):
            yield piece

    async def _missing_definitions(
        self, asked: Asked, units: Sequence[Unit], assignment: Assignment
    ) -> list[Unit]:
        """What a search for the bare subject adds, where no passage says what the subject is."""
        for subject in asked.subjects:
            if not any(defined(subject, unit.text) for unit in units):
                await assignment.retrieve(
                    {"query": f"What is {subject}?", "top_k": SEARCHED_PASSAGES}
                )
        known = {unit.text for unit in units}
        found = units_of(assignment.passages)
        defining = {u.passage for u in found if asked.is_defined_by(u.text)}
        return [u for u in found if u.text not in known and u.passage in defining]

    async def _scored(self, asked: Asked, units: Sequence[Unit]) -> list[Scored]:
        meant = f"{asked.before} {asked.text}".strip()
        vectors = await self._embedder.embed_passages([meant, *(u.text for u in units)])
        cosines = vectors[1:] @ vectors[0]
        weights = rarities(units)
        return [
            Scored(unit, float(cosine) + merit(asked, unit, weights), defines(asked, unit))
            for unit, cosine in zip(units, cosines, strict=True)
        ]


def asked_of(assignment: Assignment) -> Asked:
    """The question, with the one before where it says too little by itself."""
    earlier = [message.content for message in assignment.history if message.role == "user"]
    if swapped := with_swapped_place(assignment.question, subject_of(earlier)):
        return Asked(swapped)
    return Asked(assignment.question, leant_on(assignment, earlier))


def leant_on(assignment: Assignment, earlier: Sequence[str]) -> str:
    words = len(content_words(assignment.question))
    brief = words < BRIEF_WORDS or (
        words == BRIEF_WORDS and _POINTS_BACK.search(assignment.question)
    )
    return earlier[-1] if earlier and brief and not Asked(assignment.question).subjects else ""


# --- What can be quoted ------------------------------------------------------------------------


def units_of(passages: Sequence[SearchResult]) -> list[Unit]:
    """Every quotable unit of the passages, each text once."""
    units: list[Unit] = []
    seen: set[str] = set()
    for number, passage in enumerate(passages):
        split = split_units(passage.context or passage.text)
        for position, (text, paragraph, is_block) in enumerate(split):
            if text not in seen:
                seen.add(text)
                units.append(Unit(text, number, position, paragraph, is_block, passage.section))
    return units


def split_units(text: str) -> list[tuple[str, int, bool]]:
    """Sentences of paragraphs; lists, tables and code whole, together with what leads into them."""
    units: list[tuple[str, int, bool]] = []
    for paragraph, block in enumerate(blocks_of(text)):
        if not is_prose(block):
            lead = units.pop()[0] + "\n\n" if units and units[-1][0].endswith(":") else ""
            units.append((lead + block, paragraph, True))
        elif not _HEADING.match(block.strip()):
            units += [(sentence, paragraph, False) for sentence in sentences_of(block)]
    return units


def likely(asked: Asked, units: Sequence[Unit]) -> list[Unit]:
    """The units worth an embedding: those with most of the question's words."""
    by_words = sorted(units, key=lambda u: (-len(asked.terms & term_ids(u.text)), u.passage))
    return sorted(by_words[:MAX_EMBEDDED], key=lambda u: (u.passage, u.position))


# --- How well it fits --------------------------------------------------------------------------


def merit(asked: Asked, unit: Unit, weights: dict[int, float]) -> float:
    """What speaks for a unit besides its closeness in meaning."""
    leads_nowhere = not unit.is_block and unit.text.endswith(":")
    return (
        WORD_WEIGHT * share_said(asked, unit.text, weights)
        + HEADING_WEIGHT * share_said(asked, unit.heading, weights)
        + DEFINITION_WEIGHT * asked.is_defined_by(unit.text)
        + MESSAGE_WEIGHT * (asked.is_message_of(unit.text))
        + BLOCK_WEIGHT * (unit.is_block and (asked.wants_steps or asked.wants_list))
        - RANK_WEIGHT * unit.passage
        - ASIDE_WEIGHT * (bool(_ASIDE.search(unit.text)) or leads_nowhere)
    )


def share_said(asked: Asked, text: str, weights: dict[int, float]) -> float:
    """The share of the question's words, by rarity, that a text says too."""
    total = sum(weights.get(term, 0.0) for term in asked.terms)
    shared = sum(weights.get(term, 0.0) for term in asked.terms & term_ids(text))
    return shared / total if total else 0.0


def rarities(units: Sequence[Unit]) -> dict[int, float]:
    """A word that few units have tells them apart; one that all have does not."""
    counts = Counter(term for unit in units for term in term_ids(unit.text))
    return {term: math.log(1 + len(units) / count) for term, count in counts.items()}


def defines(asked: Asked, unit: Unit) -> bool:
    return asked.is_defined_by(unit.text) > 0.0


# --- What is quoted ----------------------------------------------------------------------------


def chosen(asked: Asked, scored: Sequence[Scored], units: Sequence[Unit]) -> list[Unit]:
    """The best units within the length limit, in reading order."""
    ranked = sorted(scored, key=lambda s: -s.score)
    best = ranked[0]
    sides = definitions(asked.subjects, ranked) if len(asked.subjects) > 1 else []
    if len(sides) > 1:
        return [u for side in sides for u in belonging(asked, side, units)]
    quoted = belonging(asked, best, units)
    for candidate in ranked[1:]:
        if len(quoted) >= MAX_UNITS or candidate.score < bar(best, candidate):
            continue
        more = [u for u in with_what_it_leans_on(candidate.unit, units) if u not in quoted]
        if sum(len(unit.text) for unit in [*quoted, *more]) <= MAX_CHARACTERS:
            quoted += more
    # The passage with the best unit comes first; within a passage the book's own order holds.
    first = best.unit.passage
    return sorted(quoted, key=lambda u: (u.passage != first, u.passage, u.position))


def definitions(subjects: Sequence[str], ranked: Sequence[Scored]) -> list[Scored]:
    """For each side of a comparison, the best sentence that says what it is."""
    found: list[Scored] = []
    for subject in subjects:
        says = [s for s in ranked if defined(subject, s.unit.text) and s not in found]
        found += sorted(says, key=lambda s: -defined(subject, s.unit.text))[:1]
    return found


def bar(best: Scored, candidate: Scored) -> float:
    """Where the subject is defined, another passage must define it too."""
    one, other = best.unit, candidate.unit
    if one.passage == other.passage:
        beside = one.paragraph == other.paragraph
        return (SAME_PARAGRAPH if beside else SAME_PASSAGE) * best.score
    return OTHER_PASSAGE * best.score if candidate.defines or not best.defines else math.inf


def belonging(asked: Asked, best: Scored, units: Sequence[Unit]) -> list[Unit]:
    """The best unit and what makes it a whole answer: the fix, the steps, a bit of explanation."""
    unit = best.unit
    if asked.is_message_of(unit.text):
        return [u for u in units if (u.passage, u.paragraph) == (unit.passage, unit.paragraph)]
    whole = with_what_it_leans_on(unit, units)
    following = [u for u in units if u.passage == unit.passage and u.position > unit.position]
    if best.defines and not unit.is_block:
        near = [u for u in following if u.paragraph == unit.paragraph]
        return whole + near[:FOLLOWING_A_DEFINITION]
    # A sentence that holds its command needs no code below it.
    if asked.wants_steps and not unit.is_block and "`" not in unit.text:
        near = [u for u in following if u.is_block and u.position - unit.position <= 2]
        return whole + [u for u in near[:1] if asked.terms & term_ids(u.text)]
    return whole


def with_what_it_leans_on(unit: Unit, units: Sequence[Unit]) -> list[Unit]:
    """A sentence that begins with "This" or "The command" is quoted with what stands before it."""
    if unit.is_block or not _LEANS_BACK.match(unit.text):
        return [unit]
    above = (u for u in units if (u.passage, u.position) == (unit.passage, unit.position - 1))
    before = [u for u in above if u.is_block or u.paragraph == unit.paragraph]
    return [*before, unit]


def composed(units: Sequence[Unit]) -> list[str]:
    """Quotations as Markdown: neighbouring sentences joined, blocks apart, each run cited once."""
    pieces: list[str] = []
    for place, unit in enumerate(units):
        following = units[place + 1] if place + 1 < len(units) else None
        goes_on = following is not None and following.passage == unit.passage
        in_run = goes_on and not unit.is_block and following is not None and not following.is_block
        text = unit.text if goes_on else with_marker(unit)
        gap = " " if in_run and following and following.paragraph == unit.paragraph else "\n\n"
        pieces.append(text + (gap if following else ""))
    return pieces


def with_marker(unit: Unit) -> str:
    separator = "\n\n" if unit.is_block else " "
    return f"{unit.text}{separator}[{unit.passage + 1}]"
