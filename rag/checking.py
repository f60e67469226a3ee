"""Lets through of an answer only what its passages bear out, unit by unit."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from rag.citations import taken_apart, with_marker
from rag.embedding import Embedder
from rag.types import SearchResult
from rag.units import Unit, in_list_or_block, is_lead
from rag.verification import (
    ENOUGH_WORDS,
    LEAST_SUPPORT,
    Claim,
    Evidence,
    closest_windows,
    coverage,
    fault_of,
    fault_of_lead,
    words_in_one_place,
)

TRIED_PASSAGES = 2
"""Without a marker, a claim may rest on one of this many passages that share most of its words."""
TRUST = 0.3
"""A marker is believed unless another passage has this much more of the claim's words."""
_OPENING = re.compile(r"^(?:yes|no|well|so|sure|however|therefore|in short)\b[,:]\s+", re.I)


@dataclass(frozen=True)
class Checked:
    """A unit that may be shown, citing what it rests on."""

    text: str
    gap: str
    claim: Claim
    evidence: Evidence


@dataclass(frozen=True)
class _Support:
    evidence: Evidence
    passage: int
    """The number of the passage, or 0 for exactly those that the claim cites."""


class Checker:
    """Checks the units of one answer against its passages; a lead waits for what it leads into."""

    def __init__(self, passages: Sequence[SearchResult], question: str, embedder: Embedder) -> None:
        self._passages = passages
        self._question = question
        self._embedder = embedder
        self._evidence: dict[tuple[int, ...], Evidence] = {}
        self._leads: list[Unit] = []
        self._gap = ""
        self.dropped: list[tuple[str, str]] = []
        """What was not let through, and why."""

    async def check(self, unit: Unit) -> Checked | None:
        """The unit behind the leads that waited for it, or nothing."""
        gap, self._gap = wider(self._gap, unit.gap), ""
        marked = taken_apart(unit.text)
        claim = Claim(_OPENING.sub("", marked.text.strip()), marked.quotes)
        if is_lead(marked.text):
            self._lead(Unit(marked.text, gap), claim)
            return None
        support = await self._support(claim, marked.numbers)
        if support is None:
            self._gap = gap if in_list_or_block(unit.text) else self._without_leads(gap)
            return None
        text = with_marker(marked.text, support.passage) if support.passage else unit.text
        return self._shown(Unit(text, gap), claim, support.evidence)

    def _lead(self, lead: Unit, claim: Claim) -> None:
        gap = lead.gap
        if lead.text.lstrip().startswith("#"):
            gap = self._without_leads(gap)  # nothing came of the heading before
        if fault := fault_of_lead(claim, self._of(range(1, len(self._passages) + 1))):
            self.dropped.append((lead.text, fault))
            self._gap = gap
        else:
            self._leads.append(Unit(lead.text, gap))

    def _without_leads(self, gap: str) -> str:
        """The leads are forgotten; what follows keeps the widest distance that stood there."""
        leads, self._leads = self._leads, []
        return reduce(wider, (lead.gap for lead in leads), gap)

    def _shown(self, unit: Unit, claim: Claim, evidence: Evidence) -> Checked:
        first, *others = [*self._leads, unit]
        self._leads = []
        text = first.text + "".join(other.gap + other.text for other in others)
        return Checked(text, first.gap, claim, evidence)

    async def _support(self, claim: Claim, numbers: Sequence[int]) -> _Support | None:
        """What bears a claim out: what it cites, else the passages that share its words."""
        if not re.search(r"\w", claim.text):
            return None  # markers alone say nothing
        best: _Support | None = None
        fault = "no passage"
        for candidate in self._candidates(claim, numbers):
            found = fault_of(claim, candidate.evidence)
            fault = found or fault if best is None else fault
            if found is None and (best is None or self._clearly(candidate, best, claim)):
                best = candidate
            if best is not None and coverage(claim, best.evidence) > 1.0 - TRUST:
                break
        if best is not None and await self._is_close(claim, best.evidence):
            return best
        self.dropped.append((claim.text, fault if best is None else "far from the passage"))
        return None

    def _clearly(self, candidate: _Support, best: _Support, claim: Claim) -> bool:
        """Whether a candidate fits so much better that the one before it is not believed."""
        return coverage(claim, candidate.evidence) > coverage(claim, best.evidence) + TRUST

    def _candidates(self, claim: Claim, numbers: Sequence[int]) -> list[_Support]:
        cited = [n for n in numbers if 1 <= n <= len(self._passages)]
        candidates = [_Support(self._of(cited), 0)] if cited else []
        if claim.quotes and cited:
            return candidates  # whoever quotes a passage means that passage
        everything = range(1, len(self._passages) + 1)
        if claim.is_code and not cited:
            best = max(everything, key=lambda n: coverage(claim, self._of([n])), default=0)
            return [_Support(self._of(everything), best)] if best else []
        by_words = sorted(everything, key=lambda n: -coverage(claim, self._of([n])))
        return candidates + [_Support(self._of([n]), n) for n in by_words[:TRIED_PASSAGES]]

    def _of(self, numbers: Sequence[int]) -> Evidence:
        key = tuple(numbers)
        if key not in self._evidence:
            passages = [self._passages[n - 1] for n in key]
            self._evidence[key] = Evidence(
                passage="\n\n".join(p.context or p.text for p in passages),
                headings="\n".join(headings_of(p) for p in passages),
                question=self._question,
            )
        return self._evidence[key]

    async def _is_close(self, claim: Claim, evidence: Evidence) -> bool:
        """One batch of embeddings, and none where the words alone decide."""
        shared = words_in_one_place(claim, evidence)
        if shared >= ENOUGH_WORDS or claim.is_code:
            return True
        windows = closest_windows(claim, evidence)
        if not windows:
            return False
        vectors = await self._embedder.embed_passages([claim.text, *windows])
        return shared + float((vectors[1:] @ vectors[0]).max()) >= LEAST_SUPPORT


def headings_of(passage: SearchResult) -> str:
    return " > ".join((passage.chapter_title, passage.page_title, passage.breadcrumb))


def wider(one: str, other: str) -> str:
    """Of two gaps the one with more line breaks."""
    return max(one, other, key=lambda gap: (gap.count("\n"), len(gap)))
