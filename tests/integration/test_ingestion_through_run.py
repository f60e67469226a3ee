"""`footnote run` in a terminal of its own, and the other commands beside it."""

import asyncio
import codecs
import json
import os
import pty
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tests.integration.app_process import FOOTNOTE, environment, finished
from tests.rag.ingestion.test_course import write

LESSONS = {
    "01-nodes.md": "# Nodes\n\nA node is a process that does one job in the graph of a robot.\n",
    "02-topics.md": "# Topics\n\nA topic is a named channel that carries typed messages.\n",
}
LONG = {
    f"{number:03}-page.md": "# Page\n\n"
    + "\n\n".join(f"## Part {part}\n\n{'word ' * 120}{number} {part}." for part in range(40))
    for number in range(30)
}


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return environment(FOOTNOTE_DATA_DIR=str(tmp_path / "data"), TERM="dumb")


@asynccontextmanager
async def in_a_terminal(env: dict[str, str], folder: Path) -> AsyncGenerator[int]:
    """`footnote run`, ready for a question; yields its process id."""
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        FOOTNOTE, "run", cwd=folder, env=env, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    screen: list[str] = []
    reading = asyncio.create_task(asyncio.to_thread(read_all, ours, screen))
    try:
        while "you ›" not in "".join(screen):
            assert process.returncode is None, screen
            await asyncio.sleep(0.05)
        yield process.pid
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
        await process.wait()
        await reading
        os.close(ours)
        assert "Traceback" not in "".join(screen), screen


def read_all(terminal: int, screen: list[str]) -> None:
    """What is printed, until the other end is closed, as a terminal says by an error."""
    decode = codecs.getincrementaldecoder("utf-8")().decode
    with suppress(OSError):
        while some := os.read(terminal, 4096):
            screen.append(decode(some))


async def test_the_other_commands_work_through_the_running_one(
    env: dict[str, str], tmp_path: Path
) -> None:
    course = write(tmp_path / "robotics", LESSONS)
    assert (await finished(env, tmp_path, "ingest", str(course)))[0] == 0
    async with in_a_terminal(env, tmp_path) as process_id:
        write(course, {"03-arms.md": "# Arms\n\nAn arm has joints, links and a gripper.\n"})
        code, shown = await finished(env, tmp_path, "ingest", "robotics", "--json")
        job = json.loads(shown[shown.index("{\n") :])
        assert (code, job["files_processed"], job["files_skipped"]) == (0, 1, 2)
        code, shown = await finished(env, tmp_path, "search", "gripper", "--json")
        assert (code, json.loads(shown)["results"][0]["source_file"]) == (0, "03-arms.md")
        code, shown = await finished(env, tmp_path, "doctor")
        said = " ".join(shown.split())
        assert (code, "in the hands of the running footnote" in said) == (0, True)
        assert "3 passages of 3 files, complete and in order" in said
        os.kill(process_id, signal.SIGKILL)
    code, shown = await finished(env, tmp_path, "courses", "remove", "robotics", "--yes")
    assert (code, shown.strip()) == (0, "robotics is removed, with 3 passages.")


async def test_ctrl_c_ends_an_ingestion_with_a_sentence_and_nothing_is_lost(
    env: dict[str, str], tmp_path: Path
) -> None:
    course = write(tmp_path / "long", LONG)
    process = await asyncio.create_subprocess_exec(
        FOOTNOTE,
        "ingest",
        str(course),
        cwd=tmp_path,
        env=env,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr
    first = await process.stderr.readline()
    process.send_signal(signal.SIGINT)
    rest = await process.stderr.read()
    assert await process.wait() == 1
    assert first.startswith(b"long: 0 of 30 files")
    assert rest.decode().splitlines()[-1] == (
        "Stopped. What has been read so far stays; the same command goes on from there."
    )
    code, shown = await finished(env, tmp_path, "jobs", "--json")
    (job,) = json.loads(shown)
    assert (code, job["status"]) == (0, "failed")
    assert job["error_message"].startswith("It was stopped before it was done")
