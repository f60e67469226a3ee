"""A strict OpenAI-compatible chat-completions server on loopback, which says what it is told to.

It checks every request as OpenAI does (a system message first, every tool call answered at once)
and rejects a wrong one with 400, so that a test of the wire fails where the wire is wrong.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, cast

from aiohttp import web

KEY = "sk-test"
MODEL = "test-model"
USAGE = {"prompt_tokens": 40, "completion_tokens": 2, "total_tokens": 42}

Json = dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """What the server does with one request: stream deltas, or answer with a status and a body."""

    deltas: Sequence[Json] = ()
    finish_reason: str | None = "stop"
    drops: bool = False
    """The connection breaks after the deltas."""
    stalls: bool = False
    """Nothing more comes after the deltas, though the connection stays."""
    raw: str = ""
    """Sent as it is behind the deltas, instead of a proper ending."""
    status: int = 200
    body: Json = field(default_factory=dict[str, Any])
    headers: dict[str, str] = field(default_factory=dict[str, str])


def says(*pieces: str, finish_reason: str | None = "stop") -> Reply:
    return Reply([{"content": piece} for piece in pieces], finish_reason)


def breaks_after(*pieces: str) -> Reply:
    return Reply([{"content": piece} for piece in pieces], drops=True)


def stalls_after(*pieces: str) -> Reply:
    return Reply([{"content": piece} for piece in pieces], stalls=True)


def asks(*arguments: Json | str, name: str = "retrieve_documentation", preamble: str = "") -> Reply:
    """Tool calls side by side, their arguments in pieces; a string is sent as it is."""
    deltas: list[Json] = [{"content": preamble}] if preamble else []
    for index, given in enumerate(arguments):
        text = given if isinstance(given, str) else json.dumps(given)
        function = {"name": name, "arguments": ""}
        call = {"index": index, "id": f"call_{index}", "type": "function", "function": function}
        deltas.append({"tool_calls": [call]})
        for start in range(0, len(text), 7):
            part = {"index": index, "function": {"arguments": text[start : start + 7]}}
            deltas.append({"tool_calls": [part]})
    return Reply(deltas, "tool_calls")


def fails(status: int, message: str = "It failed.", **headers: str) -> Reply:
    body = {"error": {"message": message, "type": "error", "param": None, "code": None}}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status=status, body=body, headers=named)


class ModelServer:
    """Gives its replies in order and remembers what it was asked."""

    def __init__(self, replies: Sequence[Reply], accepts_temperature: bool = True) -> None:
        self._replies = list(replies)
        self._accepts_temperature = accepts_temperature
        self.requests: list[Json] = []
        self.url = ""
        self.over = asyncio.Event()
        """Set when the test ends, so that a stalled reply ends with it."""

    async def complete(self, request: web.Request) -> web.StreamResponse:
        body: Json = await request.json()
        self.requests.append(body)
        if request.headers.get("Authorization") != f"Bearer {KEY}":
            return rejected(fails(401, "Incorrect API key provided."))
        if wrong := self._wrong(body):
            return rejected(fails(400, wrong))
        if not self._replies:
            return rejected(fails(400, "The test did not expect this request."))
        reply = self._replies.pop(0)
        if reply.status != 200:
            return rejected(reply)
        return await streamed(request, reply, self.over)

    def _wrong(self, body: Json) -> str | None:
        if not self._accepts_temperature and "temperature" in body:
            return "Unsupported value: 'temperature' does not support 0.0 with this model."
        if not body.get("stream") or body.get("stream_options") != {"include_usage": True}:
            return "This server only streams, with usage."
        return wrong_messages(body["messages"]) or wrong_tools(body.get("tools", []))


def wrong_messages(messages: list[Json]) -> str | None:
    """What OpenAI would reject, or 000 and 001 forbid."""
    roles = [message["role"] for message in messages]
    if roles[0] != "system" or roles.count("system") != 1:
        return "messages must begin with the only system message."
    spoken = [role for role in roles if role in ("user", "assistant")]
    if any(pair == ("user", "user") for pair in pairwise(spoken)):
        return "user messages must alternate with assistant messages."
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                return "A tool message answers no tool call."
            open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            return f"Tool calls {open_calls} were not answered."
        open_calls = [call["id"] for call in message.get("tool_calls") or []]
        if message["content"] is None and not open_calls:
            return "A message needs content or tool calls."
    return f"Tool calls {open_calls} were not answered." if open_calls else None


def wrong_tools(tools: list[Json]) -> str | None:
    for tool in tools:
        parameters = tool["function"]["parameters"]
        if tool["type"] != "function" or parameters["type"] != "object":
            return "A tool is a function whose parameters are an object."
        if not set(parameters["required"]) <= set(parameters["properties"]):
            return "A required parameter is not described."
    return None


def rejected(reply: Reply) -> web.Response:
    return web.json_response(reply.body, status=reply.status, headers=reply.headers)


async def streamed(request: web.Request, reply: Reply, over: asyncio.Event) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)

    async def send(choices: list[Json], **extra: Any) -> None:
        chunk = {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": MODEL,
            "choices": choices,
            **extra,
        }
        await response.write(f"data: {json.dumps(chunk)}\n\n".encode())

    await send([choice({"role": "assistant", "content": ""})])
    for delta in reply.deltas:
        await send([choice(delta)])
    if reply.drops:
        cast(Any, request.transport).close()
        return response
    if reply.stalls:
        await over.wait()
        return response
    if reply.raw:
        await response.write(reply.raw.encode())
        return response
    if reply.finish_reason is not None:
        await send([choice({}, reply.finish_reason)])
        await send([], usage=USAGE)
        await response.write(b"data: [DONE]\n\n")
    return response


def choice(delta: Json, finish_reason: str | None = None) -> Json:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}


@asynccontextmanager
async def model_server(
    *replies: Reply, accepts_temperature: bool = True
) -> AsyncGenerator[ModelServer]:
    server = ModelServer(replies, accepts_temperature)
    app = web.Application()
    app.router.add_post("/v1/chat/completions", server.complete)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    server.url = f"http://{host}:{port}/v1"
    try:
        yield server
    finally:
        server.over.set()
        await runner.cleanup()
