"""The Slack adapter: what becomes a question, when it is acknowledged, how replies are posted."""

import json
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse

from adapters.delivery import Draft, Envelope
from adapters.slack import (
    SCOPES,
    SlackAdapter,
    SlackReplies,
    build_client,
    check,
    check_socket,
    conversation,
    envelope_of,
    envelope_of_command,
    is_addressed,
    may_follow_up,
    plain,
)
from rag.errors import CourseError, SettingsError, StoreUnavailable
from rag.prompts import NO_COURSE
from rag.types import AgentResponse, Citation, SearchResult
from tests.factories import make_chunk

BOT = "UBOT"
ASKED: dict[str, Any] = {
    "type": "message",
    "channel": "C1",
    "channel_type": "channel",
    "user": "U1",
    "ts": "100.1",
    "text": "<@UBOT> what is a topic?",
}


def event(**changes: Any) -> dict[str, Any]:
    """A mention in a channel; None leaves a field out."""
    return {name: value for name, value in (ASKED | changes).items() if value is not None}


def asked(**changes: Any) -> Envelope:
    envelope = envelope_of(event(**changes), "T1", BOT)
    assert envelope
    return envelope


DIRECT = {"channel": "D1", "channel_type": "im", "text": "what is a topic?"}


# --- Events to questions -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "key", "place"),
    [
        ({}, "slack:T1:C1:100.1", {"channel": "C1", "ts": "100.1", "thread_ts": "100.1"}),
        (
            {"thread_ts": "90.1"},
            "slack:T1:C1:90.1",
            {"channel": "C1", "ts": "100.1", "thread_ts": "90.1"},
        ),
        (
            {"type": "app_mention", "channel_type": None},
            "slack:T1:C1:100.1",
            {"channel": "C1", "ts": "100.1", "thread_ts": "100.1"},
        ),
        (DIRECT, "slack:T1:dm:U1", {"channel": "D1", "ts": "100.1"}),
        (
            {**DIRECT, "thread_ts": "90.1"},
            "slack:T1:dm:U1",
            {"channel": "D1", "ts": "100.1", "thread_ts": "90.1"},
        ),
        (
            {"channel": "G1", "channel_type": "mpim"},
            "slack:T1:G1:100.1",
            {"channel": "G1", "ts": "100.1", "thread_ts": "100.1"},
        ),
        (
            {"subtype": "file_share"},
            "slack:T1:C1:100.1",
            {"channel": "C1", "ts": "100.1", "thread_ts": "100.1"},
        ),
        (
            {"subtype": "thread_broadcast", "thread_ts": "90.1"},
            "slack:T1:C1:90.1",
            {"channel": "C1", "ts": "100.1", "thread_ts": "90.1"},
        ),
    ],
)
def test_where_a_question_belongs(changes: dict[str, Any], key: str, place: dict[str, str]):
    envelope = asked(**changes)
    assert envelope.platform == "slack"
    assert envelope.place == place | {"user": "U1"}
    assert envelope.question.model_dump() == {
        "text": "what is a topic?",
        "course": None,
        "conversation_key": key,
        "message_id": f"slack:T1:{place['channel']}:100.1",
        "author": "U1",
        "private": False,
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"user": BOT},
        {"bot_id": "B9"},
        {"subtype": "bot_message", "user": None, "bot_id": "B9"},
        {"subtype": "message_changed", "user": None},
        {"subtype": "message_deleted", "user": None},
        {"subtype": "channel_join"},
        {"subtype": "me_message", "bot_id": "B9"},
        {"user": None},
    ],
)
def test_what_is_no_question(changes: dict[str, Any]):
    assert envelope_of(event(**changes), "T1", BOT) is None


def test_both_events_of_a_mention_are_one_message():
    twice = asked(), asked(type="app_mention", channel_type=None)
    assert twice[0] == twice[1]


@pytest.mark.parametrize("text", ["<@UBOT>", " <@UBOT>  ", "", None])
def test_a_blank_mention_is_still_a_question(text: str | None):
    assert asked(text=text, type="app_mention").question.text == ""


