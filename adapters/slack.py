"""Slack over Socket Mode: events and commands in, threads with cited answers out."""

import asyncio
import html
import logging
import re
import uuid
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import aiohttp
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.app.async_app import AsyncApp
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.context.ack.async_ack import AsyncAck
from slack_bolt.response import BoltResponse
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.http_retry.async_handler import AsyncRetryHandler
from slack_sdk.http_retry.builtin_async_handlers import (
    AsyncConnectionErrorRetryHandler,
    AsyncRateLimitErrorRetryHandler,
)
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.webhook.async_client import AsyncWebhookClient

from adapters.delivery import (
    Delivery,
    Draft,
    Envelope,
    Lookup,
    Participates,
    Place,
    Reply,
    Submit,
)
from adapters.render import SEARCHING, WRITING, SlackMessage, slack_messages, slack_sections
from rag.errors import CourseError, SettingsError, StoreUnavailable
from rag.prompts import FAILURE, NO_COURSE
from rag.types import MAX_MESSAGES, Message, Question, Role

SCOPES = (
    "app_mentions:read",
    "channels:history",
    "chat:write",
    "commands",
    "groups:history",
    "im:history",
    "mpim:history",
)
REPLY_EVENT = "footnote_reply"
PAGE_SIZE = 200
MAX_PAGES = 5
MAX_RESPONSE_URL_USES = 5
RATE_LIMIT_RETRIES = 3
LOOKUP_SECONDS = 2.5
"""Slack waits three seconds for the answer to a command."""
WATCH_SECONDS = 30

SPOKEN_SUBTYPES = (None, "file_share", "thread_broadcast")
"""The messages that someone wrote; all others report an edit, a deletion, a join, …"""
REJECTED_BLOCKS = ("invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long", "msg_too_long")

ASK_USAGE = "Write your question after the command, for example: `/ask What is a topic?`"
LOOKUP_USAGE = "Write what to look for after the command, for example: `/lookup topics`"
UNREACHABLE = "Slack cannot be reached. Is the network up, and is SLACK_API_URL right?"

logger = logging.getLogger(__name__)

Event = Mapping[str, Any]


def build_client(token: str, base_url: str, session: aiohttp.ClientSession) -> AsyncWebClient:
    """A client that waits when Slack asks it to, and keeps its connections open."""
    # No retry after a 5xx: the message may have been posted all the same.
    retries: list[AsyncRetryHandler] = [
        AsyncConnectionErrorRetryHandler(),
        AsyncRateLimitErrorRetryHandler(max_retry_count=RATE_LIMIT_RETRIES),
    ]
    return AsyncWebClient(token, base_url, session=session, retry_handlers=retries)


async def check(client: AsyncWebClient) -> list[str]:
    """What keeps the bot from working, one plain sentence each, for the doctor."""
    try:
        with _explained("SLACK_BOT_TOKEN"):
            response = await client.auth_test()
    except SettingsError as error:
        return [str(error)]
    headers = {name.lower(): str(value) for name, value in response.headers.items()}
    granted = {scope.strip() for scope in headers.get("x-oauth-scopes", "").split(",")}
    missing = [scope for scope in SCOPES if scope not in granted]
    if "x-oauth-scopes" not in headers or not missing:
        return []
    return [f"The Slack app lacks these bot scopes: {', '.join(missing)}. Add and reinstall it."]


async def check_socket(client: AsyncWebClient, app_token: str) -> list[str]:
    """What keeps events from arriving; the address that Slack hands out is not used."""
    try:
        with _explained("SLACK_APP_TOKEN"):
            await client.apps_connections_open(app_token=app_token)
    except SettingsError as error:
        return [str(error)]
    return []


def _refusal(token_name: str, error: SlackApiError) -> str:
    return f"Slack refused {token_name} ({error.response.get('error', 'unknown error')})."


# --- From Slack to questions ---------------------------------------------------------------------


