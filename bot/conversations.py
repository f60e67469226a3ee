"""What a thread remembers: thread → conversation id → conversation, in Redis with a sliding TTL."""

import logging
import uuid
from collections import OrderedDict

from pydantic import ValidationError
from redis.asyncio import Redis

from bot.store import store_errors
from rag.types import Conversation

JOINED_SECONDS = 90 * 24 * 3600
"""How long a reply in a thread of ours counts as meant for us, even after it was forgotten."""
REMEMBERED_THREADS = 10_000

logger = logging.getLogger(__name__)


def thread_key(conversation_key: str) -> str:
    return f"footnote:thread:{conversation_key}"


def conversation_name(conversation_id: str) -> str:
    return f"footnote:conversation:{conversation_id}"


def joined_key(conversation_key: str) -> str:
    return f"footnote:joined:{conversation_key}"


class Conversations:
    """Loads and saves conversations by the key of the thread they belong to."""

    def __init__(self, redis: Redis, ttl_seconds: int) -> None:
        self._redis = redis
        self._ttl = ttl_seconds
        self._joined: OrderedDict[str, None] = OrderedDict()
        """Threads this process answered in: known without Redis, and while it is away."""

    async def load(self, conversation_key: str) -> Conversation | None:
        """The thread's conversation, or None if it is new or has expired."""
        with store_errors():
            conversation_id = await self._redis.get(thread_key(conversation_key))
            if conversation_id is None:
                return None
            stored = await self._redis.get(conversation_name(str(conversation_id)))
        return read(str(stored)) if stored else None

    async def save(self, conversation_key: str, conversation: Conversation) -> None:
        """Store it and start its time to live anew."""
        self._note_joined(conversation_key)
        with store_errors():
            async with self._redis.pipeline(transaction=True) as pipe:
                pipe.set(thread_key(conversation_key), conversation.id, ex=self._ttl)
                name = conversation_name(conversation.id)
                pipe.set(name, conversation.model_dump_json(), ex=self._ttl)
                pipe.set(joined_key(conversation_key), "1", ex=JOINED_SECONDS)
                await pipe.execute()

    async def join(self, conversation_key: str) -> None:
        """From now on a reply in this thread is meant for us."""
        self._note_joined(conversation_key)
        with store_errors():
            await self._redis.set(joined_key(conversation_key), "1", ex=JOINED_SECONDS)

    async def has_joined(self, conversation_key: str) -> bool:
        if conversation_key in self._joined:
            return True
        with store_errors():
            return bool(await self._redis.exists(joined_key(conversation_key)))

    def _note_joined(self, conversation_key: str) -> None:
        self._joined[conversation_key] = None
        self._joined.move_to_end(conversation_key)
        if len(self._joined) > REMEMBERED_THREADS:
            self._joined.popitem(last=False)


def read(stored: str) -> Conversation | None:
    """A stored conversation; one that another version wrote is as good as forgotten."""
    try:
        return Conversation.model_validate_json(stored)
    except ValidationError:
        logger.warning("A stored conversation could not be read and is begun anew")
        return None


def new_conversation() -> Conversation:
    return Conversation(id=str(uuid.uuid4()))
