"""Who has the data folder, and what the others do meanwhile."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from adapters.http import HttpApi, serving
from adapters.operations import Operations
from bot.app import api_socket, hold, open_operations, take
from bot.cli import FAILED, WRONG_USAGE, run_command
from bot.settings import load_settings
from rag.errors import DataFolderInUse, SettingsError
from tests.bot.test_http import ROBOTICS, FakeFootnote


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "data"
    monkeypatch.setenv("FOOTNOTE_DATA_DIR", str(folder))
    return folder


@pytest.fixture
async def running(data_dir: Path) -> AsyncIterator[FakeFootnote]:
    """A `footnote run` that has the data folder and lets others work through it."""
    footnote = FakeFootnote()
    app = HttpApi(footnote.operations, sessions="terminal").app()
    with hold(data_dir):
        async with serving(app, api_socket(data_dir)):
            yield footnote


def test_a_folder_has_one_holder(data_dir: Path) -> None:
    taken = rf"process {os.getpid()}\) is using"
    with hold(data_dir), pytest.raises(DataFolderInUse, match=taken):
        hold(data_dir).__enter__()
    with hold(data_dir):
        assert (data_dir / "lock").read_text() == str(os.getpid())


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(SettingsError, match="file/data cannot be used: Not a directory"):
        hold(tmp_path / "file" / "data").__enter__()


async def test_a_holder_that_is_about_to_end_is_waited_for(data_dir: Path) -> None:
    async with AsyncExitStack() as stack:
        with hold(data_dir):
            taking = asyncio.create_task(take(data_dir, stack))
            await asyncio.sleep(0)
            assert not taking.done()
        await taking
        with pytest.raises(DataFolderInUse):
            hold(data_dir).__enter__()


async def test_nobody_waits_for_a_holder_that_serves(data_dir: Path, running: FakeFootnote) -> None:
    async with AsyncExitStack() as stack:
        with pytest.raises(DataFolderInUse):
            await take(data_dir, stack)


async def test_commands_work_through_the_holder(running: FakeFootnote) -> None:
    async with open_operations(load_settings()) as footnote:
        assert isinstance(footnote, Operations)
        assert await footnote.courses() == [ROBOTICS]
    assert running.asked == ["courses"]


async def test_a_course_is_removed_through_the_holder(
    running: FakeFootnote, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await command("courses", "remove", "robotics", "--yes") == 0
    assert running.asked == ["courses", "robotics"]
    assert capsys.readouterr().out == "robotics is removed, with 3 passages.\n"


async def test_an_unknown_course_is_not_removed(
    running: FakeFootnote, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await command("courses", "remove", "chess", "--yes") == FAILED
    assert running.asked == ["courses"]
    assert "chess" in capsys.readouterr().err


async def test_without_a_terminal_a_removal_needs_a_yes(
    running: FakeFootnote, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await command("courses", "remove", "robotics") == WRONG_USAGE
    assert running.asked == []
    assert "add --yes" in capsys.readouterr().err


async def command(*arguments: str) -> int:
    """A command beside the event loop that serves it."""
    return await asyncio.to_thread(run_command, arguments)
