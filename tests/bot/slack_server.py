"""Slack's Web API as far as a start and an examination need it; no event ever comes."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp.test_utils import TestServer

from adapters.slack import SCOPES


class SlackServer:
    """Accepts every token unless a method is told to refuse."""

    def __init__(self) -> None:
        self.errors: dict[str, str] = {}
        self.scopes = ",".join(SCOPES)
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        if method == "socket":
            return await silent(request)
        if error := self.errors.get(method):
            return web.json_response({"ok": False, "error": error})
        answer = {"ok": True, "user_id": "UBOT", "url": f"{self.url}socket".replace("http", "ws")}
        return web.json_response(answer, headers={"X-OAuth-Scopes": self.scopes})


async def silent(request: web.Request) -> web.WebSocketResponse:
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    async for _ in socket:
        pass
    return socket


@asynccontextmanager
async def slack_server() -> AsyncGenerator[SlackServer]:
    server = SlackServer()
    app = web.Application()
    app.router.add_route("*", "/{method}", server.handle)
    async with TestServer(app, host="127.0.0.1") as listening:
        server.url = str(listening.make_url("/"))
        yield server
