"""Footnote as its operator runs it: a process of its own."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

FOOTNOTE = str(Path(sys.executable).parent / "footnote")
START_SECONDS = 90


def environment(**settings: str) -> dict[str, str]:
    """Nothing but what a test sets, so that the machine's own tokens can never be used."""
    return {"PATH": os.environ["PATH"], "HOME": settings["FOOTNOTE_DATA_DIR"], **settings}


@asynccontextmanager
async def running(env: dict[str, str], folder: Path, ready: str) -> AsyncGenerator[None]:
    """`footnote run` until the block ends; the block begins when it has printed `ready`."""
    process = await asyncio.create_subprocess_exec(
        FOOTNOTE,
        "run",
        cwd=folder,
        env=env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(START_SECONDS):
            await seen(process, ready)
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        rest, _ = await process.communicate()
        assert "Traceback" not in rest.decode(), rest.decode()


async def seen(process: asyncio.subprocess.Process, words: str) -> None:
    assert process.stdout
    printed = ""
    while line := (await process.stdout.readline()).decode():
        printed += line
        if words in line:
            return
    raise AssertionError(f"footnote ended before it was ready:\n{printed}")


async def finished(env: dict[str, str], folder: Path, *arguments: str) -> tuple[int, str]:
    """A command that ends by itself: its exit code and all it printed."""
    process = await asyncio.create_subprocess_exec(
        FOOTNOTE,
        *arguments,
        cwd=folder,
        env=env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode()