@pytest.mark.parametrize(
    ("changes", "addressed", "follow_up"),
    [
        ({}, True, False),
        ({"text": "lunch?"}, False, False),
        ({"text": "lunch?", "thread_ts": "90.1"}, False, True),
        ({"text": "<@U2> you?", "thread_ts": "90.1"}, False, False),
        ({"text": "ask <@U2>?", "thread_ts": "90.1"}, False, True),
        ({"text": "hi <@UBOT|footnote>"}, True, False),
        ({"text": "hi <@UBOT2>"}, False, False),
        (DIRECT, True, False),
        ({"channel": "D1", "channel_type": None, "text": "hi"}, True, False),
        ({"channel_type": "mpim", "text": "hi"}, False, False),
    ],
)
def test_who_is_addressed(changes: dict[str, Any], addressed: bool, follow_up: bool):
    assert is_addressed(event(**changes), BOT) is addressed
    assert may_follow_up(event(**changes)) is follow_up


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<@UBOT> a &lt;b&gt; &amp; c", "a <b> & c"),
        ("see <https://ros.org/x>", "see https://ros.org/x"),
        ("see <https://ros.org/x|the docs>", "see the docs"),
        ("<mailto:a@b.org|a@b.org>", "a@b.org"),
        ("in <#C1|general> or <#C2>", "in #general or #C2"),
        ("<@U2|ada> and <@U3> said", "@ada and said"),
        ("<!here> <!subteam^S1|@staff> hi", "@here @staff hi"),
        ("&amp;lt;b&amp;gt;", "&lt;b&gt;"),
        ("a\n<@UBOT> b", "a\n b"),
        ("if a &lt; b and c &gt; d", "if a < b and c > d"),
    ],
)
def test_slack_markup_becomes_text(text: str, shown: str):
    assert plain(text, BOT) == shown


COMMAND = {
    "team_id": "T1",
    "channel_id": "C1",
    "user_id": "U1",
    "text": "what is a topic?",
    "trigger_id": "13.37",
    "response_url": "https://hooks.slack.com/x",
}


def test_a_command_is_private():
    envelope = envelope_of_command(COMMAND)
    assert envelope.question.private
    assert envelope.question.conversation_key == "slack:T1:C1:U1"
    assert envelope.question.message_id == "slack:T1:C1:13.37"
    assert envelope.place == {"response_url": "https://hooks.slack.com/x", "user": "U1"}


# --- Threads to conversations --------------------------------------------------------------------


def said(ts: str, user: str, text: str, **fields: Any) -> dict[str, Any]:
    return {"ts": ts, "user": user, "text": text, **fields}


def test_a_thread_becomes_a_conversation():
    thread = [
        said("1.0", "U1", "<@UBOT> What is a topic?"),
        said(
            "2.0",
            BOT,
            "A bus (<https://x.org|Ch. 3 · Topics>).\n\n*Sources:*\n1. <https://x.org|Chapter 3>",
            bot_id="B1",
        ),
        said("3.0", "U2", "Thanks &amp; bye"),
        said("4.0", "U1", "And a service?"),
        said("4.5", "U9", "beep", bot_id="B9"),
        said("4.6", "U9", "joined", subtype="channel_join"),
        said("5.0", BOT, "A call.\n\n_Writing…_", bot_id="B1"),
        said("5.5", BOT, "_Searching the book…_", bot_id="B1"),
        said("6.0", "U2", "hm"),
        said("7.0", "U1", "the question itself"),
        said("8.0", "U1", "later"),
    ]
    turns = conversation(thread, "7.0", BOT)
    assert [(turn.role, turn.content) for turn in turns] == [
        ("user", "What is a topic?"),
        ("assistant", "A bus (Ch. 3 · Topics)."),
        ("user", "Thanks & bye\nAnd a service?"),
        ("assistant", "A call."),
    ]
    assert turns[0].timestamp.timestamp() == 1.0


def test_an_unanswered_thread_is_no_conversation():
    assert conversation([said("1.0", "U1", "Anyone?")], "2.0", BOT) == []


# --- A strict Slack ------------------------------------------------------------------------------