def envelope_of(event: Event, team: str, bot_user: str) -> Envelope | None:
    """The question in a message event, whether or not it is meant for us; None if nobody asks."""
    asked_by_someone = event.get("user") not in (None, bot_user) and not event.get("bot_id")
    if not asked_by_someone or event.get("subtype") not in SPOKEN_SUBTYPES:
        return None
    user, channel, ts = str(event["user"]), str(event["channel"]), str(event["ts"])
    thread = event.get("thread_ts") or (None if _is_direct(event) else ts)
    place = {"channel": channel, "ts": ts, "user": user}
    question = Question(
        text=plain(str(event.get("text") or ""), bot_user),
        conversation_key=f"slack:{team}:"
        + (f"dm:{user}" if _is_direct(event) else f"{channel}:{thread}"),
        message_id=f"slack:{team}:{channel}:{ts}",
        author=user,
    )
    return Envelope(
        platform="slack", question=question, place=place | ({"thread_ts": thread} if thread else {})
    )


def envelope_of_command(command: Event) -> Envelope:
    """The question in a slash command, answered where only its author sees it."""
    team, channel, user = command["team_id"], command["channel_id"], command["user_id"]
    question = Question(
        text=plain(str(command.get("text") or "")),
        conversation_key=f"slack:{team}:{channel}:{user}",
        message_id=f"slack:{team}:{channel}:{command['trigger_id']}",
        author=user,
        private=True,
    )
    place = {"response_url": str(command["response_url"]), "user": str(user)}
    return Envelope(platform="slack", question=question, place=place)


def is_addressed(event: Event, bot_user: str) -> bool:
    """Whether the message names the bot, or was written to it alone."""
    if event.get("type") == "app_mention" or _is_direct(event):
        return True
    return re.search(rf"<@{re.escape(bot_user)}[|>]", str(event.get("text"))) is not None


def may_follow_up(event: Event) -> bool:
    """Whether the message is a reply in a thread that does not open by naming someone else."""
    return bool(event.get("thread_ts")) and not str(event.get("text") or "").lstrip().startswith(
        "<@"
    )


def _is_direct(event: Event) -> bool:
    return event.get("channel_type") == "im" or str(event["channel"]).startswith("D")


def plain(text: str, bot_user: str = "") -> str:
    """What a person reads of Slack's markup: names and labels instead of ids and entities."""
    readable = re.sub(r"<([^<>|]+)(?:\|([^<>]*))?>", lambda hit: _entity(hit, bot_user), text)
    return re.sub(r"[ \t]{2,}", " ", html.unescape(readable)).strip()


def _entity(hit: re.Match[str], bot_user: str) -> str:
    target, label = str(hit[1]), str(hit[2] or "")
    if target.startswith("@"):
        return f"@{label}" if label and target != f"@{bot_user}" else ""
    if target.startswith("#"):
        return f"#{label or target[1:]}"
    if target.startswith("!"):
        return label or f"@{target[1:].split('^')[0]}"
    return label or target


# --- From a thread to a conversation -------------------------------------------------------------


def conversation(messages: Iterable[Event], question_ts: str, bot_user: str) -> list[Message]:
    """What was said before the question, in turn, up to the last thing the bot said."""
    turns: list[Message] = []
    for message in messages:
        role, text = _spoken(message, bot_user)
        if not text or float(message["ts"]) >= float(question_ts):
            continue
        if turns and turns[-1].role == role:
            text = f"{turns.pop().content}\n{text}"
        moment = datetime.fromtimestamp(float(message["ts"]), UTC)
        turns.append(Message(role=role, content=text, timestamp=moment))
    # A question nobody answered yet is no exchange: the next one would follow it out of turn.
    answered = turns[:-1] if turns and turns[-1].role == "user" else turns
    return answered[-MAX_MESSAGES:]


def _spoken(message: Event, bot_user: str) -> tuple[Role, str]:
    text = str(message.get("text") or "")
    if message.get("user") == bot_user:
        return "assistant", plain(_without_apparatus(text))
    foreign = message.get("bot_id") or message.get("subtype") not in SPOKEN_SUBTYPES
    return "user", "" if foreign else plain(text, bot_user)


def _without_apparatus(text: str) -> str:
    """The answer alone: no list of sources, nothing that only said it was being written."""
    answer = re.split(r"\n+\*(?:Sources|Closest sections):\*\n", text)[0]
    return re.sub(rf"_(?:{SEARCHING}|{WRITING})_$", "", answer)


# --- Replies -------------------------------------------------------------------------------------


