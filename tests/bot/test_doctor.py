"""What the doctor finds: one plain sentence a part, and no part hides another."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from adapters.discord import INTENT_MISSING, TOKEN_REJECTED
from bot.app import hold, open_core
from bot.cli import FAILED, run_command
from bot.doctor import Finding, discord, examine, findings, model, slack, stores
from bot.settings import load_settings
from tests.bot.slack_server import SlackServer, slack_server
from tests.bot.small_course import ingest, write_course

NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "data"
    monkeypatch.setenv("FOOTNOTE_DATA_DIR", str(folder))
    return folder


def sentence_of(found: list[Finding], part: str) -> tuple[str, str]:
    [(status, sentence)] = [(f.status, f.sentence) for f in found if f.part == part]
    return status, sentence


# --- The stores --------------------------------------------------------------------------------


async def test_a_fresh_installation_is_fine_and_lacks_a_course(data_dir: Path) -> None:
    found = await examine(load_settings())
    assert [(finding.part, finding.status) for finding in found] == [
        ("data folder", "ok"),
        ("memory", "ok"),
        ("embeddings", "ok"),
        ("index", "ok"),
        ("courses", "off"),
        ("model", "off"),
        ("Slack", "off"),
        ("Discord", "off"),
    ]
    assert all(finding.sentence.endswith(".") for finding in found)
    assert sentence_of(found, "courses")[1] == "No course yet: run footnote ingest FOLDER."


async def test_courses_are_named_with_their_size(data_dir: Path, tmp_path: Path) -> None:
    async with open_core(load_settings()) as core:
        course = write_course(tmp_path / "course")
        await ingest(core, course)
    assert sentence_of(await stores(load_settings()), "course radio") == (
        "ok",
        "4 passages of 2 files, complete and in order.",
    )


async def test_a_data_folder_in_use_is_said(data_dir: Path) -> None:
    with hold(data_dir):
        [finding] = await stores(load_settings())
    assert (finding.part, finding.status) == ("data folder", "wrong")
    assert f"is using the data folder {data_dir}" in finding.sentence


async def test_a_data_folder_that_cannot_be_used_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("FOOTNOTE_DATA_DIR", str(tmp_path / "file" / "data"))
    [finding] = await stores(load_settings())
    assert finding.status == "wrong"
    assert "cannot be used: Not a directory" in finding.sentence


async def test_redis_and_qdrant_out_of_reach_are_two_findings(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://:secret@127.0.0.1:9/0")
    monkeypatch.setenv("QDRANT_URL", NOWHERE)
    found = await stores(load_settings())
    assert sentence_of(found, "memory") == (
        "wrong",
        "Redis at redis://127.0.0.1:9/0 cannot be reached. Is it running?",
    )
    status, sentence = sentence_of(found, "index")
    assert status == "wrong"
    assert "Qdrant" in sentence
    assert "secret" not in str(found)
    assert not data_dir.exists()


async def test_a_missing_embedding_folder_is_said(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOOTNOTE_EMBEDDING_FOLDER", str(tmp_path / "nowhere"))
    status, sentence = sentence_of(await stores(load_settings()), "embeddings")
    assert status == "wrong"
    assert "nowhere" in sentence


# --- The model ---------------------------------------------------------------------------------


class Provider:
    """Lists its models to whoever has the right key."""

    def __init__(self) -> None:
        self.models: list[str] | None = ["small-model"]
        """None: a server that does not list its models."""

    async def handle(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != "Bearer right":
            return web.json_response({"error": {"message": "Incorrect API key."}}, status=401)
        if self.models is None:
            return web.json_response({"error": {"message": "Not found."}}, status=404)
        listed = [{"id": name, "object": "model"} for name in self.models]
        return web.json_response({"object": "list", "data": listed})


@pytest.fixture
async def provider(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Provider]:
    provider = Provider()
    app = web.Application()
    app.router.add_get("/v1/models", provider.handle)
    async with TestServer(app, host="127.0.0.1") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", str(server.make_url("/v1")))
        monkeypatch.setenv("OPENAI_API_KEY", "right")
        monkeypatch.setenv("OPENAI_MODEL", "small-model")
        yield provider


async def examined_model() -> tuple[str, str]:
    return sentence_of(await model(load_settings().openai), "model")


async def test_a_working_model_is_named(provider: Provider) -> None:
    status, sentence = await examined_model()
    assert status == "ok"
    assert sentence.startswith("small-model at http://127.0.0.1:")


async def test_a_server_that_lists_nothing_is_believed(provider: Provider) -> None:
    provider.models = None
    assert (await examined_model())[0] == "ok"


async def test_a_rejected_key_is_said(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "wrong")
    assert await examined_model() == ("wrong", "The provider rejected OPENAI_API_KEY.")


async def test_an_unknown_model_is_said(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_MODEL", "large-model")
    assert await examined_model() == (
        "wrong",
        "The provider does not offer the model large-model (OPENAI_MODEL).",
    )


async def test_a_provider_out_of_reach_is_said(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", f"{NOWHERE}/v1")
    assert await examined_model() == (
        "wrong",
        f"The provider at {NOWHERE}/v1 cannot be reached.",
    )


# --- Slack and Discord -------------------------------------------------------------------------


@pytest.fixture
async def slack_api(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[SlackServer]:
    async with slack_server() as server:
        monkeypatch.setenv("SLACK_API_URL", server.url)
        monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-1")
        monkeypatch.setenv("SLACK_APP_TOKEN", "xapp-1")
        yield server


async def examined_slack() -> list[tuple[str, str]]:
    return [(finding.status, finding.sentence) for finding in await slack(load_settings().slack)]


async def test_a_working_slack_app(slack_api: SlackServer) -> None:
    assert await examined_slack() == [
        ("ok", "Both tokens work, and the bot has every scope it needs.")
    ]


@pytest.mark.parametrize("missing", ["SLACK_BOT_TOKEN", "SLACK_APP_TOKEN"])
async def test_half_a_slack_app_is_wrong(
    slack_api: SlackServer, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(missing)
    assert await examined_slack() == [("wrong", f"{missing} not set: Slack stays off.")]


async def test_wrong_tokens_and_missing_scopes_are_all_said(slack_api: SlackServer) -> None:
    slack_api.scopes = "chat:write"
    slack_api.errors["apps.connections.open"] = "not_allowed_token_type"
    scopes, token = await examined_slack()
    assert scopes[1].startswith("The Slack app lacks these bot scopes: app_mentions:read")
    assert token == ("wrong", "Slack refused SLACK_APP_TOKEN (not_allowed_token_type).")
    slack_api.errors["auth.test"] = "invalid_auth"
    assert (await examined_slack())[0][1] == "Slack refused SLACK_BOT_TOKEN (invalid_auth)."


async def test_a_slack_out_of_reach_is_said_once(
    slack_api: SlackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACK_API_URL", f"{NOWHERE}/api/")
    [(status, sentence)] = await examined_slack()
    assert (status, sentence.split(".")[0]) == ("wrong", "Slack cannot be reached")


@pytest.mark.parametrize("problem", [TOKEN_REJECTED, INTENT_MISSING])
async def test_what_discord_refuses_is_said(problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, bool]] = []

    async def check(token: str, message_content: bool) -> list[str]:
        asked.append((token, message_content))
        return [problem]

    monkeypatch.setenv("DISCORD_BOT_TOKEN", "a-token")
    found = await discord(load_settings().discord, check)
    assert found == [Finding(part="Discord", status="wrong", sentence=problem)]
    assert asked == [("a-token", True)]


def test_no_problem_is_a_finding_too() -> None:
    assert findings("Discord", [], "All is well.") == [
        Finding(part="Discord", status="ok", sentence="All is well.")
    ]


# --- The command -------------------------------------------------------------------------------


def test_the_command_prints_one_json_document_and_fails_if_something_is_wrong(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-1")
    assert run_command(["doctor", "--json"]) == FAILED
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert printed.err == ""
    assert found[-2] == {
        "part": "Slack",
        "status": "wrong",
        "sentence": "SLACK_APP_TOKEN not set: Slack stays off.",
    }


def test_the_command_prints_a_line_a_part(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "– Discord: DISCORD_BOT_TOKEN is not set: Discord stays off." in lines
    assert "✓ index: Passages are in the data folder." in lines
