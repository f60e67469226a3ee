"""Trying a request again that failed for a reason that may pass."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from email.utils import mktime_tz, parsedate_tz
from typing import TypeVar

Answer = TypeVar("Answer")
Sleep = Callable[[float], Awaitable[None]]
AskedDelay = Callable[[Exception], float | None]
"""How many seconds a failure asks for (0: it names none); None where another try is pointless."""


@dataclass(frozen=True)
class Patience:
    """How often a request is tried, and how long is waited in between."""

    attempts: int
    first_delay_seconds: float = 0.5
    longest_delay_seconds: float = 60.0

    def delay(self, failed: int, asked: float) -> float:
        """Doubled with each failure and spread a little, so that many do not return at once."""
        doubled = self.first_delay_seconds * 2 ** (failed - 1) * random.uniform(0.75, 1.25)
        return max(asked, min(doubled, self.longest_delay_seconds))


async def persistently(
    request: Callable[[], Awaitable[Answer]],
    asked_delay: AskedDelay,
    patience: Patience,
    sleep: Sleep = asyncio.sleep,
) -> Answer:
    """The answer, or the last failure once patience is exhausted (at once if more is asked)."""
    failed = 0
    while True:
        try:
            return await request()
        except Exception as error:
            failed += 1
            asked = asked_delay(error)
            if asked is None or asked > patience.longest_delay_seconds:
                raise
            if failed == patience.attempts:
                raise
        await sleep(patience.delay(failed, asked))


def retry_after(headers: Mapping[str, str]) -> float:
    """The seconds that a response's headers ask for, whichever form they use; else 0."""
    named = {name.lower(): value.strip() for name, value in headers.items()}
    if (milliseconds := _number(named.get("retry-after-ms", ""))) is not None:
        return milliseconds / 1000
    asked = named.get("retry-after", "")
    if (seconds := _number(asked)) is not None:
        return seconds
    moment = parsedate_tz(asked)
    return max(0.0, mktime_tz(moment) - time.time()) if moment else 0.0


def _number(text: str) -> float | None:
    return float(text) if text.replace(".", "", 1).isdecimal() else None