class SlackReplies:
    """Posts replies and reads threads; needs no socket, so a worker process can use it."""

    def __init__(self, client: AsyncWebClient, links: bool = True) -> None:
        self._client = client
        self._links = links
        self._bot_user = ""

    @property
    def delivery(self) -> Delivery:
        return Delivery(self.begin, self.update, self.find, self.history)

    async def begin(self, envelope: Envelope, draft: Draft) -> Place:
        """Post the first message; a private command already got its line when it was accepted."""
        if "response_url" in envelope.place:
            return envelope.place
        ts = await self._post(envelope, slack_messages(draft, self._links)[0])
        return _standing(envelope.place["channel"], [ts])

    async def update(self, envelope: Envelope, place: Place, reply: Reply) -> Place:
        messages = slack_messages(reply, self._links)
        if "response_url" not in place:
            return await self._show(envelope, place, messages, growing=isinstance(reply, Draft))
        # A response_url works five times only: none of them is spent on an unfinished answer.
        if not isinstance(reply, Draft):
            await self._respond(place, messages)
        return place

    async def find(self, envelope: Envelope) -> Place | None:
        if "response_url" in envelope.place:
            return None
        asked = envelope.place
        later = await self._read(asked, oldest=asked["ts"])
        stamps = [str(message["ts"]) for message in later if _answers(message, asked["ts"])]
        return _standing(asked["channel"], stamps) if stamps else None

    async def history(self, envelope: Envelope) -> list[Message]:
        if "response_url" in envelope.place:
            return []
        asked = envelope.place
        earlier = await self._read(asked, latest=asked["ts"])
        return conversation(earlier, asked["ts"], await self.bot_user())

    async def bot_user(self) -> str:
        if not self._bot_user:
            self._bot_user = str((await self._client.auth_test())["user_id"])
        return self._bot_user

    async def _show(
        self, envelope: Envelope, place: Place, messages: list[SlackMessage], growing: bool
    ) -> Place:
        stamps = [place["ts"], *place["more"].split()]
        # While an answer grows, only its end changes: what is full stays as it is.
        first = max(0, min(len(stamps), len(messages)) - 2) if growing else 0
        for ts, message in list(zip(stamps, messages, strict=False))[first:]:
            await self._edit(envelope, ts, message)
        for message in messages[len(stamps) :]:
            stamps.append(await self._post(envelope, message))
        for ts in stamps[len(messages) :]:
            await self._delete(place["channel"], ts)
        return _standing(place["channel"], stamps[: len(messages)])

    async def _post(self, envelope: Envelope, message: SlackMessage) -> str:
        asked = envelope.place
        options: dict[str, Any] = {
            "channel": asked["channel"],
            "thread_ts": asked.get("thread_ts"),
            "unfurl_links": False,
            "unfurl_media": False,
            "metadata": _mark(asked["ts"]),
        }
        try:
            blocks = _marked(message.blocks, asked["ts"])
            posted = await self._client.chat_postMessage(
                text=message.text, blocks=blocks, **options
            )
        except SlackApiError as error:
            if error.response.get("error") not in REJECTED_BLOCKS:
                raise
            logger.warning("Slack rejected the blocks of a reply, sending text: %s", error)
            posted = await self._client.chat_postMessage(text=message.text, **options)
        return str(posted["ts"])

    async def _edit(self, envelope: Envelope, ts: str, message: SlackMessage) -> None:
        asked = envelope.place
        options: dict[str, Any] = {
            "channel": asked["channel"],
            "ts": ts,
            "text": message.text,
            "metadata": _mark(asked["ts"]),
        }
        try:
            await self._client.chat_update(blocks=_marked(message.blocks, asked["ts"]), **options)
        except SlackApiError as error:
            match error.response.get("error"):
                case "message_not_found":
                    logger.info("A reply was deleted while it was being written")
                case reason if reason in REJECTED_BLOCKS:
                    logger.warning("Slack rejected the blocks of a reply, sending text: %s", error)
                    await self._client.chat_update(blocks=[], **options)
                case _:
                    raise

    async def _delete(self, channel: str, ts: str) -> None:
        try:
            await self._client.chat_delete(channel=channel, ts=ts)
        except SlackApiError as error:
            logger.info("A message that is no longer needed stays: %s", error)

    async def _respond(self, place: Place, messages: list[SlackMessage]) -> None:
        hook = AsyncWebhookClient(
            place["response_url"],
            session=self._client.session,
            proxy=self._client.proxy,
            retry_handlers=self._client.retry_handlers,
        )
        for number, message in enumerate(messages[:MAX_RESPONSE_URL_USES]):
            sent = await hook.send(
                text=message.text,
                blocks=message.blocks,
                response_type="ephemeral",
                replace_original=number == 0,
            )
            if sent.status_code != 200:
                # Too late, or used up. The answer was asked for in private and stays there.
                logger.info("A response_url was refused: %s %s", sent.status_code, sent.body)
                await self._send_privately(place["user"], messages[number:])
                return
        await self._send_privately(place["user"], messages[MAX_RESPONSE_URL_USES:])

    async def _send_privately(self, user: str, messages: list[SlackMessage]) -> None:
        for message in messages:
            await self._client.chat_postMessage(
                channel=user,
                text=message.text,
                blocks=message.blocks,
                unfurl_links=False,
                unfurl_media=False,
            )

    async def _read(self, asked: Place, **bounds: str) -> list[dict[str, Any]]:
        """The messages of the question's thread, or of the direct conversation, oldest first."""
        options: dict[str, Any] = {
            "channel": asked["channel"],
            "limit": PAGE_SIZE,
            "include_all_metadata": True,
            **bounds,
        }
        if "thread_ts" not in asked:
            recent = await self._client.conversations_history(**options)
            return list(reversed(recent.get("messages", [])))
        messages: list[dict[str, Any]] = []
        cursor = ""
        for _page in range(MAX_PAGES):
            page = await self._client.conversations_replies(
                ts=asked["thread_ts"], cursor=cursor or None, **options
            )
            messages += page.get("messages", [])
            cursor = page.get("response_metadata", {}).get("next_cursor", "")
            if not cursor:
                break
        return messages


