"""The command line: run, ask, chat, search, ingest, courses, jobs and doctor.

The platforms' libraries are slow to import, so only the commands that need them do it.
"""

import argparse
import asyncio
import json
import logging
import signal
import sys
import uuid
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError
from rich.console import Console
from rich.logging import RichHandler
from rich.table import Table
from rich.text import Text

from adapters.terminal import Terminal
from bot.app import Core, open_core
from bot.progress import shown_progress
from bot.settings import SAMPLE_COURSE, Settings, load_settings
from rag.errors import FootnoteError
from rag.types import AgentResponse, IngestionJob, SearchQuery, SearchResponse

if TYPE_CHECKING:
    from bot.fronts import Front

DONE, FAILED, WRONG_USAGE = 0, 1, 2

out = Console()
err = Console(stderr=True)
Command = Callable[[Settings, argparse.Namespace], Awaitable[int]]


def main(arguments: Sequence[str] | None = None) -> None:
    sys.exit(run_command(arguments))


def run_command(arguments: Sequence[str] | None) -> int:
    args = parser().parse_args(arguments)
    try:
        settings = load_settings()
        logging.basicConfig(
            level=settings.log_level,
            format="%(name)s: %(message)s",
            handlers=[RichHandler(console=err)],
        )
        return asyncio.run(args.command(settings, args))
    except FootnoteError as error:
        complain(str(error))
        return FAILED
    except ValidationError as error:
        complain(usage_sentence(error))
        return WRONG_USAGE
    except KeyboardInterrupt:
        return FAILED


def complain(sentence: str) -> None:
    """One line, however narrow the terminal or the log is."""
    err.print(Text(sentence, style="red"), soft_wrap=True)


def usage_sentence(error: ValidationError) -> str:
    problems = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
    return (
        "; ".join(problem.replace("Value error, ", "").lstrip(": ") for problem in problems) + "."
    )


# --- Commands ----------------------------------------------------------------------------------


async def run(settings: Settings, args: argparse.Namespace) -> int:
    """Everything: the platforms that have their tokens, and a chat if a person is there."""
    from bot.fronts import open_fronts

    async with open_core(settings) as core:
        if not await core.courses.all():
            out.print(f"First start: reading the sample course from {SAMPLE_COURSE}")
            await ingest_shown(core, SAMPLE_COURSE, None, "incremental")
        async with open_fronts(settings, core) as fronts:
            await show_status(settings, core, fronts)
            if out.is_terminal and sys.stdin.isatty():
                await Terminal(out, core.bot.answer).chat(read_line)
                return DONE
            if not any(front.running for front in fronts):
                raise FootnoteError("No platform is connected and there is no terminal to chat in.")
            await until_told_to_stop()
    return DONE


async def ask(settings: Settings, args: argparse.Namespace) -> int:
    async with open_core(settings) as core:
        quiet = Console(quiet=True)
        terminal = Terminal(quiet if args.json else out, core.bot.answer, args.course)
        session = args.session or str(uuid.uuid4())
        response = await terminal.ask(" ".join(args.text), session)
    if args.json:
        # The id that --session takes, so that a program can go on with this conversation.
        print_json(answer_document(response) | {"session_id": session})
    return DONE


async def chat(settings: Settings, args: argparse.Namespace) -> int:
    async with open_core(settings) as core:
        await core.courses.resolve(args.course)
        await Terminal(out, core.bot.answer, args.course).chat(read_line)
    return DONE


async def search(settings: Settings, args: argparse.Namespace) -> int:
    async with open_core(settings) as core:
        course = await core.courses.resolve(args.course)
        query = SearchQuery(
            text=" ".join(args.text),
            book_id=course.book_id,
            module_filter=args.module,
            chapter_min=args.chapter_min,
            chapter_max=args.chapter_max,
            lesson_filter=args.lesson,
            proficiency_levels=args.level,
            layer_filter=args.layer,
            hardware_tier_filter=args.tier,
            parent_doc_id=args.parent,
            limit=args.limit,
        )
        response = await core.retriever.search(query)
    if args.json:
        print_json(response)
    else:
        show_results(response)
    return DONE


