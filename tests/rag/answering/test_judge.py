"""A model's second opinion, over the wire and when it makes no sense."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from openai import AsyncOpenAI

from rag.answering.judge import OpenAIJudge, supported_numbers
from rag.checking import Checked
from rag.errors import AnsweringError
from rag.verification import Claim, Evidence

SENTENCES = [
    Checked("One [1].", "", Claim("One."), Evidence("The passage says one.", "Numbers")),
    Checked("Two [1].", " ", Claim("Two."), Evidence("The passage says one.", "Numbers")),
]


@asynccontextmanager
async def judging(reply: str, status: int = 200) -> AsyncGenerator[tuple[OpenAIJudge, list[str]]]:
    """A judge whose model replies so, and what the model was sent."""
    asked: list[str] = []

    async def complete(request: web.Request) -> web.Response:
        body = await request.json()
        asked.append(body["messages"][1]["content"])
        message = {"role": "assistant", "content": reply}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
        document = {"id": "1", "object": "chat.completion", "created": 1, "model": "m"}
        return web.json_response(document | {"choices": [choice], "usage": usage}, status=status)

    app = web.Application()
    app.router.add_post("/v1/chat/completions", complete)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    client = AsyncOpenAI(api_key="sk-test", base_url=f"http://{host}:{port}/v1", max_retries=0)
    try:
        async with client:
            yield OpenAIJudge(client, "m"), asked
    finally:
        await runner.cleanup()


async def test_one_call_judges_all_sentences() -> None:
    async with judging('{"supported": [2]}') as (judge, asked):
        assert await judge(SENTENCES) == ([False, True], 7)
    (case,) = asked
    statements = json.loads(case)["statements"]
    assert [s["statement"] for s in statements] == ["One.", "Two."]
    assert statements[0]["passage"] == "Numbers\nThe passage says one."


@pytest.mark.parametrize("status", [401, 429, 500])
async def test_a_provider_that_fails_is_an_error(status: int) -> None:
    async with judging("", status) as (judge, _):
        with pytest.raises(AnsweringError):
            await judge(SENTENCES)


@pytest.mark.parametrize(
    ("reply", "numbers"),
    [
        ('{"supported": [1, 3]}', {1, 3}),
        ('Sure:\n```json\n{"supported": [1]}\n```', {1}),
        ('{"supported": []}', set[int]()),
        ('{"supported": "all"}', set[int]()),
        ('{"supported": [true, "1", 2.0, null]}', set[int]()),
        ('{"yes": [1]}', set[int]()),
        ("[1, 2]", set[int]()),
        ("{not json}", set[int]()),
        ("All of them are supported.", set[int]()),
        ("", set[int]()),
    ],
)
def test_nonsense_supports_nothing(reply: str, numbers: set[int]) -> None:
    assert supported_numbers(reply) == numbers
