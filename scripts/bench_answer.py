"""What Footnote adds to a question, as a multiple of the same streamed call through the bare SDK.

A model stand-in on loopback, in a process of its own, streams 80 chunks at once; everything else is
real: search, gate, verification, citations and the stored conversation.

    python -m scripts.bench_answer [--questions 60] [--in-flight 1 50]
"""

import argparse
import asyncio
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median, quantiles

from aiohttp import web
from openai import AsyncOpenAI
from pydantic import SecretStr

from adapters.operations import IngestRequest
from bot.app import Core, open_core
from bot.settings import SAMPLE_COURSE, OpenAISettings, Settings
from rag.types import AgentResponse, Done, Question

CHUNKS = 80
ANSWER = (
    'A topic is a named channel [{n}|"a named channel"]. It carries one message type in one '
    "direction [{n}]. Publishers do not know who is listening [{n}]. Any number of publishers and "
    "subscribers may share a topic [{n}]. Topics suit continuous streams such as images, joint "
    "angles or velocity commands [{n}]."
)
WORDINGS = (
    "What is a topic?",
    "What is a topic in ROS 2?",
    "Explain what a topic is.",
    "What are topics good for?",
    "Who may publish on a topic?",
)


@dataclass(frozen=True)
class Run:
    """How long each question took, and what its parts took, in milliseconds."""

    totals: list[float]
    retrieval: list[float]
    generation: list[float]


def serve(ready: Connection) -> None:
    """The stand-in: every request gets the same answer, in 80 chunks, at once."""

    async def complete(request: web.Request) -> web.StreamResponse:
        messages = (await request.json())["messages"]
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(streamed(cited_passage(messages[-1])))
        return response

    async def run() -> None:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", complete)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        ready.send(runner.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(run())


def cited_passage(message: dict[str, str]) -> int:
    """The number of the passage that the answer repeats, as a model would cite it."""
    found = json.loads(message["content"])["results"] if message["role"] == "tool" else []
    numbers = [passage["n"] for passage in found if "a named channel" in passage["chunk_text"]]
    return next(iter(numbers), 1)


@cache
def streamed(passage: int) -> bytes:
    answer = ANSWER.format(n=passage)
    size = -(-len(answer) // CHUNKS)
    deltas = [answer[start : start + size] for start in range(0, len(answer), size)]
    deltas += [""] * (CHUNKS - len(deltas))
    lines = [chunk({"content": delta}) for delta in deltas]
    return b"".join([*lines, chunk({}, "stop"), b"data: [DONE]\n\n"])


def chunk(delta: dict[str, str], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    document = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return f"data: {json.dumps(document | {'choices': [choice]})}\n\n".encode()


async def timed_run(
    ask: Callable[[int], Awaitable[AgentResponse | None]], questions: int, in_flight: int
) -> Run:
    run = Run([], [], [])
    gate = asyncio.Semaphore(in_flight)

    async def one(number: int) -> None:
        async with gate:
            started = time.perf_counter()
            response = await ask(number)
            run.totals.append((time.perf_counter() - started) * 1000)
        if response is not None:
            run.retrieval.append(response.retrieval_time_ms)
            run.generation.append(response.generation_time_ms)

    await asyncio.gather(*(one(number) for number in range(questions)))
    return run


async def bare(client: AsyncOpenAI, number: int) -> None:
    stream = await client.chat.completions.create(
        model="m",
        messages=[{"role": "user", "content": WORDINGS[number % len(WORDINGS)]}],
        stream=True,
    )
    async for _ in stream:
        pass


async def answered(core: Core, number: int) -> AgentResponse:
    question = Question(
        text=WORDINGS[number % len(WORDINGS)],
        conversation_key=f"bench:{number}",
        message_id=f"m{number}",
    )
    events = [event async for event in core.bot.answer(question)]
    assert isinstance(events[-1], Done)
    return events[-1].response


def p95(values: Sequence[float]) -> float:
    return quantiles(values, n=20)[-1]


def report(in_flight: int, plain: Run, ours: Run) -> str:
    verify = max(median(ours.generation) - median(plain.totals), 0.0)
    rest = median(ours.totals) - median(ours.retrieval) - median(ours.generation)
    return (
        f"| {in_flight} | {median(plain.totals):.0f} / {p95(plain.totals):.0f} "
        f"| {median(ours.totals):.0f} / {p95(ours.totals):.0f} "
        f"| {median(ours.totals) / median(plain.totals):.1f} "
        f"/ {p95(ours.totals) / p95(plain.totals):.1f} "
        f"| {median(ours.retrieval):.0f} | {verify:.0f} | {rest:.0f} |"
    )


async def measure(url: str, questions: int, in_flight: Sequence[int]) -> list[str]:
    provider = OpenAISettings.model_construct(
        api_key=SecretStr("sk-bench"), base_url=url, model="m", timeout_seconds=60.0
    )
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings().model_copy(update={"data_dir": Path(folder), "openai": provider})
        async with open_core(settings) as core, AsyncOpenAI(api_key="k", base_url=url) as client:
            async for _ in core.ingestions.run(IngestRequest(path=SAMPLE_COURSE)):
                pass
            response = await answered(core, 0)
            sys.stderr.write(f"{response.content}\n\n")
            for many in in_flight:
                await timed_run(lambda n: bare(client, n), 2 * many, many)
                await timed_run(lambda n: answered(core, n), 2 * many, many)
                plain = await timed_run(lambda n: bare(client, n), questions, many)
                ours = await timed_run(lambda n: answered(core, n), questions, many)
                lines.append(report(many, plain, ours))
    return lines


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--questions", type=int, default=100)
    options.add_argument("--in-flight", type=int, nargs="+", default=[1, 50])
    given = options.parse_args()
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    try:
        url = f"http://127.0.0.1:{ours.recv()}/v1"
        lines = asyncio.run(measure(url, given.questions, given.in_flight))
    finally:
        server.terminate()
    head = (
        "| in flight | bare SDK p50 / p95 ms | Footnote p50 / p95 ms | multiple p50 / p95 "
        "| retrieve and gate ms | verify and cite ms | the rest ms |\n|---|---|---|---|---|---|---|"
    )
    sys.stdout.write("\n".join([head, *lines]) + "\n")


if __name__ == "__main__":
    main()
