"""The command line: run, ask, chat, search, ingest, courses, jobs, eval and doctor.

Each command works on the data folder itself, or through the `footnote run` that holds it. The
platforms' libraries are slow to import, so only the commands that need them do it.
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

from adapters.operations import IngestRequest, Operations, answer_document
from adapters.terminal import Terminal
from bot.app import Core, open_api, open_core, open_operations
from bot.courses import pick
from bot.progress import shown
from bot.settings import SAMPLE_COURSE, Settings, load_settings
from rag.errors import FootnoteError, IngestionError
from rag.types import CourseSummary, IngestionJob, SearchQuery, SearchResponse

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
    except OSError as error:  # a full disk, a folder that may not be written
        complain(f"{error.filename or 'The system'} says: {error.strerror or error}.")
        return FAILED
    except KeyboardInterrupt:
        complain("Stopped.")
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

    async with open_core(settings) as core, open_api(core):
        if await core.courses.none_yet():
            out.print(f"First start: reading the sample course from {SAMPLE_COURSE}")
            await ingest_shown(core.operations, IngestRequest(path=SAMPLE_COURSE))
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
    async with open_operations(settings) as footnote:
        quiet = Console(quiet=True)
        course = args.course or settings.course
        terminal = Terminal(quiet if args.json else out, footnote.answer, course)
        session = args.session or str(uuid.uuid4())
        response = await terminal.ask(" ".join(args.text), session)
    if args.json:
        # The id that --session takes, so that a program can go on with this conversation.
        print_json(answer_document(response) | {"session_id": session})
    return DONE


async def chat(settings: Settings, args: argparse.Namespace) -> int:
    async with open_operations(settings) as footnote:
        course = pick(await footnote.courses(), args.course or settings.course)
        await Terminal(out, footnote.answer, course.book_id).chat(read_line)
    return DONE


async def search(settings: Settings, args: argparse.Namespace) -> int:
    async with open_operations(settings) as footnote:
        course = pick(await footnote.courses(), args.course or settings.course)
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
        response = await footnote.search(query)
    if args.json:
        print_json(response)
    else:
        show_results(response)
    return DONE


async def ingest(settings: Settings, args: argparse.Namespace) -> int:
    request = IngestRequest(path=args.path, course=args.course, mode=args.mode)
    async with open_operations(settings) as footnote:
        job = await ingest_shown(footnote, request)
    if args.json:
        print_json(job)
    else:
        show_job(job)
    return DONE


async def courses(settings: Settings, args: argparse.Namespace) -> int:
    async with open_operations(settings) as footnote:
        known = await footnote.courses()
    if args.json:
        print_json([course.model_dump(mode="json", exclude={"profile"}) for course in known])
        return DONE
    table = Table("course", "title", "passages", "last update")
    for course in known:
        updated = course.last_incremental_update or course.last_full_ingest
        when = f"{updated:%Y-%m-%d %H:%M}" if updated else "never finished"
        table.add_row(course.book_id, course.title, str(course.total_chunks), when)
    out.print(table if known else "No course yet: run footnote ingest FOLDER.")
    return DONE


async def remove_course(settings: Settings, args: argparse.Namespace) -> int:
    if not args.yes and not sys.stdin.isatty():
        complain(f"Removing {args.id} cannot be undone: add --yes if that is meant.")
        return WRONG_USAGE
    async with open_operations(settings) as footnote:
        course = pick(await footnote.courses(), args.id)
        if not args.yes and not await is_confirmed(course):
            out.print("Nothing was removed.")
            return FAILED
        removed = await footnote.remove(course.book_id)
    out.print(f"{removed.course} is removed, with {removed.chunks_deleted} passages.")
    return DONE


async def jobs(settings: Settings, args: argparse.Namespace) -> int:
    async with open_operations(settings) as footnote:
        known = await footnote.jobs()
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
    for job in known:
        if job.error_message:
            out.print(Text(f"Job {job.job_id}: {job.error_message}", style="yellow"))
    return DONE


async def evaluate(settings: Settings, args: argparse.Namespace) -> int:
    from bot.evaluating import run_evaluation, summary_table

    async with open_core(settings) as core:
        summary = await run_evaluation(
            core,
            args.questions,
            args.course,
            answers=args.answers,
            out=args.out,
            report=args.report,
            console=err,
        )
    if args.json:
        print_json(summary)
    else:
        out.print(summary_table(summary))
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


async def ingest_shown(footnote: Operations, request: IngestRequest) -> IngestionJob:
    try:
        job = await shown(footnote.ingest(request), err)
    except asyncio.CancelledError:  # Ctrl-C
        raise IngestionError(
            "Stopped. What has been read so far stays; the same command goes on from there."
        ) from None
    for warning in job.warnings:
        err.print(Text(warning, style="yellow"), soft_wrap=True)
    for failure in job.failures:
        sentence = f"{failure.source_file}: {failure.reason}"
        err.print(Text(sentence, style="yellow"), soft_wrap=True)
    return job


async def is_confirmed(course: CourseSummary) -> bool:
    question = f"Remove {course.book_id} ({course.title}, {course.total_chunks} passages)? [y/N] "
    out.print(Text(question), end="")
    return (await typed()).strip().lower() in ("y", "yes")


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
    out.print(Text("\nyou › ", style="bold cyan"), end="")
    line = await typed()
    return line.rstrip("\n") if line else None


async def typed() -> str:
    """A line from the keyboard, without stopping everything else meanwhile."""
    if sys.stdin.isatty():
        # A thread that waits for a person could not be ended by Ctrl-C: it begins when they typed.
        ready, loop = asyncio.Event(), asyncio.get_running_loop()
        loop.add_reader(sys.stdin, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(sys.stdin)
    return await asyncio.to_thread(sys.stdin.readline)


async def until_told_to_stop() -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await stop.wait()


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
        f"in {job.duration_seconds} s.",
        soft_wrap=True,
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
    listing = add("courses", courses, "List the courses, or remove one.")
    removing = listing.add_subparsers(metavar="remove").add_parser(
        "remove", help="Remove a course with all its passages."
    )
    removing.set_defaults(command=remove_course)
    removing.add_argument("id", metavar="ID")
    removing.add_argument("--yes", action="store_true", help="without asking")
    working = add("jobs", jobs, "List the ingestion jobs.")
    examining = add("doctor", doctor, "Say what is configured, reachable, missing or wrong.")
    evaluating = add("eval", evaluate, "Measure how well a course answers a file of questions.")
    evaluating.add_argument("questions", type=Path, metavar="QUESTIONS.jsonl")
    evaluating.add_argument("--answers", action="store_true", help="write the answers too")
    evaluating.add_argument("--out", type=Path, metavar="RESULTS.jsonl")
    evaluating.add_argument("--report", type=Path, metavar="FILE.html")
    for sub in (asking, chatting, searching, ingesting, evaluating):
        sub.add_argument("--course", metavar="ID")
    for sub in (asking, searching, ingesting, listing, working, examining, evaluating):
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
