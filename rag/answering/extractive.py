"""Answers in the book's own words: the sentences, steps and code that fit the question best."""

import math
import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rag.answering import Assignment
from rag.answering.asked import Asked, defined
from rag.answering.quotable import Unit, composed, following, units_of, with_what_it_leans_on
from rag.answering.resolving import parts_of, resolved
from rag.embedding import Embedder
from rag.sentences import LIST_ITEM
from rag.terms import term_ids
from rag.types import SearchResult

READ_PASSAGES = 5
SEARCHED_PASSAGES = 20
MAX_EMBEDDED = 48
MAX_UNITS = 5
MAX_CHARACTERS = 1_100
SAME_PARAGRAPH = 0.5
SAME_PASSAGE = 0.65
OTHER_PASSAGE = 0.95
"""A unit is quoted if it comes this close to the best one: beside it, near it, elsewhere."""
FOLLOWING_A_DEFINITION = 2

WORD_WEIGHT = 0.5
HEADING_WEIGHT = 0.6
PASSAGE_WEIGHT = 0.5
DEFINITION_WEIGHT = 0.6
MESSAGE_WEIGHT = 1.0
KIND_WEIGHT = 0.15
LEAD_WEIGHT = 0.5
UNASKED_CODE_WEIGHT = 0.25

SENTENCE_CHARACTERS = 250
LENGTH_COST = 0.3
"""Beyond a long sentence, words count for less: a long block says many by chance."""

_BECAUSE = re.compile(
    r"\b(?:because|so that|otherwise|therefore|due to|reasons?|prevents?|leads? to)\b",
    re.IGNORECASE,
)
Weights = Mapping[int, float]
"""Words by their rarity."""


@dataclass(frozen=True)
class Scored:
    unit: Unit
    own: float
    """What it says itself, by which it is compared with its neighbours."""
    place: float
    """Where it stands, which tells passages apart."""
    defines: bool

    @property
    def score(self) -> float:
        return self.own + self.place


class ExtractiveAnswerer:
    """Quotes faithfully, in reading order, and cites every quotation."""

    model = "extractive"
    verbatim = True

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    async def write(self, assignment: Assignment) -> AsyncIterator[str]:
        passages = units_of(assignment.passages[:READ_PASSAGES])
        quoted: list[Unit] = []
        for asked in asked_of(assignment) if passages else []:
            units = passages + await self._missing_definitions(asked, passages, assignment)
            units = [cut_to_item(asked, unit) for unit in units]
            scored = await self._scored(asked, units, assignment.passages)
            quoted += [unit for unit in chosen(asked, scored, units) if unit not in quoted]
        for piece in composed(quoted):
            yield piece

    async def _missing_definitions(
        self, asked: Asked, units: Sequence[Unit], assignment: Assignment
    ) -> list[Unit]:
        """What a search for the bare subject adds, where no passage says what the subject is."""
        for subject in asked.subjects:
            if not any(clarity(Asked(f"What is {subject}?"), unit) for unit in units):
                await assignment.retrieve(
                    {"query": f"What is {subject}?", "top_k": SEARCHED_PASSAGES}
                )
        known = {unit.text for unit in units}
        found = units_of(assignment.passages)
        defining = {unit.passage for unit in found if clarity(asked, unit)}
        return [u for u in found if u.text not in known and u.passage in defining]

    async def _scored(
        self, asked: Asked, units: Sequence[Unit], passages: Sequence[SearchResult]
    ) -> list[Scored]:
        meant = f"{asked.before} {asked.text}".strip()
        weights = rarities(units)
        units = likely(asked, units)
        vectors = await self._embedder.embed_passages([meant, *(u.text for u in units)])
        cosines = vectors[1:] @ vectors[0]
        return [
            Scored(
                unit,
                float(cosine) + merit(asked, unit, weights),
                place(asked, passages[unit.passage], weights),
                clarity(asked, unit) > 0.0,
            )
            for unit, cosine in zip(units, cosines, strict=True)
        ]


def asked_of(assignment: Assignment) -> list[Asked]:
    """All that is asked at once, each said in full where it leans on what was asked before."""
    earlier = [message.content for message in assignment.history if message.role == "user"]
    asked: list[Asked] = []
    for part in parts_of(assignment.question):
        asked.append(resolved(part, earlier))
        earlier = [*earlier, asked[-1].text]
    return asked


def likely(asked: Asked, units: Sequence[Unit]) -> list[Unit]:
    """The units worth an embedding: those with most of the question's words."""
    saying = [unit for unit in units if not unit.is_aside] or units
    by_words = sorted(saying, key=lambda u: (-len(asked.terms & term_ids(u.text)), u.passage))
    return sorted(by_words[:MAX_EMBEDDED], key=lambda u: (u.passage, u.position))


