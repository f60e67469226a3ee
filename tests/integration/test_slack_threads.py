"""The whole bot as a process, with a Slack and a model that other people wrote."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.app_process import environment, finished, running
from tests.integration.model_stand_in import ModelServer, start_model
from tests.integration.slack_stand_in import (
    APP_TOKEN,
    BOT,
    BOT_TOKEN,
    DIRECT,
    LocalSlack,
    start_local_slack,
    wait_for,
)

pytestmark = pytest.mark.system

NOT_IN_THE_BOOK = "I don't have information about that in the book content"
REPLIES = {
    "sensors publish data in Isaac Sim": (
        "An OmniGraph action graph publishes sensor data to ROS 2 [1].\n\n"
        '```bash\nros2 topic list\n```\n\nSee also <!channel> and made-up support [9|"nothing"].'
    ),
    "and in Gazebo?": 'Gazebo sensors publish on Gazebo topics [1|"topic"].',
    "topic": "A topic is a named channel that carries one message type [1].",
}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One data folder for all scenarios: the sample course is ingested by the first start."""
    return tmp_path_factory.mktemp("data")


@asynccontextmanager
async def course_bot(
    slack: LocalSlack, base_url: str, data_dir: Path, **settings: str
) -> AsyncGenerator[None]:
    env = environment(
        FOOTNOTE_DATA_DIR=str(data_dir),
        SLACK_BOT_TOKEN=BOT_TOKEN,
        SLACK_APP_TOKEN=APP_TOKEN,
        SLACK_API_URL=slack.api_url,
        OPENAI_API_KEY="test-key",
        OPENAI_BASE_URL=base_url,
        **settings,
    )
    async with running(env, data_dir, "Slack: connected"):
        yield


async def reply_in(slack: LocalSlack, thread_ts: str, words: str, count: int = 1) -> dict[str, Any]:
    """The finished reply: the count-th of the thread, once it contains some words."""

    async def finished_reply() -> dict[str, Any] | None:
        replies = await slack.replies(thread_ts)
        return replies[-1] if len(replies) == count and words in text_of(replies[-1]) else None

    return await wait_for(finished_reply)


def text_of(message: dict[str, Any]) -> str:
    """All that a student can read of a message."""
    return json.dumps(message.get("blocks") or message["text"], ensure_ascii=False)


def passages_of(request: dict[str, Any]) -> list[dict[str, Any]]:
    """The passages the model was given with the question."""
    tool = [message for message in request["messages"] if message["role"] == "tool"]
    return json.loads(tool[-1]["content"])["results"]


async def test_a_conversation_in_a_thread_survives_a_restart(
    tmp_path: Path, data_dir: Path
) -> None:
    async with start_local_slack(tmp_path) as slack, start_model(tmp_path, REPLIES) as model:
        async with course_bot(slack, model.base_url, data_dir):
            asked = await slack.say(f"<@{BOT}> How do sensors publish data in Isaac Sim?")
            first = await reply_in(slack, asked["ts"], "Sources")
            assert "Ch. 3 · " in text_of(first)
            assert "<!channel>" not in text_of(first)
            assert "[9" not in text_of(first)

            await off_topic_is_refused_without_the_model(slack, model)
            await commands_answer_in_private(slack)
            await a_direct_message_is_answered(slack)

        async with course_bot(slack, model.base_url, data_dir):
            await slack.say("and in Gazebo?", thread_ts=asked["ts"])
            second = await reply_in(slack, asked["ts"], "Sources", count=2)

        request = (await model.requests())[-1]
        said = [message["content"] for message in request["messages"]]
        assert "How do sensors publish data in Isaac Sim?" in said
        assert "How sensors publish data in Gazebo" in [
            passage["section_heading"] for passage in passages_of(request)
        ]
        assert "Ch. 2 · " in text_of(second)


async def off_topic_is_refused_without_the_model(slack: LocalSlack, model: ModelServer) -> None:
    calls = len(await model.requests())
    asked = await slack.say(f"<@{BOT}> How long do I boil an egg?")
    refusal = await reply_in(slack, asked["ts"], NOT_IN_THE_BOOK)
    assert "Closest sections" in text_of(refusal)
    assert len(await model.requests()) == calls


async def commands_answer_in_private(slack: LocalSlack) -> None:
    await slack.command("/ask", "What is a topic?")
    await slack.command("/lookup", "quality of service")

    async def both_answered() -> bool:
        private = [text_of(m) for m in await slack.messages() if m.get("subtype") == "ephemeral"]
        return any("named channel" in t for t in private) and any("QoS" in t for t in private)

    await wait_for(both_answered)
    public = [m for m in await slack.messages() if m.get("subtype") != "ephemeral"]
    assert not any("named channel" in text_of(message) for message in public)


async def a_direct_message_is_answered(slack: LocalSlack) -> None:
    await slack.say("What is a topic?", channel=DIRECT)

    async def answered() -> bool:
        mine = [m for m in await slack.messages(DIRECT) if m["user"] == BOT]
        return any("named channel" in text_of(message) for message in mine)

    await wait_for(answered)


async def test_with_the_provider_down_the_book_speaks_and_an_expired_thread_is_rebuilt(
    tmp_path: Path, data_dir: Path
) -> None:
    nobody = "http://127.0.0.1:9/v1"
    short = {"FOOTNOTE_CONVERSATION_TTL_SECONDS": "1"}
    async with (
        start_local_slack(tmp_path) as slack,
        course_bot(slack, nobody, data_dir, **short),
    ):
        asked = await slack.say(f"<@{BOT}> How do sensors publish data in Isaac Sim?")
        first = await reply_in(slack, asked["ts"], "Sources")
        assert "cannot be reached right now" in text_of(first)
        await asyncio.sleep(1.5)
        await slack.say("and in Gazebo?", thread_ts=asked["ts"])
        second = await reply_in(slack, asked["ts"], "Sources", count=2)
    assert "Ch. 2 · " in text_of(second)


async def test_a_refused_token_is_one_sentence(tmp_path: Path, data_dir: Path) -> None:
    env = environment(
        FOOTNOTE_DATA_DIR=str(data_dir),
        SLACK_BOT_TOKEN="xoxb-wrong",
        SLACK_APP_TOKEN=APP_TOKEN,
        SLACK_API_URL="http://127.0.0.1:9/api/",
    )
    code, printed = await finished(env, tmp_path, "run")
    assert code == 1
    assert "Slack cannot be reached" in " ".join(printed.split())
    assert "Traceback" not in printed


async def test_redis_down_at_start_is_one_sentence(tmp_path: Path, data_dir: Path) -> None:
    env = environment(FOOTNOTE_DATA_DIR=str(data_dir), REDIS_URL="redis://127.0.0.1:9/0")
    code, printed = await finished(env, tmp_path, "run")
    assert (code, printed.strip()) == (
        1,
        "Redis at redis://127.0.0.1:9/0 cannot be reached. Is it running?",
    )