class FakeSlack:
    """A Web API that remembers its calls and answers as scripted, otherwise with success."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.errors: dict[str, list[str]] = {}
        self.answers: dict[str, list[dict[str, Any]]] = {}
        self.scopes = ",".join(SCOPES)
        self.hook_status = 200

    async def handle(self, request: web.Request) -> web.Response:
        method = request.match_info["method"]
        if method == "hook":
            self.calls.append((method, await request.json()))
            return web.Response(status=self.hook_status, text="ok")
        body = await _body(request)
        self.calls.append((method, body))
        if errors := self.errors.get(method):
            return self._refusal(errors.pop(0))
        if answers := self.answers.get(method):
            return web.json_response({"ok": True} | answers.pop(0))
        ts = f"200.{len(self.calls)}"
        answer = {"ok": True, "user_id": BOT, "ts": ts, "messages": [], "url": "ws://127.0.0.1:9"}
        return web.json_response(answer, headers={"X-OAuth-Scopes": self.scopes})

    def _refusal(self, error: str) -> web.Response:
        if error == "ratelimited":
            headers = {"Retry-After": "0"}
            return web.json_response({"ok": False, "error": error}, status=429, headers=headers)
        return web.json_response({"ok": False, "error": error})

    def made(self, method: str) -> list[dict[str, Any]]:
        return [body for name, body in self.calls if name == method]


async def _body(request: web.Request) -> dict[str, Any]:
    if request.content_type == "application/json":
        return await request.json()
    return dict(await request.post()) | dict(request.query)


@pytest.fixture
def fake() -> FakeSlack:
    return FakeSlack()


@pytest.fixture
async def url(fake: FakeSlack) -> AsyncGenerator[str]:
    app = web.Application()
    app.router.add_route("*", "/{method}", fake.handle)
    async with TestServer(app, host="127.0.0.1") as server:
        yield str(server.make_url("/"))


@pytest.fixture
async def session() -> AsyncGenerator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
def replies(url: str, session: aiohttp.ClientSession) -> SlackReplies:
    return SlackReplies(build_client("xoxb-1", url, session))


def answer(content: str = "A bus [1].") -> AgentResponse:
    citation = Citation(
        n=1,
        page_title="Topics",
        chapter_title="ROS 2",
        chapter=3,
        section="Topics",
        url="https://x.org/3",
        module="ros2",
        chunk_id="c",
        chunk_text="Topics.",
        similarity=0.5,
    )
    return AgentResponse(content=content, kind="answer", citations=[citation])


# --- Replies -------------------------------------------------------------------------------------


async def test_a_reply_begins_in_the_thread(replies: SlackReplies, fake: FakeSlack):
    place = await replies.begin(asked(), Draft())
    assert place == {"channel": "C1", "ts": "200.1", "more": ""}
    [posted] = fake.made("chat.postMessage")
    assert posted["thread_ts"] == "100.1"
    assert posted["text"] == "_Searching the book…_"
    assert not posted["unfurl_links"]
    assert not posted["unfurl_media"]
    assert posted["metadata"] == {
        "event_type": "footnote_reply",
        "event_payload": {"question_ts": "100.1"},
    }


async def test_a_direct_message_is_answered_outside_a_thread(
    replies: SlackReplies, fake: FakeSlack
):
    await replies.begin(asked(**DIRECT), Draft())
    [posted] = fake.made("chat.postMessage")
    assert "thread_ts" not in posted


async def test_a_finished_reply_replaces_the_draft(replies: SlackReplies, fake: FakeSlack):
    place = await replies.begin(asked(), Draft())
    assert await replies.update(asked(), place, answer()) == place
    [edited] = fake.made("chat.update")
    assert edited["ts"] == place["ts"]
    assert edited["text"].startswith("A bus (<https://x.org/3|Ch. 3 · Topics>).")


async def test_a_long_reply_goes_on_in_further_messages(replies: SlackReplies, fake: FakeSlack):
    place = await replies.begin(asked(), Draft())
    longer = await replies.update(asked(), place, answer("Many words. " * 800))
    assert json.loads(json.dumps(longer)) == longer
    assert len(longer["more"].split()) == 2
    assert all(post["thread_ts"] == "100.1" for post in fake.made("chat.postMessage"))
    shorter = await replies.update(asked(), longer, answer())
    assert shorter == place
    assert [call["ts"] for call in fake.made("chat.delete")] == longer["more"].split()


async def test_a_growing_reply_leaves_full_messages_alone(replies: SlackReplies, fake: FakeSlack):
    place = {"channel": "C1", "ts": "1.0", "more": "2.0 3.0"}
    draft = Draft(state="GENERATING", text="Many words. " * 800)
    await replies.update(asked(), place, draft)
    assert [call["ts"] for call in fake.made("chat.update")] == ["2.0", "3.0"]


@pytest.mark.parametrize("error", ["invalid_blocks", "msg_too_long"])
async def test_rejected_blocks_fall_back_to_text(
    error: str, replies: SlackReplies, fake: FakeSlack
):
    fake.errors = {"chat.postMessage": [error], "chat.update": [error]}
    place = await replies.begin(asked(), Draft())
    await replies.update(asked(), place, answer())
    assert [bool(call.get("blocks")) for call in fake.made("chat.postMessage")] == [True, False]
    assert [bool(call.get("blocks")) for call in fake.made("chat.update")] == [True, False]
    assert fake.made("chat.update")[1]["text"].startswith("A bus")


async def test_rate_limits_are_waited_for(replies: SlackReplies, fake: FakeSlack):
    fake.errors = {"chat.postMessage": ["ratelimited", "ratelimited"]}
    await replies.begin(asked(), Draft())
    assert len(fake.made("chat.postMessage")) == 3


async def test_a_reply_that_someone_deleted_stays_deleted(replies: SlackReplies, fake: FakeSlack):
    fake.errors = {"chat.update": ["message_not_found"]}
    place = {"channel": "C1", "ts": "1.0", "more": ""}
    assert await replies.update(asked(), place, answer()) == place
    assert not fake.made("chat.postMessage")


async def test_a_private_answer_uses_its_response_url_once(
    replies: SlackReplies, fake: FakeSlack, url: str
):
    envelope = envelope_of_command({**COMMAND, "response_url": f"{url}hook"})
    place = await replies.begin(envelope, Draft())
    place = await replies.update(envelope, place, Draft(state="GENERATING", text="A"))
    place = await replies.update(envelope, place, answer())
    assert place == envelope.place
    assert await replies.find(envelope) is None
    assert await replies.history(envelope) == []
    [(method, sent)] = fake.calls
    assert method == "hook"
    assert sent["response_type"] == "ephemeral"
    assert sent["replace_original"]
    assert sent["text"].startswith("A bus")


async def test_a_late_private_answer_comes_as_a_direct_message(
    replies: SlackReplies, fake: FakeSlack, url: str
):
    fake.hook_status = 404
    envelope = envelope_of_command({**COMMAND, "response_url": f"{url}hook"})
    await replies.update(envelope, envelope.place, answer())
    [posted] = fake.made("chat.postMessage")
    assert posted["channel"] == "U1"


def own(ts: str, question_ts: str) -> dict[str, Any]:
    payload = {"question_ts": question_ts}
    return said(ts, BOT, "A", metadata={"event_type": "footnote_reply", "event_payload": payload})


async def test_an_interrupted_reply_is_found_again(replies: SlackReplies, fake: FakeSlack):
    marked = said("103.0", BOT, "A", blocks=[{"block_id": "footnote_reply:100.1"}])
    thread = [said("100.1", "U1", "?"), own("101.0", "99.0"), own("102.0", "100.1"), marked]
    fake.answers = {"conversations.replies": [{"messages": thread}]}
    found = await replies.find(asked())
    assert found == {"channel": "C1", "ts": "102.0", "more": "103.0"}
    [read] = fake.made("conversations.replies")
    assert (read["ts"], read["oldest"]) == ("100.1", "100.1")


async def test_nothing_is_found_where_nothing_was_begun(replies: SlackReplies, fake: FakeSlack):
    assert await replies.find(asked()) is None
    assert await replies.find(asked(**DIRECT)) is None
    assert [method for method, _ in fake.calls] == [
        "conversations.replies",
        "conversations.history",
    ]


async def test_history_reads_all_pages_of_a_thread(replies: SlackReplies, fake: FakeSlack):
    fake.answers = {
        "conversations.replies": [
            {
                "messages": [said("90.0", "U1", "one")],
                "response_metadata": {"next_cursor": "more"},
            },
            {"messages": [said("91.0", BOT, "two"), said("100.1", "U1", "now")]},
        ]
    }
    history = await replies.history(asked(thread_ts="90.0"))
    assert [(turn.role, turn.content) for turn in history] == [
        ("user", "one"),
        ("assistant", "two"),
    ]


async def test_history_of_a_direct_conversation_is_read_backwards(
    replies: SlackReplies, fake: FakeSlack
):
    newest_first = [said("91.0", BOT, "two"), said("90.0", "U1", "one")]
    fake.answers = {"conversations.history": [{"messages": newest_first}]}
    history = await replies.history(asked(**DIRECT))
    assert [turn.content for turn in history] == ["one", "two"]


# --- Listening -----------------------------------------------------------------------------------


class Core:
    """What stands behind the adapter: remembers what was submitted."""

    def __init__(self) -> None:
        self.submitted: list[Envelope] = []
        self.joined: set[str] = set()
        self.error: Exception | None = None

    async def submit(self, envelope: Envelope) -> None:
        if self.error:
            raise self.error
        self.submitted.append(envelope)

    async def lookup(self, words: str, course: str | None) -> list[SearchResult]:
        if self.error:
            raise self.error
        return [SearchResult.of(make_chunk(words), score=0.5, similarity=0.5, rank=1)]

    async def participates(self, key: str) -> bool:
        if isinstance(self.error, StoreUnavailable):
            raise self.error
        return key in self.joined


@pytest.fixture
def core() -> Core:
    return Core()


@pytest.fixture
def make_adapter(
    core: Core, url: str, session: aiohttp.ClientSession
) -> Callable[[], SlackAdapter]:
    return lambda: SlackAdapter(
        build_client("xoxb-1", url, session),
        "xapp-1",
        submit=core.submit,
        lookup=core.lookup,
        participates=core.participates,
    )


@pytest.fixture
def adapter(make_adapter: Callable[[], SlackAdapter]) -> SlackAdapter:
    return make_adapter()


async def send(adapter: SlackAdapter, body: dict[str, Any]) -> BoltResponse:
    """What Socket Mode does with an envelope; only status 200 is acknowledged."""
    return await adapter.app.async_dispatch(AsyncBoltRequest(mode="socket_mode", body=body))


def wrapped(**changes: Any) -> dict[str, Any]:
    return {"type": "event_callback", "team_id": "T1", "event": event(**changes)}


def command(name: str, text: str) -> dict[str, Any]:
    return {**COMMAND, "command": name, "text": text}


async def test_a_stored_question_is_acknowledged(adapter: SlackAdapter, core: Core):
    assert (await send(adapter, wrapped())).status == 200
    assert [envelope.question.text for envelope in core.submitted] == ["what is a topic?"]


async def test_a_question_that_was_not_stored_is_not_acknowledged(
    adapter: SlackAdapter, core: Core
):
    core.error = RuntimeError("the inbox is full")
    assert (await send(adapter, wrapped())).status == 500


async def test_a_follow_up_waits_for_redis_without_a_stack_trace(
    adapter: SlackAdapter, core: Core, caplog: pytest.LogCaptureFixture
):
    core.joined.add("slack:T1:C1:90.1")
    core.error = StoreUnavailable("Redis cannot be reached.")
    follow_up = wrapped(text="and a service?", thread_ts="90.1")
    assert (await send(adapter, follow_up)).status == 503
    assert caplog.messages == [
        "A message was not taken; Slack will send it again: Redis cannot be reached."
    ]
    assert caplog.records[0].exc_info is None

    core.error = None
    assert (await send(adapter, follow_up)).status == 200
    assert [envelope.question.text for envelope in core.submitted] == ["and a service?"]


async def test_without_knowing_ourselves_nothing_is_acknowledged(
    adapter: SlackAdapter, fake: FakeSlack, core: Core
):
    fake.errors = {"auth.test": ["internal_error"]}
    assert (await send(adapter, wrapped())).status == 500
    assert (await send(adapter, wrapped())).status == 200
    assert len(core.submitted) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"text": "lunch?"},
        {"text": "and you?", "thread_ts": "90.1"},
        {"user": BOT},
        {"bot_id": "B9"},
        {"subtype": "message_changed", "user": None},
        {"type": "reaction_added"},
    ],
)
async def test_what_is_not_for_us_is_acknowledged_and_left(
    changes: dict[str, Any], adapter: SlackAdapter, core: Core
):
    assert (await send(adapter, wrapped(**changes))).status == 200
    assert core.submitted == []


async def test_replies_in_our_thread_need_no_mention(adapter: SlackAdapter, core: Core):
    core.joined.add("slack:T1:C1:90.1")
    await send(adapter, wrapped(text="and a service?", thread_ts="90.1"))
    await send(adapter, wrapped(text="<@U2> and you?", thread_ts="90.1"))
    assert [envelope.question.text for envelope in core.submitted] == ["and a service?"]


async def test_ask_is_stored_and_answered_with_a_sign(adapter: SlackAdapter, core: Core):
    response = await send(adapter, command("/ask", "what is a topic?"))
    assert response.status == 200
    assert json.loads(response.body)["text"] == "_Searching the book…_"
    assert json.loads(response.body)["response_type"] == "ephemeral"
    assert core.submitted[0].question.private


@pytest.mark.parametrize("name", ["/ask", "/lookup"])
async def test_an_empty_command_explains_itself(name: str, adapter: SlackAdapter, core: Core):
    body = json.loads((await send(adapter, command(name, "  "))).body)
    assert body["text"].endswith(f"`{name} What is a topic?`" if name == "/ask" else "topics`")
    assert core.submitted == []


async def test_lookup_lists_sections_without_an_answer(adapter: SlackAdapter, core: Core):
    body = json.loads((await send(adapter, command("/lookup", "typed messages"))).body)
    assert body["text"] == "1. ROS 2 — Nodes and topics\ntyped messages"
    assert body["response_type"] == "ephemeral"
    assert core.submitted == []


async def test_lookup_without_a_course_says_so(adapter: SlackAdapter, core: Core):
    core.error = CourseError("No course has been ingested yet.")
    response = await send(adapter, command("/lookup", "topics"))
    assert json.loads(response.body)["text"] == NO_COURSE


@pytest.mark.parametrize("name", ["/ask", "/lookup"])
async def test_a_failed_command_says_one_fixed_sentence(
    name: str, adapter: SlackAdapter, core: Core, caplog: pytest.LogCaptureFixture
):
    core.error = RuntimeError("secret detail")
    response = await send(adapter, command(name, "topics"))
    said_id = json.loads(response.body)["text"].removesuffix(".").split()[-1]
    assert "secret" not in response.body
    assert said_id in caplog.text


@pytest.mark.parametrize(
    ("method", "name"),
    [("auth.test", "SLACK_BOT_TOKEN"), ("apps.connections.open", "SLACK_APP_TOKEN")],
)
async def test_a_refused_token_is_a_sentence(
    method: str, name: str, adapter: SlackAdapter, fake: FakeSlack
):
    fake.errors = {method: ["invalid_auth"]}
    with pytest.raises(SettingsError, match=rf"Slack refused {name} \(invalid_auth\)\."):
        await adapter.start()


async def test_other_variables_do_not_change_who_we_are(
    make_adapter: Callable[[], SlackAdapter],
    core: Core,
    fake: FakeSlack,
    monkeypatch: pytest.MonkeyPatch,
):
    for name in ("SLACK_CLIENT_ID", "SLACK_CLIENT_SECRET", "SLACK_BOT_TOKEN"):
        monkeypatch.setenv(name, "other")
    assert (await send(make_adapter(), wrapped())).status == 200
    assert len(core.submitted) == 1


# --- The doctor ----------------------------------------------------------------------------------


async def test_a_working_app_has_no_problems(url: str, session: aiohttp.ClientSession):
    assert await check(build_client("xoxb-1", url, session)) == []


async def test_missing_scopes_are_named(url: str, session: aiohttp.ClientSession, fake: FakeSlack):
    fake.scopes = ",".join(scope for scope in SCOPES if not scope.startswith("im:"))
    [problem] = await check(build_client("xoxb-1", url, session))
    assert "lacks these bot scopes: im:history." in problem


async def test_a_refused_token_is_named(url: str, session: aiohttp.ClientSession, fake: FakeSlack):
    fake.errors = {"auth.test": ["token_revoked"]}
    problems = await check(build_client("xoxb-1", url, session))
    assert problems == ["Slack refused SLACK_BOT_TOKEN (token_revoked)."]


async def test_the_socket_token_is_checked_without_connecting(
    url: str, session: aiohttp.ClientSession, fake: FakeSlack
):
    client = build_client("xoxb-1", url, session)
    assert await check_socket(client, "xapp-1") == []
    fake.errors = {"apps.connections.open": ["not_allowed_token_type"]}
    assert await check_socket(client, "xoxb-1") == [
        "Slack refused SLACK_APP_TOKEN (not_allowed_token_type)."
    ]


async def test_an_unreachable_slack_is_a_sentence(session: aiohttp.ClientSession):
    [problem] = await check(build_client("xoxb-1", "http://127.0.0.1:9/", session))
    assert problem.startswith("Slack cannot be reached.")


def test_the_manifest_asks_for_what_the_adapter_needs():
    manifest = yaml.safe_load(Path(__file__).parents[2].joinpath("app-manifest.yaml").read_text())
    assert tuple(manifest["oauth_config"]["scopes"]["bot"]) == SCOPES
    assert manifest["settings"]["socket_mode_enabled"]
    commands = [one["command"] for one in manifest["features"]["slash_commands"]]
    assert commands == ["/ask", "/lookup"]
    histories = [scope for scope in SCOPES if scope.endswith(":history")]
    events = manifest["settings"]["event_subscriptions"]["bot_events"]
    assert len([name for name in events if name.startswith("message.")]) == len(histories)
