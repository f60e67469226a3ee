"""Cohere's and OpenAI's embedding endpoints on loopback, as strict as the real ones.

A vector follows from its text alone, so that a test can tell whether each text got its own. Both
reject what their originals reject, so that a test of the wire fails where the wire is wrong.
"""

import asyncio
import base64
import hashlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from aiohttp import web

from rag.embedding import Vector

KEY = "sk-test"
KNOWN_MODELS = {
    "embed-english-v3.0": 1024,
    "embed-v4.0": 1536,
    "text-embedding-3-small": 1536,
    "text-embedding-ada-002": 1536,
}
SHORTENED = ("embed-v4.0", "text-embedding-3-small")
MOST_TEXTS = {"cohere": 96, "openai": 2048}
MOST_BYTES = {"cohere": 10_000_000, "openai": 8_192}
"""A token is at least a byte, so a text of this length can still be taken."""

Json = dict[str, Any]


@dataclass(frozen=True)
class Failure:
    """What the server answers instead of vectors; without a status it drops the connection."""

    status: int | None
    message: str = "It failed."
    code: str | None = None
    headers: dict[str, str] = field(default_factory=dict[str, str])
    text: str | None = None
    """Sent as it is."""
    delay_seconds: float = 0.0


def vector_of(text: str, dimension: int, input_type: str = "") -> Vector:
    """What the server makes of a text: not of unit length, as little as some models' are."""
    seed = hashlib.sha256(f"{input_type}:{text}".encode()).digest()[:8]
    random = np.random.default_rng(int.from_bytes(seed))
    return random.standard_normal(dimension).astype(np.float32)


def tokens_of(texts: Sequence[str]) -> int:
    return sum(len(text.split()) for text in texts)


class EmbeddingServer:
    """Fails as told, one failure a request, then embeds; it remembers what it was asked."""

    def __init__(self, *failures: Failure, reports_usage: bool = True) -> None:
        self.failures = list(failures)
        self.requests: list[Json] = []
        self.busiest = 0
        self.url = ""
        self._reports_usage = reports_usage
        self._running = 0

    async def cohere(self, request: web.Request) -> web.StreamResponse:
        body = await self._received(request)
        wrong = wrong_for_cohere(body)
        texts, model = body.get("texts", []), body.get("model", "")
        if refusal := await self._refusal(request, "cohere", model, texts, wrong):
            return refusal
        dimension = body.get("output_dimension") or KNOWN_MODELS[model]
        rows = [vector_of(text, dimension, body["input_type"]).tolist() for text in texts]
        meta: Json = {"api_version": {"version": "2"}}
        if self._reports_usage:
            meta["billed_units"] = {"input_tokens": tokens_of(texts)}
        return web.json_response({"id": "1", "embeddings": {"float": rows}, "meta": meta})

    async def openai(self, request: web.Request) -> web.StreamResponse:
        body = await self._received(request)
        wrong = wrong_for_openai(body)
        texts, model = body.get("input", []), body.get("model", "")
        if refusal := await self._refusal(request, "openai", model, texts, wrong):
            return refusal
        dimension = body.get("dimensions") or KNOWN_MODELS[model]
        data: list[Json] = []
        for index, text in enumerate(texts):
            row = vector_of(text, dimension)
            packed = body.get("encoding_format") == "base64"
            values = base64.b64encode(row.tobytes()).decode() if packed else row.tolist()
            data.append({"object": "embedding", "index": index, "embedding": values})
        reply: Json = {"object": "list", "data": data[::-1], "model": model}  # any order is legal
        if self._reports_usage:
            count = tokens_of(texts)
            reply["usage"] = {"prompt_tokens": count, "total_tokens": count}
        return web.json_response(reply)

    async def _received(self, request: web.Request) -> Json:
        body: Json = await request.json()
        self.requests.append(body)
        self._running += 1
        self.busiest = max(self.busiest, self._running)
        await asyncio.sleep(0.01)
        self._running -= 1
        return body

    async def _refusal(
        self, request: web.Request, kind: str, model: str, texts: list[str], wrong: str | None
    ) -> web.StreamResponse | None:
        if self.failures:
            return await failed(request, kind, self.failures.pop(0))
        if request.headers.get("Authorization") != f"Bearer {KEY}":
            return await failed(request, kind, Failure(401, "invalid api token"))
        if model not in KNOWN_MODELS:
            missing = Failure(404, f"model '{model}' not found", "model_not_found")
            return await failed(request, kind, missing)
        if wrong := wrong or wrong_texts(kind, texts):
            return await failed(request, kind, Failure(400, wrong))
        return None


def wrong_texts(kind: str, texts: list[str]) -> str | None:
    if not 0 < len(texts) <= MOST_TEXTS[kind]:
        return f"between 1 and {MOST_TEXTS[kind]} texts are allowed, not {len(texts)}."
    if not all(text.strip() for text in texts):
        return "an input is the empty string."
    if any(len(text.encode()) > MOST_BYTES[kind] for text in texts):
        return "maximum context length exceeded."
    return None


def wrong_for_cohere(body: Json) -> str | None:
    if body.get("input_type") not in ("search_document", "search_query"):
        return "input_type is required."
    if body.get("embedding_types") != ["float"] or body.get("truncate") != "END":
        return "this server makes floats and cuts the end."
    if "output_dimension" in body and body["model"] not in SHORTENED:
        return "output_dimension is not supported by this model."
    return None


def wrong_for_openai(body: Json) -> str | None:
    if "dimensions" in body and body["model"] not in SHORTENED:
        return "This model does not support specifying dimensions."
    return None


async def failed(request: web.Request, kind: str, failure: Failure) -> web.StreamResponse:
    await asyncio.sleep(failure.delay_seconds)
    if failure.status is None:
        assert request.transport
        request.transport.close()
        return web.Response()
    if failure.text is not None:
        return web.Response(status=failure.status, text=failure.text, content_type="text/html")
    body: Json = {"id": "1", "message": failure.message}
    if kind == "openai":
        body = {"error": {"message": failure.message, "type": "error", "code": failure.code}}
    return web.json_response(body, status=failure.status, headers=failure.headers)


@asynccontextmanager
async def embedding_server(
    *failures: Failure, reports_usage: bool = True
) -> AsyncGenerator[EmbeddingServer]:
    server = EmbeddingServer(*failures, reports_usage=reports_usage)
    app = web.Application(client_max_size=50_000_000)
    app.router.add_post("/v2/embed", server.cohere)
    app.router.add_post("/v1/embeddings", server.openai)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    server.url = f"http://{host}:{port}"
    try:
        yield server
    finally:
        await runner.cleanup()
