"""What is put together: one process a data folder, opened and closed in order, and the lookups."""

import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import redis.exceptions

from bot.app import Core, hold, open_core
from bot.settings import load_settings
from bot.store import EmbeddedValkey, connect, socket_for
from rag.errors import CourseError, SettingsError, StoreUnavailable
from tests.bot.small_course import ingest, write_course

HOLDER = """
import sys
from pathlib import Path
from bot.app import hold
with hold(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
async def core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Core]:
    monkeypatch.setenv("FOOTNOTE_DATA_DIR", str(tmp_path / "data"))
    async with open_core(load_settings()) as core:
        yield core


async def teach(core: Core, folder: Path, course_id: str = "radio") -> None:
    course = write_course(folder, course_id)
    await ingest(core, course)


# --- One process a data folder -----------------------------------------------------------------


def test_a_second_process_is_told_who_holds_the_folder(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    ) as other:
        assert other.stdin
        assert other.stdout
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(SettingsError) as told, hold(tmp_path):
            pass
        other.stdin.close()
    assert str(told.value) == (
        f"Another footnote (process {other.pid}) is using the data folder {tmp_path}. "
        "Wait until it is done, or set FOOTNOTE_DATA_DIR to another folder."
    )
    with hold(tmp_path):  # the lock ended with its process
        assert (tmp_path / "lock").read_text() == str(os.getpid())


def test_a_folder_is_made_and_can_be_held_again(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there" / "yet"
    for _ in range(2):
        with hold(folder):
            assert folder.is_dir()


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SettingsError) as told, hold(tmp_path / "file" / "data"):
        pass
    assert str(told.value) == (
        f"The data folder {tmp_path}/file/data cannot be used: Not a directory. "
        "FOOTNOTE_DATA_DIR names another."
    )


# --- Opening and closing -----------------------------------------------------------------------


async def test_what_was_opened_is_closed_and_opens_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data_dir = tmp_path / "data"
    monkeypatch.setenv("FOOTNOTE_DATA_DIR", str(data_dir))
    async with open_core(load_settings()) as core:
        await teach(core, tmp_path / "course")
        await core.redis.set("a key", "outlives the process")
    left = EmbeddedValkey(socket_for(data_dir / "valkey"))
    async with connect(left.url) as client:
        with pytest.raises(redis.exceptions.ConnectionError):
            await client.ping()
    async with open_core(load_settings()) as core:
        assert await core.redis.get("a key") == "outlives the process"
        assert [course.book_id for course in await core.courses.all()] == ["radio"]


async def test_a_start_that_fails_gives_the_folder_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOOTNOTE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:9/0")
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:9/0 cannot be reached"):
        async with open_core(load_settings()):
            pass
    with hold(tmp_path / "data"):
        pass


# --- Lookups -----------------------------------------------------------------------------------


async def test_a_lookup_names_each_section_once_best_first(core: Core, tmp_path: Path) -> None:
    await teach(core, tmp_path / "course")
    found = await core.lookup("standing wave ratio", None)
    sections = [result.section for result in found]
    assert sections[0] == "Standing wave ratio"
    assert len(sections) == len(set(sections)) <= 5


@pytest.mark.parametrize("words", ["", "  a ", "ab"])
async def test_too_few_letters_find_nothing(core: Core, tmp_path: Path, words: str) -> None:
    await teach(core, tmp_path / "course")
    assert await core.lookup(words, None) == []


async def test_suggestions_contain_the_letters_whatever_their_case(
    core: Core, tmp_path: Path
) -> None:
    await teach(core, tmp_path / "course")
    assert await core.suggest("CALLING cq", None) == ["Calling CQ"]
    assert await core.suggest("no such section", None) == []


async def test_lookups_need_a_course_and_name_the_known_ones(core: Core, tmp_path: Path) -> None:
    with pytest.raises(CourseError, match="No course has been ingested yet"):
        await core.lookup("dipole", None)
    await teach(core, tmp_path / "course")
    with pytest.raises(CourseError, match="Known courses: radio"):
        await core.suggest("dipole", "chess")
    await teach(core, tmp_path / "second", "electronics")
    with pytest.raises(CourseError, match=r"several courses.*electronics, radio"):
        await core.lookup("dipole", None)
    assert await core.lookup("dipole", "electronics")
