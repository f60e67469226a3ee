"""Questions that wait for an answer: stored before they are acknowledged, kept until answered."""

import json
import logging
import os
import socket
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from pydantic import ValidationError
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from adapters.delivery import Envelope, Place
from bot.store import store_errors

STREAM = "footnote:{inbox}:questions"
GROUP = "workers"
SEEN_SECONDS = 24 * 3600
REPLY_SECONDS = 24 * 3600

logger = logging.getLogger(__name__)
Entry = tuple[str, dict[str, str]]

# Remember the message and queue it in one step: a second delivery of it changes nothing.
PUT_ONCE = """
if redis.call('SET', KEYS[1], '1', 'NX', 'EX', ARGV[1]) then
  redis.call('XADD', KEYS[2], '*', 'envelope', ARGV[2])
  return 1
end
return 0
"""


def seen_key(message_id: str) -> str:
    return f"footnote:{{inbox}}:seen:{message_id}"


def reply_key(message_id: str) -> str:
    return f"footnote:{{inbox}}:reply:{message_id}"


@dataclass(frozen=True)
class Letter:
    """A question taken from the inbox; it stays there until `finish`."""

    entry: str
    envelope: Envelope
    attempt: int
    reply: Place | None
    """Where its reply stands, if an earlier attempt began one."""


class Inbox:
    """A Redis stream with one consumer group; every process is a consumer of its own."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._consumer = f"{socket.gethostname()}:{os.getpid()}"

    async def prepare(self) -> None:
        with store_errors():
            try:
                await self._redis.xgroup_create(STREAM, GROUP, id="0", mkstream=True)
            except ResponseError as error:
                if "BUSYGROUP" not in str(error):
                    raise

    async def put(self, envelope: Envelope) -> bool:
        """Store a question durably; False if this message was stored before."""
        keys = [seen_key(envelope.question.message_id), STREAM]
        with store_errors():
            stored = await self._redis.eval(  # pyright: ignore[reportGeneralTypeIssues]
                PUT_ONCE, 2, *keys, str(SEEN_SECONDS), envelope.model_dump_json()
            )
        return bool(stored)

    async def take(self, count: int, wait_ms: int) -> list[Letter]:
        """New questions, waiting a while for the first."""
        with store_errors():
            answer = await self._redis.xreadgroup(
                GROUP, self._consumer, {STREAM: ">"}, count=count, block=wait_ms
            )
            return await self._letters(entries_of(answer))

    async def mislaid(self, held: Collection[str]) -> list[Letter]:
        """Questions that were given to us in a reply that got lost on its way: Redis takes them for
        ours, and nobody works on them."""
        with store_errors():
            answer = await self._redis.xreadgroup(GROUP, self._consumer, {STREAM: "0"}, count=100)
            pending = entries_of(answer)
            return await self._letters((e, f) for e, f in pending if f and e not in held)

    async def reclaim(self, idle_ms: int, held: Collection[str] = ()) -> list[Letter]:
        """Questions whose worker has been silent for so long that it must have died; those whose
        entries are `held` are in good hands and only kept from others."""
        with store_errors():
            _, entries, *_ = await self._redis.xautoclaim(
                STREAM, GROUP, self._consumer, min_idle_time=idle_ms, count=100
            )
            return await self._letters((e, fields) for e, fields in entries if e not in held)

    async def note_reply(self, letter: Letter, place: Place) -> None:
        """Remember where the reply stands, so that a crash leads to an edit, not a second reply."""
        key = reply_key(letter.envelope.question.message_id)
        with store_errors():
            await self._redis.hset(key, "place", json.dumps(place))
            await self._redis.expire(key, REPLY_SECONDS)

    async def finish(self, letter: Letter) -> None:
        with store_errors():
            async with self._redis.pipeline(transaction=True) as pipe:
                pipe.xack(STREAM, GROUP, letter.entry)
                pipe.xdel(STREAM, letter.entry)
                pipe.delete(reply_key(letter.envelope.question.message_id))
                await pipe.execute()

    async def _letters(self, entries: Iterable[Entry]) -> list[Letter]:
        letters: list[Letter] = []
        for entry, fields in entries:
            try:
                letters.append(await self._letter(entry, fields))
            except (ValidationError, KeyError):
                # Another version's question: it would stop every worker that takes it.
                logger.exception(
                    "The inbox held something unreadable, which was removed: %s", entry
                )
                await self._redis.xack(STREAM, GROUP, entry)
                await self._redis.xdel(STREAM, entry)
        return letters

    async def _letter(self, entry: str, fields: dict[str, str]) -> Letter:
        envelope = Envelope.model_validate_json(fields["envelope"])
        key = reply_key(envelope.question.message_id)
        attempt = int(await self._redis.hincrby(key, "attempts", 1))
        await self._redis.expire(key, REPLY_SECONDS)
        place = await self._redis.hget(key, "place")
        return Letter(entry, envelope, attempt, json.loads(place) if place else None)


def entries_of(answer: object) -> list[Entry]:
    """The entries of our one stream, in either protocol version's shape."""
    if isinstance(answer, dict):
        streams = list(answer.values())  # pyright: ignore[reportUnknownMemberType]
        return [entry for batches in streams for batch in batches for entry in batch]
    if isinstance(answer, list):
        return [entry for _, entries in answer for entry in entries]
    return []
