"""Prints what retrieval and gate reach on the evaluation courses, beside bars and aims.

    python scripts/bench_quality.py ../shared/data

Everything goes through the code behind `footnote eval`. Where a number was fitted, the course that
is measured was left out of the fit. `--only` names parts: courses, articles, conversations,
languages, embedder, latency, others. The first run ingests everything, which takes a while.
"""

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from bench_latency import measured
from evaluation_courses import (
    Course,
    OpenCourse,
    articles_in,
    conversations_in,
    courses_in,
    foreign,
    off_topic,
    opened,
    weighted_calibration_error,
)
from rich.console import Console
from rich.table import Table
from static_embedder import StaticEmbedder

from rag.confidence import Calibration, seed_level
from rag.embedding import Embedder
from rag.embedding.local import LocalEmbedder
from rag.evaluation import (
    EvaluationQuestion,
    Outcome,
    Rate,
    auroc,
    evaluate,
    read_questions,
    summarise,
)
from rag.retrieval import Retriever
from rag.types import AgentConfig

PARTS = ("courses", "articles", "languages", "embedder", "others", "latency", "conversations")
LANGUAGES = ("ar", "bn", "hin", "zh-cn")
BENCH_PYTHON = Path(".venv-bench-quality/bin/python")


@dataclass
class Report:
    """The table as it fills up."""

    rows: list[tuple[str, str, str, str, str]] = field(default_factory=list[Any])

    def add(self, measure: str, bar: str, aim: str, ours: str, seed: str = "") -> None:
        self.rows.append((measure, bar, aim, ours, seed))

    def table(self) -> Table:
        table = Table("measure", "bar", "aim", "ours", "seed policy")
        for row in self.rows:
            table.add_row(*row)
        return table


def shown(rate: Rate | None) -> str:
    return "–" if rate is None else f"{rate.share:.3f} [{rate.low:.3f}, {rate.high:.3f}]"


def held_out_calibration(course: str) -> Calibration:
    """The shipped thresholds with the weights fitted without this course."""
    document = json.loads(files("rag").joinpath("calibration.json").read_text(encoding="utf-8"))
    fitted = {entry["course"]: entry for entry in document["held_out"]}
    without = {key: fitted[course][key] for key in ("weights", "intercept")}
    return Calibration.model_validate(document["calibration"] | without)


def retriever_of(opened: OpenCourse, embedder: Embedder, calibration: Calibration) -> Retriever:
    config = AgentConfig(system_prompt="Answer.")
    return Retriever(opened.index, opened.index, embedder, config, calibration=calibration)


async def asked(
    retriever: Retriever, course: Course, questions: Sequence[EvaluationQuestion]
) -> list[Outcome]:
    outcomes: AsyncIterator[Outcome] = evaluate(retriever, course.filters, questions)
    return [outcome async for outcome in outcomes]


def seed_answers(outcome: Outcome) -> bool:
    metrics = outcome.metrics
    return seed_level(metrics.average_similarity, metrics.num_chunks) != "insufficient"