def cut_to_item(asked: Asked, unit: Unit) -> Unit:
    """Of a list that explains several things, the only item that explains what is asked for."""
    if not unit.is_block or unit.is_code:
        return unit
    named = [item for item in unit.items if asked.is_defined_by(item, unit.heading) == 1.0]
    if len(named) != 1:
        return unit
    # Alone and on one line it needs no bullet.
    is_block = "\n" in named[0]
    text = named[0] if is_block else LIST_ITEM.sub("", named[0])
    return replace(unit, text=text, is_block=is_block)


# --- How well it fits --------------------------------------------------------------------------


def merit(asked: Asked, unit: Unit, weights: Weights) -> float:
    """What speaks for a unit besides its closeness in meaning."""
    clear = clarity(asked, unit)
    return (
        WORD_WEIGHT * share_said(asked, unit, weights)
        + DEFINITION_WEIGHT * clear
        + MESSAGE_WEIGHT * asked.is_message_of(unit.text)
        + KIND_WEIGHT * is_kind_wanted(asked, unit)
        - LEAD_WEIGHT * (unit.leads_on and not clear)
        - UNASKED_CODE_WEIGHT * (unit.is_code and not asked.may_want_code)
    )


def place(asked: Asked, passage: SearchResult, weights: Weights) -> float:
    """What speaks for all that a passage says: how well it was found, and its heading."""
    return PASSAGE_WEIGHT * passage.score + HEADING_WEIGHT * fit(asked, passage.section, weights)


def share_said(asked: Asked, unit: Unit, weights: Weights) -> float:
    """The share of the question's words, by rarity, that a unit says too; a long one says
    many words by chance."""
    total = sum(weights.get(term, 0.0) for term in asked.terms)
    shared = sum(weights.get(term, 0.0) for term in asked.terms & term_ids(unit.text))
    brevity = min(1.0, SENTENCE_CHARACTERS / len(unit.text)) ** LENGTH_COST
    return brevity * shared / total if total else 0.0


def fit(asked: Asked, heading: str, weights: Weights) -> float:
    """How far question and heading say the same, and nothing else."""
    words = term_ids(heading)
    both = sum(weights.get(term, 0.0) for term in asked.terms & words)
    total = sum(weights.get(t, 0.0) for t in asked.terms) + sum(weights.get(t, 0.0) for t in words)
    return 2 * both / total if total else 0.0


def is_kind_wanted(asked: Asked, unit: Unit) -> bool:
    """Whether a unit looks like an answer: steps to "how to", a number to "how many"."""
    return (
        (asked.wants_steps and unit.is_block and not unit.is_table)
        or (asked.wants_list and unit.enumerates)
        or (unit.is_code and asked.wants_code)
        or (asked.wants_number and bool(re.search(r"\d", unit.text)))
        or (asked.wants_reason and bool(_BECAUSE.search(unit.text)))
    )


def rarities(units: Sequence[Unit]) -> Weights:
    """A word that few units have tells them apart; one that all have does not."""
    counts = Counter(term for unit in units for term in term_ids(f"{unit.heading} {unit.text}"))
    return {term: math.log(1 + len(units) / count) for term, count in counts.items()}


def clarity(asked: Asked, unit: Unit) -> float:
    """How clearly a unit defines what is asked for."""
    return asked.is_defined_by(unit.text, unit.heading, unit.opens)


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
        if len(quoted) >= MAX_UNITS or not comes_close(candidate, best):
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


def comes_close(candidate: Scored, best: Scored) -> bool:
    """Where the subject is defined, another passage must define it too."""
    one, other = best.unit, candidate.unit
    if one.passage == other.passage:
        needed = SAME_PARAGRAPH if one.paragraph == other.paragraph else SAME_PASSAGE
        return candidate.own >= needed * best.own
    fits = candidate.defines or not best.defines
    return fits and candidate.score >= OTHER_PASSAGE * best.score


def belonging(asked: Asked, best: Scored, units: Sequence[Unit]) -> list[Unit]:
    """The best unit and what makes it a whole answer: the fix, the steps, a bit of explanation."""
    unit = best.unit
    if asked.is_message_of(unit.text):
        return [u for u in units if (u.passage, u.paragraph) == (unit.passage, unit.paragraph)]
    whole = with_what_it_leans_on(unit, units)
    below = [u for u in following(unit, units) if u not in whole]
    if best.defines and not unit.is_block:
        near = [u for u in below if u.paragraph == unit.paragraph and not u.is_aside]
        return whole + near[:FOLLOWING_A_DEFINITION]
    # A sentence that holds its command needs no code below it.
    if asked.wants_steps and not unit.is_block and "`" not in unit.text:
        near = [u for u in below if u.is_block and u.position - unit.position <= 2]
        return whole + [u for u in near[:1] if asked.terms & term_ids(u.text)]
    return whole