def _standing(channel: str, stamps: list[str]) -> Place:
    """Where a reply stands; `more` is always there, so that it also replaces a longer one."""
    return {"channel": channel, "ts": stamps[0], "more": " ".join(stamps[1:])}


def _mark(question_ts: str) -> dict[str, Any]:
    """Says which question a message answers; readable by the whole workspace."""
    return {"event_type": REPLY_EVENT, "event_payload": {"question_ts": question_ts}}


def _marked(blocks: list[dict[str, Any]] | None, question_ts: str) -> list[dict[str, Any]]:
    """The same mark on the first block, for servers that do not keep metadata."""
    first, *rest = blocks or [{}]
    return [{**first, "block_id": f"{REPLY_EVENT}:{question_ts}"}, *rest] if first else []


def _answers(message: Event, question_ts: str) -> bool:
    metadata: dict[str, Any] = message.get("metadata") or {}
    if metadata.get("event_type") == REPLY_EVENT:
        return metadata.get("event_payload", {}).get("question_ts") == question_ts
    marks = [block.get("block_id") for block in message.get("blocks") or []]
    return f"{REPLY_EVENT}:{question_ts}" in marks


# --- The socket ----------------------------------------------------------------------------------


class SlackAdapter:
    """Listens to Slack and hands questions on; a question is stored before it is acknowledged."""

    def __init__(
        self,
        client: AsyncWebClient,
        app_token: str,
        *,
        submit: Submit,
        lookup: Lookup,
        participates: Participates,
        links: bool = True,
    ) -> None:
        self._client = client
        self._submit = submit
        self._lookup = lookup
        self._participates = participates
        self._links = links
        self._replies = SlackReplies(client, links)
        self._app_token = app_token
        self._socket: SocketModeClient | None = None
        self._watch: asyncio.Task[None] | None = None
        self.app = self._listening_app()

    @property
    def delivery(self) -> Delivery:
        return self._replies.delivery

    async def start(self) -> None:
        """Connect; returns once events can arrive."""
        with _explained("SLACK_BOT_TOKEN"):
            await self._replies.bot_user()
        with _explained("SLACK_APP_TOKEN"):
            # The socket client alone would try a refused token for ever.
            opened = await self._client.apps_connections_open(app_token=self._app_token)
        self._socket = AsyncSocketModeHandler(self.app, self._app_token, logger).client
        self._socket.wss_uri = str(opened["url"])
        await self._socket.connect()
        self._watch = asyncio.create_task(_keep_connected(self._socket))

    async def stop(self) -> None:
        if self._watch:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        if self._socket:
            await self._socket.close()

    def _listening_app(self) -> AsyncApp:
        # Bolt warns of tokens it finds in the environment; ours is given below.
        quiet = logging.getLogger(f"{__name__}.bolt")
        quiet.setLevel(logging.ERROR)
        # Bolt runs a listener before its acknowledgement only with process_before_response; when it
        # fails, nothing is acknowledged, and Slack sends the event again.
        app = AsyncApp(
            logger=quiet,
            client=self._client,
            authorize=self._authorizer(),
            process_before_response=True,
            request_verification_enabled=False,
        )
        app.event("app_mention")(self._on_message)
        app.event("message")(self._on_message)
        # An event without a listener is never acknowledged, and so sent again and again.
        app.event(re.compile(".*"))(_ignore)
        app.command("/ask")(self._on_ask)
        app.command("/lookup")(self._on_lookup)
        return app

    def _authorizer(self) -> Callable[..., Awaitable[AuthorizeResult]]:
        """Our one token. Given explicitly, or variables such as SLACK_CLIENT_ID would decide."""

        # Bolt takes no method here, and it acknowledges what fails with an error of Slack's own.
        async def authorize(enterprise_id: str | None, team_id: str | None) -> AuthorizeResult:
            with _explained("SLACK_BOT_TOKEN"):
                bot_user = await self._replies.bot_user()
            return AuthorizeResult(
                enterprise_id=enterprise_id,
                team_id=team_id,
                bot_user_id=bot_user,
                bot_token=self._client.token,
            )

        return authorize

    async def _on_message(self, body: dict[str, Any], event: dict[str, Any]) -> BoltResponse | None:
        bot_user = await self._replies.bot_user()
        envelope = envelope_of(event, str(body["team_id"]), bot_user)
        try:
            if envelope and await self._is_meant(event, envelope, bot_user):
                await self._submit(envelope)
        except StoreUnavailable as error:
            logger.warning("A message was not taken; Slack will send it again: %s", error)
            return BoltResponse(status=503)
        return None

    async def _is_meant(self, event: Event, envelope: Envelope, bot_user: str) -> bool:
        if is_addressed(event, bot_user):
            return True
        return may_follow_up(event) and await self._participates(envelope.question.conversation_key)

    async def _on_ask(self, ack: AsyncAck, command: dict[str, Any]) -> BoltResponse:
        envelope = envelope_of_command(command)
        if not envelope.question.text:
            return await _say(ack, ASK_USAGE)
        try:
            await self._submit(envelope)
        except Exception:  # the edge: without an answer Slack shows its own error code
            return await _apologise(ack)
        return await _say(ack, f"_{SEARCHING}_")

    async def _on_lookup(self, ack: AsyncAck, command: dict[str, Any]) -> BoltResponse:
        words = plain(str(command.get("text") or ""))
        if not words:
            return await _say(ack, LOOKUP_USAGE)
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                results = await self._lookup(words, None)
        except CourseError:
            return await _say(ack, NO_COURSE)
        except Exception:  # the edge: without an answer Slack shows its own error code
            return await _apologise(ack)
        found = slack_sections(results, self._links)[0]
        return await _say(ack, found.text, found.blocks)