class Bench:
    """One run over the parts that were asked for."""

    def __init__(self, data: Path, work: Path) -> None:
        self.data = data
        self.work = work
        self.report = Report()
        self.courses = courses_in(data)
        self.off = off_topic(data)
        self.local = LocalEmbedder.load()
        self.own_files: dict[str, list[list[str]]] = {}

    async def part_courses(self) -> None:
        for course in self.courses:
            async with opened(course, self.local, self.work) as ready:
                retriever = retriever_of(ready, self.local, held_out_calibration(course.name))
                own = await asked(retriever, course, course.questions)
                off = await asked(retriever, course, self.off)
                other = await asked(retriever, course, foreign(course, self.courses))
            self.own_files[course.name] = [files_of(outcome) for outcome in own]
            self._add_course(course.name, own, off, other)

    def _add_course(
        self, name: str, own: list[Outcome], off: list[Outcome], other: list[Outcome]
    ) -> None:
        summary = summarise(own)
        five, one = {"rust_book": (".92", ".94")}.get(name, (".95", ".97")), summary.hit_at[1]
        first = ".72" if name == "rust_book" else ".75"
        add = self.report.add
        add(f"{name}: hit@5, passages handed on", *five, shown(summary.hit_handed_on))
        add(f"{name}: hit@1", first, ".80", shown(one))
        refused = Rate.of([not o.metrics.should_answer for o in off])
        seeds = (
            Rate.of([seed_answers(o) for o in own]),
            Rate.of([not seed_answers(o) for o in off]),
        )
        add(f"{name}: answered", ".95", ".98", shown(summary.answered), shown(seeds[0]))
        add(f"{name}: off-topic refused", ".97", ".99", shown(refused), shown(seeds[1]))
        apart = auroc(confidences(own), confidences(other)) or 0.0
        by_seed = auroc(similarities(own), similarities(other)) or 0.0
        add(f"{name}: other courses, AUROC", ".94", ".95", f"{apart:.3f}", f"{by_seed:.3f}")
        error = mixed_error(confidences, own, off, other)
        seed_error = mixed_error(similarities, own, off, other)
        add(f"{name}: calibration error", ".06", ".04", f"{error:.3f}", f"{seed_error:.3f}")

    async def part_articles(self) -> None:
        answerable = articles_in(self.data, answerable=True)
        unanswerable = articles_in(self.data, answerable=False)
        async with opened(answerable, self.local, self.work) as ready:
            retriever = retriever_of(ready, self.local, Calibration.shipped())
            yes = await asked(retriever, answerable, answerable.questions)
            no = await asked(retriever, unanswerable, unanswerable.questions)
        summary = summarise(yes)
        add = self.report.add
        add("squad2: answer in the five passages", ".93", ".96", shown(summary.answer_quoted))
        low, high = resampled(auroc_of, yes, no)
        figure = f"{auroc_of(yes, no):.3f} [{low:.3f}, {high:.3f}]"
        add("squad2: unanswerable ones, AUROC", "reported", "", figure)

    async def part_languages(self) -> None:
        course = next(course for course in self.courses if course.name == "iot")
        async with opened(course, self.local, self.work) as ready:
            retriever = retriever_of(ready, self.local, held_out_calibration("iot"))
            for language in LANGUAGES:
                path = course.folder.parent / f"questions.{language}.jsonl"
                summary = summarise(await asked(retriever, course, read_questions(path)))
                figures = f"{shown(summary.hit_handed_on)}; {shown(summary.answered)}"
                self.report.add(f"iot in {language}: hit@5; answered", "reported", "", figures)

    async def part_embedder(self) -> None:
        embedder = StaticEmbedder(bench_package("wordllama"))
        for course in self.courses:
            async with opened(course, embedder, self.work) as ready:
                retriever = retriever_of(ready, embedder, held_out_calibration(course.name))
                own = summarise(await asked(retriever, course, course.questions))
                off = await asked(retriever, course, self.off)
            refused = Rate.of([not o.metrics.should_answer for o in off])
            add = self.report.add
            add(f"{course.name}, static vectors: answered", ".90", ".95", shown(own.answered))
            add(f"{course.name}, static vectors: off-topic refused", ".95", ".97", shown(refused))

    async def part_others(self) -> None:
        if not self.own_files:
            await self.part_courses()
        arguments = ["scripts/bench_others.py", str(self.data), "--work", str(self.work)]
        done = await asyncio.to_thread(
            subprocess.run, [BENCH_PYTHON, *arguments], check=True, capture_output=True, text=True
        )
        found: dict[str, dict[str, list[list[str]]]] = json.loads(done.stdout)
        for name, by_course in found.items():
            bar, aim = ("+.08", "+.12") if name == "LlamaIndex" else ("+.06", "+.09")
            pairs = {
                course.name: (
                    hit_share(course, self.own_files[course.name]),
                    hit_share(course, by_course[course.name]),
                )
                for course in self.courses
            }
            gain = fmean(ours - theirs for ours, theirs in pairs.values())
            each = ", ".join(f"{c} {ours:.3f}/{theirs:.3f}" for c, (ours, theirs) in pairs.items())
            self.report.add(f"hit@5 over {name} (files)", bar, aim, f"{gain:+.3f} ({each})")

    async def part_latency(self) -> None:
        stored = [
            entry
            for course in self.courses
            async for entry in passages_of(course, self.local, self.work)
        ]
        questions = [q.question for course in self.courses for q in course.questions][:300]
        ratio, gain = await measured(stored, self.local, self.work, questions)
        self.report.add("p95 over embedding alone, 20,000 chunks", "2", "1.3", f"{ratio:.2f}")
        self.report.add("50 at once over one at a time", "1.5", "3", f"{gain:.2f}")

    async def part_conversations(self) -> None:
        for name, bar, aim in (("fiqa", ".25", ".29"), ("cloud", "not below", ".34")):
            course = conversations_in(self.data, name)
            last_turns = [q.model_copy(update={"history": None}) for q in course.questions]
            async with opened(course, self.local, self.work) as ready:
                retriever = retriever_of(ready, self.local, Calibration.shipped())
                with_history = summarise(await asked(retriever, course, course.questions))
                alone = summarise(await asked(retriever, course, last_turns))
            figures = f"{with_history.recall_handed_on:.3f} (alone {alone.recall_handed_on:.3f})"
            self.report.add(f"{name}: recall@5 with history", bar, aim, figures)


