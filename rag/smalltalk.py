"""Messages that are no questions about the book: greetings, thanks, "what can you do?"."""

import re

from rag.prompts import BYE_REPLY, HELLO_REPLY, THANKS_REPLY
from rag.terms import content_words

_TO_WHOM = r"(?:\s+(?:there|everyone|all|bot|footnote|again|so much|very much|a lot|you|for\b.*))*"
_PRAISE = r"(?:ok(?:ay)?|great|perfect|cool|awesome|nice|got it|makes sense|good bot|well done)"
_TALK = [
    (re.compile(rf"^\W*{words}\W*$", re.IGNORECASE), reply)
    for words, reply in (
        (rf"(?:hi|hello|hey|hiya|howdy|greetings){_TO_WHOM}", HELLO_REPLY),
        (rf"good (?:morning|afternoon|evening){_TO_WHOM}", HELLO_REPLY),
        (
            rf"{_PRAISE}?\W*(?:thanks|thank you|thx|ty|cheers|that help(?:s|ed)){_TO_WHOM}",
            THANKS_REPLY,
        ),
        (_PRAISE, THANKS_REPLY),
        (rf"(?:bye|goodbye|good ?night|see you|ciao){_TO_WHOM}", BYE_REPLY),
    )
]
_HELP = re.compile(
    r"^\W*(?:help(?: me)?|who are you|how do i use (?:you|this bot)|how does this bot work|"
    r"what (?:can|do) you do|what are you(?: for)?|what can i ask(?: you)?(?: about)?|"
    r"what do you know(?: about)?|what(?: is|'s) (?:in )?this course(?: about)?|"
    r"(?:which|what) chapters (?:are there|does (?:the|this) course have))\W*$",
    re.IGNORECASE,
)
_LOST = re.compile(
    r"^\W*(?:sorry\W+)?i (?:don['’]t|didn['’]t|do not) (?:understand|get)(?: that| it)?\W*$",
    re.IGNORECASE,
)
_SIMPLER_TEXT = """
    simply simpler simple simplify easier rephrase reword paraphrase shorter shorten briefly brief
    summarise summarize summary eli5 plain differently again
"""
_ASIDE_TEXT = """
    explain describe say put word words terms language english different way answer sentence
    sentences five year old 5 understand understood got confused sorry pls bit little kid child
    beginner last previous
"""
_SIMPLER = frozenset(_SIMPLER_TEXT.split())
_ASIDE = frozenset(_ASIDE_TEXT.split())


def small_talk(text: str) -> str | None:
    """What to reply to a greeting, thanks or a goodbye; None for everything else."""
    return next((reply for pattern, reply in _TALK if pattern.match(text)), None)


def asks_for_help(text: str) -> bool:
    return bool(_HELP.match(text))


def asks_for_simpler(text: str) -> bool:
    """Whether the last answer is wanted in other words, and nothing else."""
    words = {word.lower() for word in content_words(text)}
    return bool(_LOST.match(text)) or bool(words & _SIMPLER and words <= _SIMPLER | _ASIDE)