async def ingest(settings: Settings, args: argparse.Namespace) -> int:
    async with open_core(settings) as core:
        job = await ingest_shown(core, args.path, args.course, args.mode)
    if args.json:
        print_json(job)
    else:
        show_job(job)
    return DONE


async def courses(settings: Settings, args: argparse.Namespace) -> int:
    async with open_core(settings) as core:
        known = await core.courses.all()
    if args.json:
        print_json([course.model_dump(mode="json", exclude={"profile"}) for course in known])
        return DONE
    table = Table("course", "title", "passages", "last update")
    for course in known:
        updated = course.last_incremental_update or course.last_full_ingest
        when = f"{updated:%Y-%m-%d %H:%M}" if updated else "never"
        table.add_row(course.book_id, course.title, str(course.total_chunks), when)
    out.print(table if known else "No course yet: run footnote ingest FOLDER.")
    return DONE


async def jobs(settings: Settings, args: argparse.Namespace) -> int:
    async with open_core(settings) as core:
        known = await core.jobs.all()
    if args.json:
        print_json([job.model_dump(mode="json") for job in known])
        return DONE
    table = Table("job", "course", "mode", "status", "files", "new passages", "started")
    for job in known:
        files = f"{job.files_processed} of {job.files_discovered}"
        started = f"{job.started_at:%Y-%m-%d %H:%M}"
        row = (str(job.job_id), job.book_id, job.mode, job.status, files)
        table.add_row(*row, str(job.chunks_created), started)
    out.print(table if known else "Nothing has been ingested yet.")
    return DONE


async def doctor(settings: Settings, args: argparse.Namespace) -> int:
    from bot.doctor import examine

    found = await examine(settings)
    if args.json:
        print_json([finding.model_dump() for finding in found])
    else:
        marks = {"ok": ("✓", "green"), "off": ("–", "dim"), "wrong": ("✗", "red")}
        for finding in found:
            mark, style = marks[finding.status]
            out.print(Text(f"{mark} {finding.part}: {finding.sentence}", style=style))
    return FAILED if any(finding.status == "wrong" for finding in found) else DONE


# --- What they share ---------------------------------------------------------------------------


async def ingest_shown(core: Core, path: Path, course_id: str | None, mode: Any) -> IngestionJob:
    with shown_progress(err) as on_progress:
        job = await core.ingest(path, course_id, mode, on_progress)
    for failure in job.failures:
        err.print(Text(f"{failure.source_file}: {failure.reason}", style="yellow"))
    return job


async def show_status(settings: Settings, core: Core, fronts: "list[Front]") -> None:
    titles = ", ".join(
        f"{course.title} ({course.total_chunks} passages)" for course in await core.courses.all()
    )
    writer = (
        settings.openai.model if settings.openai.enabled else "the book's own words (no key set)"
    )
    lines = [
        ("Course", True, titles),
        ("Answers", True, f"written by {writer}" if settings.openai.enabled else writer),
        *((front.name, front.running, front.sentence) for front in fronts),
    ]
    for name, good, sentence in lines:
        mark, style = ("●", "green") if good else ("○", "dim")
        out.print(Text(f"{mark} ", style=style).append(f"{name}: {sentence}", style=""))


async def read_line() -> str | None:
    """A line from the keyboard, without stopping everything else meanwhile."""
    out.print(Text("\nyou › ", style="bold cyan"), end="")
    line = await asyncio.to_thread(sys.stdin.readline)
    return line.rstrip("\n") if line else None


async def until_told_to_stop() -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await stop.wait()


