"""aimock, a model server that someone else wrote: scripted replies, a journal of requests."""

import json
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from tests.integration.slack_stand_in import free_port, wait_for

PROGRAM = Path(__file__).parents[1] / "node_modules/@copilotkit/aimock/dist/aimock-cli.js"


@dataclass(frozen=True)
class ModelServer:
    """A running aimock."""

    url: str
    session: aiohttp.ClientSession

    @property
    def base_url(self) -> str:
        """What OPENAI_BASE_URL must be for the app under test."""
        return f"{self.url}/v1"

    async def requests(self) -> list[dict[str, Any]]:
        """The bodies of all requests for a completion so far."""
        async with self.session.get(f"{self.url}/__aimock/journal") as response:
            entries = await response.json()
        return [e["body"] for e in entries if e["path"].endswith("/chat/completions")]

    async def answers(self) -> bool:
        try:
            await self.requests()
        except aiohttp.ClientError:
            return False
        return True


@asynccontextmanager
async def start_model(folder: Path, replies: dict[str, str]) -> AsyncGenerator[ModelServer]:
    """Streams each reply to a question that contains its key."""
    scripted: list[dict[str, Any]] = [
        {"match": {"userMessage": words}, "response": {"content": reply}, "chunkSize": 7}
        for words, reply in replies.items()
    ]
    async with start_scripted_model(folder, scripted) as model:
        yield model


@asynccontextmanager
async def start_scripted_model(
    folder: Path, scripted: list[dict[str, Any]]
) -> AsyncGenerator[ModelServer]:
    """Replies by aimock's own fixtures: tool calls, errors and broken streams included."""
    fixtures = folder / "replies.json"
    fixtures.write_text(json.dumps({"fixtures": scripted}))
    config = folder / "aimock.json"
    port = free_port()
    config.write_text(
        json.dumps({"port": port, "host": "127.0.0.1", "llm": {"fixtures": str(fixtures)}})
    )
    with (folder / "aimock.log").open("wb") as log:
        process = subprocess.Popen(  # noqa: ASYNC220
            ["node", str(PROGRAM), "--config", str(config)], stdout=log, stderr=subprocess.STDOUT
        )
    try:
        async with aiohttp.ClientSession() as session:
            model = ModelServer(f"http://127.0.0.1:{port}", session)
            await wait_for(model.answers)
            yield model
    finally:
        process.terminate()
        process.wait(timeout=10)
