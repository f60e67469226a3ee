"""Which platforms run, and what is said of those that do not."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from adapters.delivery import Delivery, Envelope
from adapters.discord import INTENT_MISSING, TOKEN_REJECTED, DiscordAdapter
from bot.app import Core, open_core
from bot.fronts import Front, open_fronts, start_discord
from bot.settings import load_settings
from rag.errors import SettingsError
from rag.types import SearchResult
from tests.bot.slack_server import SlackServer, slack_server


@pytest.fixture
async def slack(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[SlackServer]:
    async with slack_server() as server:
        monkeypatch.setenv("SLACK_API_URL", server.url)
        monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-1")
        monkeypatch.setenv("SLACK_APP_TOKEN", "xapp-1")
        yield server


@pytest.fixture
async def core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Core]:
    monkeypatch.setenv("FOOTNOTE_DATA_DIR", str(tmp_path / "data"))
    async with open_core(load_settings()) as core:
        yield core


async def fronts_of(core: Core) -> list[Front]:
    async with open_fronts(load_settings(), core) as fronts:
        return fronts


# --- Slack -------------------------------------------------------------------------------------


async def test_without_tokens_nothing_runs_and_the_missing_ones_are_named(core: Core) -> None:
    assert await fronts_of(core) == [
        Front("Slack", False, "not running: SLACK_BOT_TOKEN and SLACK_APP_TOKEN not set"),
        Front("Discord", False, "not running: DISCORD_BOT_TOKEN not set"),
    ]


async def test_half_of_slacks_tokens_are_not_enough(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-1")
    slack, _ = await fronts_of(core)
    assert slack == Front("Slack", False, "not running: SLACK_APP_TOKEN not set")


async def test_slack_runs_with_both_tokens(core: Core, slack: SlackServer) -> None:
    front, _ = await fronts_of(core)
    assert front == Front("Slack", True, "connected over Socket Mode")


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        ("auth.test", "Slack refused SLACK_BOT_TOKEN (invalid_auth)."),
        ("apps.connections.open", "Slack refused SLACK_APP_TOKEN (invalid_auth)."),
    ],
)
async def test_a_wrong_token_stops_slack_only(
    core: Core, slack: SlackServer, method: str, sentence: str
) -> None:
    slack.errors[method] = "invalid_auth"
    front, discord = await fronts_of(core)
    assert front == Front("Slack", False, f"not running: {sentence}")
    assert discord.name == "Discord"


async def test_missing_scopes_stop_slack_and_are_named(core: Core, slack: SlackServer) -> None:
    slack.scopes = "chat:write"
    front, _ = await fronts_of(core)
    assert not front.running
    assert "lacks these bot scopes: app_mentions:read, channels:history, commands" in front.sentence


# --- Discord -----------------------------------------------------------------------------------


class ScriptedDiscord(DiscordAdapter):
    """An adapter whose platform answers as it is told to, and never brings a question."""

    def __init__(
        self, login: Exception | None = None, start: Exception | None = None, ready: bool = True
    ) -> None:
        super().__init__(self._never, self._nothing, self._no_names, self._no_one)
        self.refuses_login, self.refuses_start, self.gets_ready = login, start, ready
        self.dropped = asyncio.Event()
        self.stopped = False

    async def login(self, token: str) -> None:
        if self.refuses_login:
            raise self.refuses_login

    async def start(self, token: str) -> None:
        if self.gets_ready:
            await self.dropped.wait()
        if self.refuses_start:
            raise self.refuses_start

    async def ready(self) -> None:
        if not self.gets_ready:
            await asyncio.Event().wait()

    async def stop(self) -> None:
        self.stopped = True
        await super().stop()

    async def _never(self, envelope: Envelope) -> None:
        raise AssertionError("nobody asks")

    async def _nothing(self, words: str, course: str | None) -> list[SearchResult]:
        return []

    async def _no_names(self, letters: str, course: str | None) -> list[str]:
        return []

    async def _no_one(self, key: str) -> bool:
        return False


async def test_discord_runs_once_it_is_ready() -> None:
    adapter, deliveries = ScriptedDiscord(), dict[str, Delivery]()
    async with AsyncExitStack() as stack:
        front = await start_discord(adapter, "token", deliveries, stack)
        assert front == Front("Discord", True, "connected")
        assert deliveries == {"discord": adapter.delivery}
    assert adapter.stopped


@pytest.mark.parametrize(
    ("adapter", "sentence"),
    [
        (lambda: ScriptedDiscord(login=SettingsError(TOKEN_REJECTED)), TOKEN_REJECTED),
        # The gateway, and not the login, says that the intent is off.
        (
            lambda: ScriptedDiscord(start=SettingsError(INTENT_MISSING), ready=False),
            INTENT_MISSING,
        ),
    ],
)
async def test_a_refused_discord_does_not_run_and_says_why(
    adapter: type[ScriptedDiscord], sentence: str
) -> None:
    refused, deliveries = adapter(), dict[str, Delivery]()
    async with AsyncExitStack() as stack:
        front = await start_discord(refused, "token", deliveries, stack)
    assert front == Front("Discord", False, f"not running: {sentence}")
    assert deliveries == {}
    assert refused.stopped


async def test_a_discord_that_is_lost_later_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    adapter = ScriptedDiscord(start=SettingsError("Discord closed the connection for good."))
    with caplog.at_level(logging.ERROR, logger="bot.fronts"):
        async with AsyncExitStack() as stack:
            front = await start_discord(adapter, "token", {}, stack)
            adapter.dropped.set()
            await asyncio.sleep(0.01)
    assert front.running
    assert caplog.messages == [
        "Discord is no longer connected: Discord closed the connection for good."
    ]
