"""The same words to another effect: negated, opposite, or the other way round. No I/O here."""

import re
from collections.abc import Sequence

from rag.sentences import stems

_NEGATION = re.compile(
    r"\b(?:not|no|never|none|nothing|nobody|neither|nor|cannot|\w+n['’]t)\b", re.IGNORECASE
)
# Beside one of these, a "not" more or less need not turn the meaning round.
_HALF_NEGATION = re.compile(
    r"\b(?:not only|no (?:\w+ ){0,2}(?:more|less|longer|faster|slower|later)|without|avoid\w*"
    r"|prevent\w*|lack\w*|unless|until|only|stop|refus\w*|fail\w*|instead|except|unable)\b",
    re.IGNORECASE,
)
_IDIOM = re.compile(r"\b(?:at (?:least|most)|or (?:more|less|higher|later)|as well as)\b", re.I)
_PASSIVE = re.compile(r"\b(?:is|are|was|were|be|been|gets?)\b[^.;]*\bby\b", re.IGNORECASE)
MAX_WORDS_OF_A_NAME = 3
_ORDER = ("then", "before", "after", "than", "until", "→", "into", "replaces")
_OPPOSITES = [
    tuple(frozenset(side.split("/")) for side in pair.split())
    for pair in """
        before after
        more/most less/least/fewer/fewest
        higher/highest/high lower/lowest/low
        larger/largest/bigger/large smaller/smallest/small
        longer/longest/long shorter/shortest/short
        faster/fastest/fast/quickly slower/slowest/slow/slowly
        increase/increases/raise/raises/grows decrease/decreases/reduce/reduces/lowers/shrinks
        minimum/min maximum/max
        above/over below/under
        always never/sometimes
        all/every/each none/some
        any only
        same different
        first last
        start/starts/begin/begins stop/stops/end/ends
        enable/enables/enabled disable/disables/disabled
        allow/allows/permits prevent/prevents/forbid/forbids
        required/mandatory optional
        must may/can/should
        easier/easy harder/hard/difficult
        public private
        mutable immutable
        static dynamic
        success/succeeds failure/fails
        true false
        left right
        inside/within outside
        early/earlier late/later
        open/opens close/closes
        input/inputs output/outputs
        possible impossible
        safe unsafe
        include/includes exclude/excludes
        on off
        synchronous/synchronously asynchronous/asynchronously
    """.strip().splitlines()
]


def contradiction(claim: str, clause: str) -> str | None:
    """How a claim says something else than the clause it is about, as far as words tell."""
    if is_negative(claim) is not is_negative(clause) and not is_half_negative(f"{claim} {clause}"):
        return "the passage says the opposite"
    if word := opposite_word(claim, clause):
        return f"the passage says {word}"
    same_voice = is_passive(claim) == is_passive(clause)
    if turned_round(claim, clause) or (same_voice and exchanged(stems(claim), stems(clause))):
        return "the passage has it the other way round"
    return None


def is_negative(text: str) -> bool:
    return bool(_NEGATION.search(text))


def is_half_negative(text: str) -> bool:
    return bool(_HALF_NEGATION.search(text))


def is_passive(text: str) -> bool:
    return bool(_PASSIVE.search(text))


def opposite_word(claim: str, clause: str) -> str | None:
    """The passage's word where the claim has its opposite: after for before, more for less."""
    said, written = plain_words(_IDIOM.sub("", claim)), plain_words(_IDIOM.sub("", clause))
    for one, other in _OPPOSITES:
        for here, there in ((one, other), (other, one)):
            if said & here and not said & there and written & there and not written & here:
                return min(written & there)
    return None


def plain_words(text: str) -> set[str]:
    return set(re.findall(r"[^\W\d_]+", text.lower()))


def exchanged(claim: Sequence[int], clause: Sequence[int]) -> bool:
    """Whether two things stand in each other's place, and everything else in its own."""
    single = {word for word in claim if claim.count(word) == clause.count(word) == 1}
    if len(single) < 4 or len(single) < 0.8 * len(set(claim)):
        return False
    said = [word for word in claim if word in single]
    written = [word for word in clause if word in single]
    while said and said[0] == written[0]:
        said, written = said[1:], written[1:]
    while said and said[-1] == written[-1]:
        said, written = said[:-1], written[:-1]
    lengths = range(1, MAX_WORDS_OF_A_NAME + 1)
    return any(
        len(said) > one + other and written == said[-other:] + said[one:-other] + said[:one]
        for one in lengths
        for other in lengths
    )


def turned_round(claim: str, clause: str) -> bool:
    """Whether what stands before a word of order stands behind it in the passage."""
    for word in _ORDER:
        said, written = halves(claim, word), halves(clause, word)
        if said and written:
            straight = len(said[0] & written[0]) + len(said[1] & written[1])
            crossed = len(said[0] & written[1]) + len(said[1] & written[0])
            if crossed > straight and crossed >= 2:
                return True
    return False


def halves(text: str, word: str) -> tuple[set[int], set[int]] | None:
    """The words on either side of a word, without those on both."""
    parts = re.split(rf"(?<!\w){word}(?!\w)", text, maxsplit=1, flags=re.IGNORECASE)
    if len(parts) == 1:
        return None
    before, behind = set(stems(parts[0])), set(stems(parts[1]))
    return before - behind, behind - before
