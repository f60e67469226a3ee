"""Discord: mentions, threads, direct messages and two slash commands, translated both ways."""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Protocol, TypeVar
from uuid import uuid4

import aiohttp
import discord
from discord import app_commands
from discord.http import Route

from adapters.delivery import (
    Delivery,
    Draft,
    Envelope,
    Lookup,
    Participates,
    Place,
    Reply,
    Submit,
    Suggest,
)
from adapters.render import SEARCHING, WRITING, discord_messages, discord_sections
from rag.errors import CourseError, FootnoteError, SettingsError, StoreUnavailable
from rag.prompts import FAILURE, NO_COURSE
from rag.types import MAX_MESSAGES, MAX_QUESTION_CHARACTERS, Message, Question, Role

log = logging.getLogger(__name__)

T = TypeVar("T")

TOKEN_REJECTED = (
    "Discord rejects DISCORD_BOT_TOKEN: copy the bot's token again from "
    "https://discord.com/developers/applications, page “Bot”."
)
INTENT_MISSING = (
    "Discord's message content intent is off for this bot, so it cannot follow up in a thread "
    "without a mention, answer forum posts or rebuild a conversation from a thread's history: "
    "switch it on at https://discord.com/developers/applications, page “Bot”, "
    "“Privileged Gateway Intents”, or switch it off in Footnote's settings."
)
UNREACHABLE = "Discord cannot be reached. Is the network up?"

MAX_THREAD_NAME = 100
MAX_CHOICES = 25
MAX_CHOICE_LENGTH = 100
HISTORY_MESSAGES = 100
ARCHIVE_MINUTES = 1440
RETRY_DELAYS_SECONDS = (0.5, 1.0, 2.0)
ACKNOWLEDGED_WITHIN_SECONDS = 5
RATE_LIMIT_SECONDS = 60.0

TROUBLE = (discord.DiscordException, aiohttp.ClientError, OSError)
THREAD_EXISTS = 160004
NO_SUCH_RESPONSE = {10008, 10015, 10062, 50027}
"""Unknown message, webhook or interaction, invalid token: what an interaction's end looks like."""

MARKUP = re.compile(r"( ?)<(@!?|@&|#|a?:\w+:|/[^:<>]+:)(\d{15,20})>")
SPOKEN = (discord.MessageType.default, discord.MessageType.reply)


# --- Pure translation --------------------------------------------------------------------------


def plain_text(message: discord.Message, own_ids: set[int]) -> str:
    """What was said, forwarded text included, with names for mentions and without our own."""
    names = {
        **{user.id: f"@{user.display_name}" for user in message.mentions},
        **{role.id: f"@{role.name}" for role in message.role_mentions},
        **{channel.id: f"#{channel.name}" for channel in message.channel_mentions},
    }

    def readable(match: re.Match[str]) -> str:
        space, kind, number = match.groups()
        if int(number) in own_ids:
            return ""
        spoken = kind.strip("a:") if kind.endswith(":") else f"{kind[0]}unknown"
        return space + names.get(int(number), spoken)

    texts = [message.content, *(snapshot.content for snapshot in message.message_snapshots)]
    return MARKUP.sub(readable, "\n".join(filter(None, texts))).strip()


def thread_name(question: str) -> str:
    """The question in one line, short enough to name a thread."""
    name = " ".join(question.split()) or "Question"
    if len(name) <= MAX_THREAD_NAME:
        return name
    return name[: MAX_THREAD_NAME - 1].rsplit(" ", 1)[0] + "…"


def without_apparatus(text: str) -> str:
    """The answer alone: no list of sources, nothing that only said it was being written."""
    answer = re.split(r"(?:^|\n+)\*\*(?:Sources|Closest sections):\*\*\n", text)[0]
    return re.sub(rf"\s*\*(?:{SEARCHING}|{WRITING})\*$", "", answer)