def answer_document(response: AgentResponse) -> dict[str, Any]:
    """The AgentResponse with the chat API's fields beside its own."""
    sources = [
        {
            "chunk_text": citation.chunk_text,
            "similarity_score": citation.similarity,
            "chapter": citation.chapter_name,
            "section": citation.section,
            "url": citation.url,
            "chunk_index": citation.chunk_index,
        }
        for citation in response.citations
    ]
    return response.model_dump(mode="json") | {
        "response": response.content,
        "sources": sources,
        "confidence": response.confidence,
        "confidence_level": response.confidence_level,
        "confidence_label": response.confidence_label,
        "should_answer": response.should_answer,
        "timestamp": response.created_at.isoformat(),
    }


def print_json(document: BaseModel | dict[str, Any] | list[Any]) -> None:
    data = document.model_dump(mode="json") if isinstance(document, BaseModel) else document
    sys.stdout.write(json.dumps(data, ensure_ascii=False, indent=2) + "\n")


def show_results(response: SearchResponse) -> None:
    if not response.results:
        out.print("Nothing matches.")
    for result in response.results:
        place = f"{result.chapter_title} — {result.section}"
        out.print(
            Text(f"{result.rank}. {place}", style="bold").append(f"  {result.score:.2f}", "dim")
        )
        out.print(Text(f"   {result.url}", style="cyan"))
        out.print(Text(f"   {' '.join(result.text.split())[:240]}"))
    out.print(Text(f"{response.total_found} passages match the filters.", style="dim"))


def show_job(job: IngestionJob) -> None:
    out.print(
        f"Job {job.job_id}: {job.files_processed} files read, {job.files_skipped} unchanged, "
        f"{job.files_failed} failed; {job.chunks_created} passages added, "
        f"{job.chunks_deleted} removed, {job.chunks_embedded} embedded "
        f"in {job.duration_seconds} s."
    )


# --- Arguments ---------------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(
        prog="footnote", description="A course assistant that answers only from the course."
    )
    commands = root.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: Command, sentence: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=sentence, description=sentence)
        sub.set_defaults(command=command)
        return sub

    add("run", run, "Start the bot on every platform that has its tokens, with a chat here.")
    asking = add("ask", ask, "Ask one question.")
    asking.add_argument("text", nargs="+")
    asking.add_argument("--session", type=session_id, help="continue the conversation of this UUID")
    chatting = add("chat", chat, "Chat in the terminal.")
    searching = add("search", search, "Find passages, without writing an answer.")
    add_search_arguments(searching)
    ingesting = add("ingest", ingest, "Read a course folder into the index.")
    ingesting.add_argument("path", type=Path)
    modes = ["incremental", "full", "recreate"]
    ingesting.add_argument("--mode", choices=modes, default="incremental")
    listing = add("courses", courses, "List the courses.")
    working = add("jobs", jobs, "List the ingestion jobs.")
    examining = add("doctor", doctor, "Say what is configured, reachable, missing or wrong.")
    for sub in (asking, chatting, searching, ingesting):
        sub.add_argument("--course", metavar="ID")
    for sub in (asking, searching, ingesting, listing, working, examining):
        sub.add_argument("--json", action="store_true", help="print one JSON document")
    return root


def add_search_arguments(searching: argparse.ArgumentParser) -> None:
    searching.add_argument("text", nargs="+")
    searching.add_argument("--module", metavar="M")
    searching.add_argument("--chapter-min", type=int, metavar="N")
    searching.add_argument("--chapter-max", type=int, metavar="N")
    searching.add_argument("--lesson", type=int, metavar="N")
    searching.add_argument("--level", type=lambda text: text.split(","), metavar="A2,B1")
    searching.add_argument("--layer", choices=["L1", "L2", "L3", "L4"])
    searching.add_argument("--tier", type=int, metavar="N", help="this hardware tier or lower")
    searching.add_argument("--parent", metavar="UUID", help="only this lesson")
    searching.add_argument("--limit", type=int, default=5, metavar="N")


def session_id(text: str) -> str:
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is not a UUID") from None
