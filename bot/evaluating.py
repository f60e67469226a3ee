"""`footnote eval`: runs a questions file, shows how far it is, writes what came of it."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from bot.app import Core
from bot.conversations import new_conversation
from rag.errors import EvaluationError
from rag.evaluation import Answer, Outcome, Rate, Summary, evaluate, read_questions, summarise
from rag.evaluation_report import page
from rag.types import AgentResponse, Done, Message, SearchFilters


async def run_evaluation(
    core: Core,
    questions_file: Path,
    course_id: str | None,
    *,
    answers: bool,
    out: Path | None,
    report: Path | None,
    console: Console,
) -> Summary:
    """The figures of a questions file; the files that were asked for are written on the way."""
    questions = read_questions(questions_file)
    course = await core.courses.resolve(course_id)
    filters = SearchFilters(book_id=course.book_id)
    answer = answer_from(core, course.book_id) if answers else None
    outcomes: list[Outcome] = []
    shown = track(questions, "Asking", console=console, disable=not console.is_terminal)
    async for outcome in evaluate(core.retriever, filters, shown, answer):
        outcomes.append(outcome)
    summary = summarise(outcomes)
    if out is not None:
        write(out, result_lines(outcomes))
    if report is not None:
        chapters = await core.retriever.chapters(course.book_id)
        title = f"{course.title}: {questions_file.name}"
        write(report, [page(title, outcomes, summary, chapters)])
    return summary


def answer_from(core: Core, book_id: str) -> Answer:
    """Answers a question as a student would get it, with the question's own history."""

    async def answer(question: str, history: Sequence[Message]) -> AgentResponse:
        conversation = new_conversation().model_copy(update={"messages": list(history)})
        async for event in core.agent.answer(question, book_id, conversation):
            if isinstance(event, Done):
                return event.response
        raise EvaluationError("An answer ended without its last event.")

    return answer


def result_lines(outcomes: Iterable[Outcome]) -> list[str]:
    return [json.dumps(outcome.as_line(), ensure_ascii=False) + "\n" for outcome in outcomes]


def write(path: Path, lines: Iterable[str]) -> None:
    try:
        path.write_text("".join(lines), encoding="utf-8")
    except OSError as error:
        raise EvaluationError(f"{path} cannot be written: {error.strerror}.") from None


def summary_table(summary: Summary) -> Table:
    table = Table("figure", "value", "95 % interval", "cases")
    rates: dict[str, Rate | None] = {
        **{f"hit@{depth} (files)": rate for depth, rate in summary.hit_at.items()},
        "hit@5 (passages handed on)": summary.hit_handed_on,
        "answer quoted in the passages": summary.answer_quoted,
        "answerable questions answered": summary.answered,
        "unanswerable questions refused": summary.refused,
    }
    for name, rate in rates.items():
        if rate is not None:
            interval = f"{rate.low:.3f} to {rate.high:.3f}"
            table.add_row(name, f"{rate.share:.3f}", interval, str(rate.cases))
    figures = {
        "MRR (files)": summary.mrr,
        "recall in the passages handed on": summary.recall_handed_on,
        "refusal AUROC": summary.auroc,
        "balanced accuracy": summary.balanced_accuracy,
        "calibration error": summary.calibration_error,
    }
    for name, figure in figures.items():
        if figure is not None:
            table.add_row(name, f"{figure:.3f}", "", "")
    for name, milliseconds in summary.latency_ms.items():
        table.add_row(f"retrieval, {name}", f"{milliseconds:.1f} ms", "", "")
    return table
