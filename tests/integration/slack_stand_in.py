"""local-slack, a Slack server for tests that someone else wrote, and a hand on its controls.

It listens on all interfaces, so it only starts where there is nothing but loopback: run the system
tests with `unshare -n sh -c 'ip link set lo up && pytest -m system'` (`unshare -rn` if not root).
"""

import asyncio
import socket
import subprocess
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import yaml

BINARY = Path(__file__).parents[1] / "node_modules/local-slack-linux-x64/bin/local-slack"
BOT_TOKEN = "xoxb-test-token"
APP_TOKEN = "xapp-test-token"
TEAM = "T01TEST"
BOT = "U0BOT"
ADA = "U01ADA"
GRACE = "U02GRACE"
CHANNEL = "C01COURSE"
DIRECT = "D01ADA"
"""The direct conversation of Ada and the bot."""
CONFIG: dict[str, Any] = {
    "workspace": {"name": "Robotics 101", "domain": "robotics", "teamId": TEAM},
    "apps": [
        {
            "appId": "A01APP",
            "botUserId": BOT,
            "botName": "footnote",
            "botToken": BOT_TOKEN,
            "appToken": APP_TOKEN,
            "mode": "socket",
        }
    ],
    "users": [{"id": ADA, "name": "ada"}, {"id": GRACE, "name": "grace"}],
    "channels": [
        {"id": CHANNEL, "name": "course", "members": [ADA, GRACE, BOT]},
        {"id": DIRECT, "name": "dm-ada", "is_im": True, "members": [ADA, BOT]},
    ],
}
START_SECONDS = 15
WAIT_SECONDS = 20

T = TypeVar("T")


@dataclass(frozen=True)
class LocalSlack:
    """A running local-slack: what a student does there, and what can be seen of it."""

    url: str
    session: aiohttp.ClientSession

    @property
    def api_url(self) -> str:
        """What SLACK_API_URL must be for the app under test."""
        return f"{self.url}/api/"

    async def say(
        self, text: str, *, user: str = ADA, channel: str = CHANNEL, thread_ts: str | None = None
    ) -> dict[str, Any]:
        """Post as a user; returns the message once its events were acknowledged (or 5 s passed)."""
        body = {"channel": channel, "user": user, "text": text, "thread_ts": thread_ts}
        answer = await self._control("message", body)
        return answer["message"]

    async def command(
        self, name: str, text: str = "", *, user: str = ADA, channel: str = CHANNEL
    ) -> None:
        """Run a slash command such as "/ask"; its acknowledgement appears as a message."""
        await self._control(
            "command", {"channel": channel, "user": user, "command": name, "text": text}
        )

    async def edit(self, message: dict[str, Any], text: str) -> None:
        body = {key: message[key] for key in ("channel", "ts", "user")}
        await self._control("edit-message", {**body, "text": text})

    async def messages(self, channel: str = CHANNEL) -> list[dict[str, Any]]:
        """Everything in a channel, threads and ephemeral messages included, oldest first."""
        return (await self._get(f"messages/{channel}"))["messages"]

    async def replies(self, thread_ts: str, channel: str = CHANNEL) -> list[dict[str, Any]]:
        """What the bot wrote in a thread."""
        return [
            message
            for message in await self.messages(channel)
            if message.get("thread_ts") == thread_ts and message["user"] == BOT
        ]

    async def log(self) -> list[dict[str, Any]]:
        """What went back and forth between the server and the app."""
        return (await self._get("log"))["log"]

    async def reset(self) -> None:
        await self._control("reset", {})

    async def _get(self, path: str) -> dict[str, Any]:
        async with self.session.get(f"{self.url}/_control/{path}") as response:
            return await response.json()

    async def _control(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        async with self.session.post(f"{self.url}/_control/{path}", json=body) as response:
            answer = await response.json()
            assert answer["ok"], answer
            return answer


@asynccontextmanager
async def start_local_slack(folder: Path) -> AsyncGenerator[LocalSlack]:
    """Run it until the block ends; refuses where it could be reached from outside."""
    assert only_loopback(), "run the system tests in a network namespace of their own (unshare -n)"
    config = folder / "local-slack.yaml"
    config.write_text(yaml.safe_dump(CONFIG))
    port = free_port()
    command = [
        str(BINARY),
        "--config",
        str(config),
        "--port",
        str(port),
        "--base-host",
        "127.0.0.1",
    ]
    with (folder / "local-slack.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)  # noqa: ASYNC220
    try:
        async with aiohttp.ClientSession() as session:
            slack = LocalSlack(f"http://127.0.0.1:{port}", session)
            await wait_for(lambda: _answers(slack), START_SECONDS)
            yield slack
    finally:
        process.terminate()
        process.wait(timeout=10)


async def wait_for(
    condition: Callable[[], Awaitable[T | None]], seconds: float = WAIT_SECONDS
) -> T:
    """The first true result of a condition that is asked again and again."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if result := await condition():
            return result
        await asyncio.sleep(0.05)
    raise AssertionError(f"still not the case after {seconds} s: {condition}")


def only_loopback() -> bool:
    return [name for _index, name in socket.if_nameindex()] == ["lo"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def _answers(slack: LocalSlack) -> bool:
    try:
        await slack.log()
    except aiohttp.ClientError:
        return False
    return True