async def passages_of(course: Course, embedder: Embedder, work: Path) -> AsyncIterator[Any]:
    async with opened(course, embedder, work) as ready:
        for entry in await ready.index.read(filters=course.filters):
            yield entry


def confidences(outcomes: Sequence[Outcome]) -> list[float]:
    return [outcome.metrics.confidence for outcome in outcomes]


def similarities(outcomes: Sequence[Outcome]) -> list[float]:
    return [outcome.metrics.average_similarity for outcome in outcomes]


def mixed_error(
    confidence: Callable[[Sequence[Outcome]], list[float]], *groups: Sequence[Outcome]
) -> float:
    figures = np.array([figure for group in groups for figure in confidence(group)])
    kinds = np.repeat(np.arange(3), [len(group) for group in groups])
    return weighted_calibration_error(figures, kinds)


def auroc_of(yes: Sequence[Outcome], no: Sequence[Outcome]) -> float:
    return auroc(confidences(yes), confidences(no)) or 0.0


def resampled(
    figure: Callable[[Sequence[Outcome], Sequence[Outcome]], float],
    yes: Sequence[Outcome],
    no: Sequence[Outcome],
) -> tuple[float, float]:
    """The 95 % interval over 200 bootstrap samples."""
    chance = np.random.default_rng(0)
    figures = [
        figure(
            [yes[i] for i in chance.integers(len(yes), size=len(yes))],
            [no[i] for i in chance.integers(len(no), size=len(no))],
        )
        for _ in range(200)
    ]
    low, high = np.percentile(figures, [2.5, 97.5])
    return float(low), float(high)


def files_of(outcome: Outcome) -> list[str]:
    return list(dict.fromkeys(result.source_file for result in outcome.ranked))


def hit_share(course: Course, found: Sequence[Sequence[str]]) -> float:
    """Hit@5 over distinct files."""
    hits = [
        bool(question.gold_files.intersection(names[:5]))
        for question, names in zip(course.questions, found, strict=True)
    ]
    return fmean(hits)


def bench_package(name: str) -> Path:
    found = sorted(Path(".venv-bench-quality/lib").glob(f"python*/site-packages/{name}"))
    if not found:
        sys.exit(f"{name} is not installed in .venv-bench-quality: run make bench-quality.")
    return found[0]


async def main(data: Path, work: Path, parts: Sequence[str]) -> None:
    bench = Bench(data, work)
    console = Console(width=160)
    for part in parts:
        await getattr(bench, f"part_{part}")()
        console.print(bench.report.table())
        bench.report.rows.clear()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("data", type=Path)
    arguments.add_argument("--work", type=Path, default=Path(".bench"))
    arguments.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    given = arguments.parse_args()
    asyncio.run(main(given.data, given.work, given.only))
