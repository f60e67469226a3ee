"""Where a question says that it looks: "in chapter 3" becomes a filter, and "in Rust" narrows
nothing in a book about Rust. No I/O here."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rag.terms import content_words, term_ids
from rag.types import SearchFilters

_CHAPTERS = re.compile(
    r"\bchapters?\s+(?P<first>\d{1,3})(?:\s*(?:-|–|to|through)\s*(?P<last>\d{1,3}))?\b",
    re.IGNORECASE,
)
_LESSON = re.compile(r"\blesson\s+(?P<lesson>\d{1,3})\b", re.IGNORECASE)
_MODULE = re.compile(
    r"\bmodule\s+(?P<after>[\w+#.-]+)|(?P<before>[\w+#.-]+(?:\s+[\w+#.-]+)?)\s+module\b",
    re.IGNORECASE,
)
_LEFT_BEHIND = re.compile(
    r"(?:\b(?:in|from|of|for|within|according to|as of|see)\b[\s,]*)?"
    r"(?:\b(?:the|this)\b\s*)?\x00[\s,]*(?:(?:of|in)\b[\s,]*(?=\x00|the\s*\x00))?",
    re.IGNORECASE,
)
_PLACE = r"(?:in|with|using|for|on)\s+(?P<place>[\w.+#-]+(?:\s+[\w.+#-]+){0,2})"
_SETTINGS = (
    re.compile(rf"^(?P<rest>.*\S)[\s,]+{_PLACE}(?P<end>\W*)$", re.IGNORECASE | re.DOTALL),
    re.compile(rf"^\W*{_PLACE},\s+(?P<rest>.*\S)(?P<end>)$", re.IGNORECASE | re.DOTALL),
)
EVERYWHERE = 0.25
"""A word that so many of a course's passages use says what the whole course is about."""
_LITTLE_WORDS = {"the", "of", "in", "from", "this", "a", "an"}
_NUMBER_OR_NAME = re.compile(r"[a-z]+|\d+")


@dataclass(frozen=True, order=True)
class Place:
    """Where some of a course's passages stand, by the course's own numbers."""

    module: str
    chapter: int
    lesson: int


def narrowed(
    question: str, filters: SearchFilters, places: Sequence[Place]
) -> tuple[str, SearchFilters]:
    """The question without its reference to a place, and the filters that this reference means.

    A reference counts only if the course has such a place and the caller has set no such filter;
    a lesson number alone counts only if it names one lesson of the whole course.
    """
    rest, found = question, dict[str, str | int]()
    known = set(places)
    for pattern, meant in ((_CHAPTERS, _chapters), (_MODULE, _module), (_LESSON, _lesson)):
        match = pattern.search(rest)
        fields = meant(match, known) if match else None
        if match and fields:
            found |= fields
            known = {place for place in known if _fits(place, found)}
            rest = f"{rest[: match.start()]}\x00{rest[match.end() :]}"
    given = filters.model_dump(exclude={"book_id"}, exclude_none=True)
    if not found or not known or given:
        return question, filters
    rest = " ".join(_LEFT_BEHIND.sub(" ", rest).split()).lstrip(" ,;:")
    text = rest if content_words(rest) else question
    return text, SearchFilters.model_validate(filters.model_dump() | found)


def without_setting(question: str, share_of: Callable[[int], float]) -> str:
    """The question without "in ROS 2" where everything is about ROS 2, which would draw it to the
    passages that say so most often; `share_of` tells how many of the passages use a word."""
    for setting in _SETTINGS:
        match = setting.match(question)
        if match is None or not content_words(match["rest"]):
            continue
        words = term_ids(match["place"])
        if words and all(share_of(word) >= EVERYWHERE for word in words):
            return match["rest"] + match["end"]
    return question


def _chapters(match: re.Match[str], places: set[Place]) -> dict[str, str | int] | None:
    first = int(match["first"])
    last = int(match["last"] or first)
    exist = any(first <= place.chapter <= last for place in places)
    return {"chapter_min": first, "chapter_max": last} if exist else None


def _module(match: re.Match[str], places: set[Place]) -> dict[str, str | int] | None:
    """The module that is called so, or the only one whose name has all the words said."""
    said = (match["after"] or match["before"]).lower()
    names = {m: set(_NUMBER_OR_NAME.findall(m.lower())) for m in {p.module for p in places}}
    for words in (said, said.split()[-1]):
        wanted = set(_NUMBER_OR_NAME.findall(words)) - _LITTLE_WORDS
        same = [module for module, name in names.items() if wanted and wanted == name]
        within = [module for module, name in names.items() if wanted and wanted < name]
        if len(named := same or within) == 1:
            return {"module_filter": named[0]}
    return None


def _lesson(match: re.Match[str], places: set[Place]) -> dict[str, str | int] | None:
    lesson = int(match["lesson"])
    homes = {(place.module, place.chapter) for place in places if place.lesson == lesson}
    return {"lesson_filter": lesson} if len(homes) == 1 else None


def _fits(place: Place, found: dict[str, str | int]) -> bool:
    chapters = range(int(found.get("chapter_min", 0)), int(found.get("chapter_max", 10**6)) + 1)
    return (
        place.chapter in chapters
        and found.get("module_filter", place.module) == place.module
        and found.get("lesson_filter", place.lesson) == place.lesson
    )
