"""Trying again: how often, how long in between, and when not."""

import time
from collections.abc import Iterable
from email.utils import formatdate

import pytest

from rag.backoff import Patience, persistently, retry_after


class Clock:
    """Sleeps without taking time, and remembers for how long."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


class Request:
    """Fails with each error once, then answers."""

    def __init__(self, errors: Iterable[Exception]) -> None:
        self._errors = list(errors)
        self.sent = 0

    async def __call__(self) -> str:
        self.sent += 1
        if self._errors:
            raise self._errors.pop(0)
        return "answer"


def asked(error: Exception) -> float | None:
    """A number is a failure that asks for so many seconds; anything else is final."""
    return float(str(error)) if isinstance(error, ArithmeticError) else None


def passing(*seconds: float) -> list[Exception]:
    return [ArithmeticError(number) for number in seconds]


async def test_an_answer_takes_one_request() -> None:
    request, clock = Request([]), Clock()
    assert await persistently(request, asked, Patience(3), clock.sleep) == "answer"
    assert (request.sent, clock.slept) == (1, [])


async def test_each_failure_doubles_the_wait_up_to_the_longest() -> None:
    clock = Clock()
    patience = Patience(7, first_delay_seconds=1, longest_delay_seconds=10)
    await persistently(Request(passing(0, 0, 0, 0, 0, 0)), asked, patience, clock.sleep)
    for slept, expected in zip(clock.slept, [1, 2, 4, 8, 10, 10], strict=True):
        assert 0.75 * expected <= slept <= 1.25 * expected
        assert slept <= 10


async def test_what_a_failure_asks_for_is_the_least_that_is_waited() -> None:
    clock = Clock()
    await persistently(Request(passing(5, 0.001)), asked, Patience(3), clock.sleep)
    assert clock.slept[0] == 5.0
    assert clock.slept[1] > 0.5


async def test_the_last_failure_is_raised_when_patience_is_exhausted() -> None:
    request, clock = Request(passing(1, 2, 3, 4)), Clock()
    with pytest.raises(ArithmeticError, match="3"):
        await persistently(request, asked, Patience(3), clock.sleep)
    assert (request.sent, len(clock.slept)) == (3, 2)


@pytest.mark.parametrize("error", [ValueError("wrong"), ArithmeticError(61.0)])
async def test_a_final_failure_and_one_that_asks_too_much_are_raised_at_once(
    error: Exception,
) -> None:
    request, clock = Request([error]), Clock()
    with pytest.raises(type(error)):
        await persistently(request, asked, Patience(3, longest_delay_seconds=60), clock.sleep)
    assert (request.sent, clock.slept) == (1, [])


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 0.0),
        ({"Retry-After": "12"}, 12.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"Retry-After": "3", "retry-after-ms": "250"}, 0.25),
        ({"Retry-After": "soon"}, 0.0),
        ({"Retry-After": "-3"}, 0.0),
        ({"Retry-After": "nan"}, 0.0),
        ({"Retry-After": "inf"}, 0.0),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ],
)
def test_retry_after_in_every_form(headers: dict[str, str], seconds: float) -> None:
    assert retry_after(headers) == seconds


def test_retry_after_as_a_date() -> None:
    soon = formatdate(time.time() + 100, usegmt=True)
    assert 90 < retry_after({"Retry-After": soon}) <= 100