def in_turns(spoken: Iterable[tuple[Role, str]]) -> list[Message]:
    """User and assistant in turn: what one side said in a row becomes one message."""
    turns: list[tuple[Role, list[str]]] = []
    for role, text in spoken:
        if not text:
            continue
        if turns and turns[-1][0] == role:
            turns[-1][1].append(text)
        else:
            turns.append((role, [text]))
    # A question nobody answered yet is no exchange: the next one would follow it out of turn.
    answered = turns[:-1] if turns and turns[-1][0] == "user" else turns
    messages = [Message(role=role, content="\n".join(texts)) for role, texts in answered]
    return messages[-MAX_MESSAGES:]


def choices(names: Iterable[str]) -> list[app_commands.Choice[str]]:
    """Autocompletion as Discord allows it: 25 distinct choices of 100 characters."""
    short = dict.fromkeys(name.strip()[:MAX_CHOICE_LENGTH] for name in names if name.strip())
    return [app_commands.Choice(name=name, value=name) for name in list(short)[:MAX_CHOICES]]


def command_shape(command: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a student sees of a command: when it changes, the command is registered again."""
    seen = ("name", "description", "type", "required", "autocomplete", "min_length", "max_length")
    options = [tuple(option.get(key) or None for key in seen) for option in command["options"]]
    return command["name"], command["description"], *options


# --- Calling Discord ---------------------------------------------------------------------------


def is_transient(error: Exception) -> bool:
    """What discord.py does not retry by itself: 503 and connections that break on Linux."""
    if isinstance(error, discord.DiscordException):
        return isinstance(error, discord.HTTPException) and error.status == 503
    return isinstance(error, TROUBLE)


async def patiently(
    call: Callable[[], Awaitable[T]], worth_retrying: Callable[[Exception], bool] = is_transient
) -> T:
    """The call's result, tried again a few times; each try carries the same nonce."""
    for delay in RETRY_DELAYS_SECONDS:
        try:
            return await call()
        except TROUBLE as error:
            if not worth_retrying(error):
                raise
        await asyncio.sleep(delay)
    return await call()


@contextmanager
def explained() -> Generator[None]:
    """Discord's refusals at the start, as a sentence for whoever runs the bot."""
    try:
        yield
    except discord.LoginFailure as error:
        raise SettingsError(TOKEN_REJECTED) from error
    except discord.PrivilegedIntentsRequired as error:
        raise SettingsError(INTENT_MISSING) from error
    except TROUBLE as error:
        raise SettingsError(UNREACHABLE) from error


@asynccontextmanager
async def apologising(say: Callable[[str], Awaitable[object]]) -> AsyncGenerator[None]:
    """The adapter's edge: a failure is logged, and the student gets one sentence with its id."""
    try:
        yield
    except Exception:
        request_id = uuid4().hex[:8]
        log.exception("Discord request %s failed", request_id)
        with suppress(*TROUBLE):
            await say(FAILURE.format(id=request_id))


async def check(
    token: str, message_content: bool = True, client: discord.Client | None = None
) -> list[str]:
    """What keeps the bot from working, one plain sentence each, for the doctor."""
    client = client or discord.Client(intents=discord.Intents.none())
    try:
        await client.login(token)
        flags = client.application_flags
    except discord.LoginFailure:
        return [TOKEN_REJECTED]
    except TROUBLE:
        return [UNREACHABLE]
    finally:
        await client.close()
    allowed = flags.gateway_message_content or flags.gateway_message_content_limited
    return [] if allowed or not message_content else [INTENT_MISSING]


# --- Replies -----------------------------------------------------------------------------------


class _Writer(Protocol):
    """Messages of one reply: in a channel, or only before the eyes of one student."""

    async def send(self, text: str, n: int) -> str: ...
    async def edit(self, message_id: str, text: str) -> None: ...
    async def delete(self, message_id: str) -> None: ...


class _ChannelWriter:
    def __init__(self, channel: discord.PartialMessageable, nonce: str, reply_to: str | None):
        self._channel = channel
        self._nonce = nonce
        self._reply_to = reply_to

    async def send(self, text: str, n: int) -> str:
        nonce = f"{self._nonce}-{n}"
        if n > 0 or self._reply_to is None:
            sent = await patiently(
                lambda: self._channel.send(text, nonce=nonce, suppress_embeds=True)
            )
            return str(sent.id)
        question = self._channel.get_partial_message(int(self._reply_to))
        reference = question.to_reference(fail_if_not_exists=False)
        sent = await patiently(
            lambda: self._channel.send(text, nonce=nonce, reference=reference, suppress_embeds=True)
        )
        return str(sent.id)

    async def edit(self, message_id: str, text: str) -> None:
        message = self._channel.get_partial_message(int(message_id))
        await patiently(lambda: message.edit(content=text))

    async def delete(self, message_id: str) -> None:
        message = self._channel.get_partial_message(int(message_id))
        with suppress(discord.NotFound):
            await patiently(message.delete)


class _PrivateWriter:
    """Writes through an interaction's own webhook, which any process can open by its token.

    discord.py's `Webhook` knows no "@original", hence the bare routes.
    """

    def __init__(self, client: discord.Client, asked: Place):
        self._client = client
        self._webhook = {"webhook_id": asked["application"], "webhook_token": asked["token"]}
        self._asked_at = discord.utils.snowflake_time(int(asked["message"]))

    async def send(self, text: str, n: int) -> str:
        private = discord.MessageFlags(ephemeral=True).value
        sent = await self._call("POST", "", {"content": text, "flags": private})
        return str(sent["id"])

    async def edit(self, message_id: str, text: str) -> None:
        await self._call("PATCH", f"/messages/{message_id}", {"content": text})

    async def delete(self, message_id: str) -> None:
        with suppress(discord.NotFound):
            await self._call("DELETE", f"/messages/{message_id}", None)

    async def _call(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        route = Route(method, "/webhooks/{webhook_id}/{webhook_token}" + path, **self._webhook)
        options: dict[str, Any] = {}
        if body:
            options["json"] = body | {"allowed_mentions": {"parse": []}}
        return await patiently(
            lambda: self._client.http.request(route, **options), self._worth_retrying
        )

    def _worth_retrying(self, error: Exception) -> bool:
        """A quick worker may be here before the command was acknowledged: give it a moment."""
        age = (discord.utils.utcnow() - self._asked_at).total_seconds()
        early = _is_over(error) and age < ACKNOWLEDGED_WITHIN_SECONDS
        return early or is_transient(error)


def _is_over(error: Exception) -> bool:
    return isinstance(error, discord.HTTPException) and error.code in NO_SUCH_RESPONSE


class _Replies:
    """The four callables of `Delivery`; they use REST only, so any logged-in process can reply."""

    def __init__(self, client: discord.Client, links: bool):
        self._client = client
        self._links = links

    async def begin(self, envelope: Envelope, draft: Draft) -> Place:
        try:
            place = await self._open(envelope)
        except discord.NotFound:
            log.warning("%s was deleted before its reply", envelope.question.message_id)
            return {}
        return await self.update(envelope, place, draft)

    async def update(self, envelope: Envelope, place: Place, reply: Reply) -> Place:
        """An empty place means that nothing can be shown: what was there has been deleted."""
        if not place:
            return place
        try:
            return await self._show_or_move(envelope, place, reply)
        except (discord.NotFound, discord.Forbidden) as error:
            log.warning("No reply to %s: %s", envelope.question.message_id, error)
            return {}

    async def find(self, envelope: Envelope) -> Place | None:
        asked = envelope.place
        if asked["kind"] == "command":
            return None  # beginning again edits the same response, so nothing can double
        here: Place = {"channel": asked["channel"], "reply_to": asked["message"]}
        thread: Place = {"channel": asked["message"]}
        for place in (thread, here) if asked["kind"] == "channel" else (here,):
            if ids := await self._messages_of_reply(place, asked["message"]):
                return {**place, "messages": " ".join(ids)}
        return None

    async def history(self, envelope: Envelope) -> list[Message]:
        asked = envelope.place
        if asked["kind"] in ("channel", "command"):
            return []
        question = discord.Object(int(asked["message"]))
        newest_first = self._channel(asked["channel"]).history(
            limit=HISTORY_MESSAGES, before=question
        )
        earlier: list[discord.Message] = []
        with suppress(discord.NotFound, discord.Forbidden):
            earlier = [message async for message in newest_first][::-1]
        starter = await self._starter(asked, earlier)
        people = [said for said in (*starter, *earlier) if self._is_part_of_talk(said)]
        return in_turns((self._role(said), self._said(said)) for said in people)

    async def _open(self, envelope: Envelope) -> Place:
        """Where the reply will stand; a question in a channel gets its thread here."""
        asked = envelope.place
        if asked["kind"] == "command":
            return {"private": "yes", "messages": "@original"}
        here: Place = {"channel": asked["channel"], "reply_to": asked["message"]}
        if asked["kind"] != "channel":
            return here
        return {"channel": asked["message"]} if await self._open_thread(envelope) else here

    async def _open_thread(self, envelope: Envelope) -> bool:
        """Whether the question has its thread, whose id is the question's own."""
        channel, message = int(envelope.place["channel"]), int(envelope.place["message"])
        name = thread_name(envelope.question.text)
        try:
            # The cache-free call: a worker without a gateway knows no guilds.
            await patiently(
                lambda: self._client.http.start_thread_with_message(
                    channel, message, name=name, auto_archive_duration=ARCHIVE_MINUTES
                )
            )
        except discord.HTTPException as error:
            if error.status == 404 or error.status >= 500:
                raise
            return error.code == THREAD_EXISTS
        return True

    async def _show_or_move(self, envelope: Envelope, place: Place, reply: Reply) -> Place:
        try:
            return await self._show(envelope, place, reply)
        except discord.HTTPException as error:
            if "private" not in place or not _is_over(error):
                raise
        # Too late for the private response: a direct message, never the channel.
        student = discord.Object(int(envelope.place["user"]))
        direct = await patiently(lambda: self._client.create_dm(student))
        return await self._show(envelope, {"channel": str(direct.id)}, reply)

    async def _show(self, envelope: Envelope, place: Place, reply: Reply) -> Place:
        writer = self._writer(envelope, place)
        ids = place.get("messages", "").split()
        parts = discord_messages(reply, self._links)
        for n, part in enumerate(parts):
            if n < len(ids):
                await writer.edit(ids[n], part)
            else:
                ids.append(await writer.send(part, n))
        for surplus in ids[len(parts) :]:
            await writer.delete(surplus)
        return {**place, "messages": " ".join(ids[: len(parts)])}

    def _writer(self, envelope: Envelope, place: Place) -> _Writer:
        asked = envelope.place
        if place.get("private"):
            return _PrivateWriter(self._client, asked)
        channel = self._channel(place["channel"])
        return _ChannelWriter(channel, asked["message"], place.get("reply_to"))

    async def _messages_of_reply(self, place: Place, question_id: str) -> list[str]:
        """The first message names the question, or opens its thread; further ones name nothing."""
        ids: list[str] = []
        reply_to = int(place["reply_to"]) if "reply_to" in place else None
        after = discord.Object(int(question_id))
        with suppress(discord.NotFound, discord.Forbidden):
            async for said in self._channel(place["channel"]).history(
                limit=HISTORY_MESSAGES, after=after
            ):
                if said.author.id != self._me or said.type not in SPOKEN:
                    continue
                names = said.reference.message_id if said.reference else None
                if names == (None if ids else reply_to):
                    ids.append(str(said.id))
                elif ids:
                    break
        return ids

    async def _starter(self, asked: Place, earlier: list[discord.Message]) -> list[discord.Message]:
        """A thread's first message, which lies in the channel above it (but not in a forum)."""
        thread = int(asked["channel"])
        known = any(message.id == thread for message in earlier) or int(asked["message"]) == thread
        if known or "parent" not in asked:
            return []
        try:
            return [await self._channel(asked["parent"]).fetch_message(thread)]
        except discord.HTTPException:
            return []  # a thread without a starter, or its message is gone

    def _is_part_of_talk(self, message: discord.Message) -> bool:
        return message.type in SPOKEN and (message.author.id == self._me or not message.author.bot)

    def _said(self, message: discord.Message) -> str:
        text = plain_text(message, {self._me})
        return without_apparatus(text) if self._role(message) == "assistant" else text

    def _role(self, message: discord.Message) -> Role:
        return "assistant" if message.author.id == self._me else "user"

    def _channel(self, channel_id: str) -> discord.PartialMessageable:
        return self._client.get_partial_messageable(int(channel_id))

    @property
    def _me(self) -> int:
        return self._client.user.id if self._client.user else 0


# --- Questions ---------------------------------------------------------------------------------


class DiscordAdapter:
    """Discord's side of the bot: what students say there goes in, replies come out."""

    def __init__(
        self,
        submit: Submit,
        lookup: Lookup,
        suggest: Suggest,
        participates: Participates,
        links: bool = True,
        message_content: bool = True,
    ):
        self._submit = submit
        self._lookup = lookup
        self._suggest = suggest
        self._participates = participates
        self._links = links
        self._client = _Client(self, message_content)
        replies = _Replies(self._client, links)
        self.delivery = Delivery(replies.begin, replies.update, replies.find, replies.history)

    @property
    def client(self) -> discord.Client:
        return self._client

    async def login(self, token: str) -> None:
        """Enough to deliver replies: a worker needs no gateway."""
        with explained():
            await self._client.login(token)

    async def start(self, token: str) -> None:
        """Listens until `stop`."""
        if self._client.user is None:
            await self.login(token)
        with explained():
            await self._client.connect()

    async def ready(self) -> None:
        """Returns once messages can arrive."""
        await self._client.wait_until_ready()

    async def stop(self) -> None:
        await self._client.close()

    async def receive(self, message: discord.Message) -> None:
        """Stores a message as a question if it is meant for the bot."""
        if message.author.bot or message.webhook_id or message.type not in SPOKEN:
            return
        async with apologising(message.reply):
            envelope = await self._envelope(message)
            if await self._is_meant(message, envelope):
                await self._submit(envelope)

    async def ask(self, interaction: discord.Interaction, question: str) -> None:
        """A private question: acknowledged once it is stored, answered by the worker."""
        async with apologising(_privately(interaction)):
            await self._submit(_private_envelope(interaction, question))
            await interaction.response.defer(ephemeral=True, thinking=True)

    async def lookup(self, interaction: discord.Interaction, query: str) -> None:
        """The sections that fit some words, for the one who asked."""
        async with apologising(_privately(interaction)):
            await interaction.response.defer(ephemeral=True, thinking=True)
            try:
                first, *more = discord_sections(await self._lookup(query, None), self._links)
            except CourseError:
                first, *more = [NO_COURSE]
            await interaction.edit_original_response(content=first)
            for part in more:
                await interaction.followup.send(part, ephemeral=True)

    async def suggest(self, letters: str) -> list[app_commands.Choice[str]]:
        try:
            return choices(await self._suggest(letters, None))
        except FootnoteError as error:
            log.warning("Nothing to complete: %s", error)
            return []

    async def _is_meant(self, message: discord.Message, envelope: Envelope) -> bool:
        if message.guild is None or self._own_ids(message) & _mentioned_ids(message):
            return True
        if envelope.place["kind"] != "thread" or not envelope.question.text:
            return False
        if message.mentions:
            return False  # students talking to each other in the bot's thread
        try:
            return await self._participates(envelope.question.conversation_key)
        except StoreUnavailable:
            return False

    async def _envelope(self, message: discord.Message) -> Envelope:
        place = await self._place(message)
        where = place["message"] if place["kind"] == "channel" else place["channel"]
        key = f"dm:{message.author.id}" if place["kind"] == "dm" else where
        question = Question(
            text=plain_text(message, self._own_ids(message)),
            conversation_key=f"discord:{place['guild']}:{key}",
            message_id=f"discord:{place['channel']}:{place['message']}",
            author=str(message.author.id),
        )
        return Envelope(platform="discord", question=question, place=place)

    async def _place(self, message: discord.Message) -> Place:
        place: Place = {"channel": str(message.channel.id), "message": str(message.id)}
        if message.guild is None:
            return {"kind": "dm", "guild": "@me", **place}
        place["guild"] = str(message.guild.id)
        channel = message.channel
        if isinstance(channel, discord.PartialMessageable):  # not in the cache
            channel = await self._client.fetch_channel(channel.id)
        if isinstance(channel, discord.Thread):
            return {"kind": "thread", "parent": str(channel.parent_id), **place}
        return {"kind": "channel", **place}

    def _own_ids(self, message: discord.Message) -> set[int]:
        """The bot itself, and the role of the same name that completion offers beside it."""
        role = message.guild.self_role if message.guild else None
        return {known.id for known in (self._client.user, role) if known}


def _mentioned_ids(message: discord.Message) -> set[int]:
    return {mentioned.id for mentioned in (*message.mentions, *message.role_mentions)}


def _private_envelope(interaction: discord.Interaction, text: str) -> Envelope:
    guild, channel, user = interaction.guild_id or "@me", interaction.channel_id, interaction.user
    question = Question(
        text=text.strip(),
        conversation_key=f"discord:{guild}:{channel}:{user.id}",
        message_id=f"discord:{channel}:{interaction.id}",
        author=str(user.id),
        private=True,
    )
    place: Place = {
        "kind": "command",
        "guild": str(guild),
        "channel": str(channel),
        "message": str(interaction.id),
        "user": str(user.id),
        "application": str(interaction.application_id),
        "token": interaction.token,
    }
    return Envelope(platform="discord", question=question, place=place)


def _privately(interaction: discord.Interaction) -> Callable[[str], Awaitable[object]]:
    async def say(text: str) -> None:
        if interaction.response.is_done():
            await interaction.followup.send(text, ephemeral=True)
        else:
            await interaction.response.send_message(text, ephemeral=True)

    return say


class _Client(discord.Client):
    """discord.py's client, wired to the adapter."""

    def __init__(self, adapter: DiscordAdapter, message_content: bool):
        super().__init__(
            intents=discord.Intents(
                guilds=True, guild_messages=True, dm_messages=True, message_content=message_content
            ),
            allowed_mentions=discord.AllowedMentions(
                everyone=False, users=False, roles=False, replied_user=True
            ),
            max_ratelimit_timeout=RATE_LIMIT_SECONDS,
        )
        self._adapter = adapter
        self.tree = _command_tree(self, adapter)

    async def setup_hook(self) -> None:
        """Registers the commands, but only when Discord knows other ones."""
        try:
            known = {
                command_shape(command.to_dict()) for command in await self.tree.fetch_commands()
            }
            ours = {
                command_shape(command.to_dict(self.tree)) for command in self.tree.get_commands()
            }
            if known != ours:
                await self.tree.sync()
        except discord.HTTPException:
            log.exception("Discord did not take the slash commands; mentions work without them")

    async def on_message(self, message: discord.Message) -> None:
        await self._adapter.receive(message)


def _command_tree(
    client: discord.Client, adapter: DiscordAdapter
) -> app_commands.CommandTree[discord.Client]:
    tree = app_commands.CommandTree(client)

    @tree.command(description="Ask the course material; only you see the answer.")
    @app_commands.describe(question="What would you like to know?")
    async def ask(  # pyright: ignore[reportUnusedFunction]
        interaction: discord.Interaction,
        question: app_commands.Range[str, 1, MAX_QUESTION_CHARACTERS],
    ) -> None:
        await adapter.ask(interaction, question)

    @tree.command(description="Find the sections about something; only you see the list.")
    @app_commands.describe(query="A chapter, a section or a few words")
    async def lookup(interaction: discord.Interaction, query: str) -> None:
        await adapter.lookup(interaction, query)

    @lookup.autocomplete("query")
    async def suggest(  # pyright: ignore[reportUnusedFunction]
        interaction: discord.Interaction, letters: str
    ) -> list[app_commands.Choice[str]]:
        return await adapter.suggest(letters)

    return tree