@contextmanager
def _explained(token_name: str) -> Generator[None]:
    """Slack's refusals at the start, as a sentence for whoever runs the bot."""
    try:
        yield
    except SlackApiError as error:
        raise SettingsError(_refusal(token_name, error)) from error
    except (SlackClientError, aiohttp.ClientError, TimeoutError) as error:
        raise SettingsError(UNREACHABLE) from error


async def _keep_connected(socket: SocketModeClient) -> None:
    """Ask for a new address when the connection is gone: the SDK only retries the old one."""
    while True:
        await asyncio.sleep(WATCH_SECONDS)
        if await socket.is_connected():
            continue
        try:
            await socket.connect_to_new_endpoint(force=True)
        except (SlackClientError, aiohttp.ClientError, TimeoutError) as error:
            logger.warning("Slack is out of reach, trying again: %s", error)


async def _ignore() -> None:
    """Nothing to do; Bolt acknowledges."""


async def _say(
    ack: AsyncAck, text: str, blocks: list[dict[str, Any]] | None = None
) -> BoltResponse:
    return await ack(text=text, blocks=blocks, response_type="ephemeral")


async def _apologise(ack: AsyncAck) -> BoltResponse:
    request_id = uuid.uuid4().hex[:8]
    logger.exception("Slack command %s failed", request_id)
    return await _say(ack, FAILURE.format(id=request_id))
