"""The embedded Valkey server, and what is said when Redis is out of reach."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from redis.asyncio import Redis

from bot.store import EmbeddedValkey, connect, open_store, redacted, socket_for, store_errors
from rag.errors import StoreUnavailable

STARTS_A_SERVER_AND_IS_KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from bot.store import EmbeddedValkey, connect

async def main():
    server = await EmbeddedValkey.start(Path(sys.argv[1]))
    async with connect(server.url) as client:
        await client.set("greeting", "hello")
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@asynccontextmanager
async def served(folder: Path) -> AsyncGenerator[Redis]:
    """A client of an embedded server that is stopped afterwards."""
    server = await EmbeddedValkey.start(folder)
    try:
        async with connect(server.url) as client:
            yield client
    finally:
        await server.stop()


async def process_of(client: Redis) -> int:
    return int((await client.info("server"))["process_id"])


async def test_the_embedded_server_keeps_its_data_over_a_stop(tmp_path: Path) -> None:
    async with open_store(None, tmp_path) as client:
        await client.set("greeting", "hello")
    async with open_store(None, tmp_path) as client:
        assert await client.get("greeting") == "hello"


async def test_nothing_is_left_running_after_a_stop(tmp_path: Path) -> None:
    async with open_store(None, tmp_path) as client:
        process = await process_of(client)
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


async def test_an_acknowledged_write_survives_a_kill_of_the_server(tmp_path: Path) -> None:
    killed = await EmbeddedValkey.start(tmp_path)
    async with connect(killed.url) as client:
        await client.set("greeting", "hello")
        os.kill(await process_of(client), signal.SIGKILL)
    await killed.stop()
    async with served(tmp_path) as client:
        assert await client.get("greeting") == "hello"


async def test_the_embedded_server_listens_on_its_socket_only(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        server = await client.info("server")
        listeners = [value for name, value in server.items() if name.startswith("listener")]
    assert server["tcp_port"] == 0
    assert [listener["name"] for listener in listeners] == ["unix"]


async def test_only_its_owner_can_open_the_socket(tmp_path: Path) -> None:
    async with served(tmp_path):
        socket = socket_for(tmp_path)
        assert socket.stat().st_mode & 0o077 == 0
        assert socket.parent.stat().st_mode & 0o077 == 0


async def test_a_living_server_of_a_killed_parent_is_adopted(tmp_path: Path) -> None:
    parent = subprocess.run(  # noqa: ASYNC221 (there is nothing else to do meanwhile)
        [sys.executable, "-c", STARTS_A_SERVER_AND_IS_KILLED, str(tmp_path)], check=False
    )
    assert parent.returncode == -signal.SIGKILL
    async with connect(f"unix://{socket_for(tmp_path)}") as orphaned:
        process = await process_of(orphaned)
    async with served(tmp_path) as client:
        assert await process_of(client) == process
        assert await client.get("greeting") == "hello"


async def test_a_second_start_finds_the_first_server(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        again = await EmbeddedValkey.start(tmp_path)
        async with connect(again.url) as other:
            assert await process_of(other) == await process_of(client)


async def test_a_long_data_folder_still_has_a_short_socket(tmp_path: Path) -> None:
    folder = tmp_path / ("deep" * 30) / ("deeper" * 30)
    assert len(str(socket_for(folder))) < 100
    async with served(folder) as client:
        assert await client.ping()


def test_the_socket_does_not_depend_on_the_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = socket_for(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert socket_for(tmp_path) == before


def test_different_data_folders_have_different_sockets(tmp_path: Path) -> None:
    assert socket_for(tmp_path / "a") != socket_for(tmp_path / "b")


async def test_a_server_that_cannot_start_names_its_log(tmp_path: Path) -> None:
    files = tmp_path / "appendonlydir"
    files.mkdir()
    (files / "appendonly.aof.manifest").write_text("this is no manifest\n")
    with pytest.raises(StoreUnavailable, match=r"did not start; .*valkey\.log says why\.$"):
        await EmbeddedValkey.start(tmp_path)


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("http://example.org", "REDIS_URL is not a Redis address such as redis://HOST:6379/0."),
        ("localhost:6379", "REDIS_URL is not a Redis address such as redis://HOST:6379/0."),
        ("redis://:hush@127.0.0.1:x", "REDIS_URL is not a Redis address such as"),
        ("redis://:hu/sh@127.0.0.1:1", "REDIS_URL is not a Redis address such as"),
        ("redis://127.0.0.1:1/2", "Redis at redis://127.0.0.1:1/2 cannot be reached."),
        ("redis://user:hush@127.0.0.1:1", "Redis at redis://127.0.0.1:1 cannot be reached."),
        ("redis://127.0.0.1:1?password=hush", "Redis at redis://127.0.0.1:1 cannot be reached."),
        ("unix:///nowhere.sock?password=hush", "Redis at unix:///nowhere.sock cannot be reached."),
    ],
)
async def test_a_wrong_address_is_explained_without_its_password(
    url: str, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(StoreUnavailable) as raised:
        async with open_store(url, tmp_path):
            pass
    assert str(raised.value).startswith(sentence)
    assert "hu" not in str(raised.value)
    assert not list(tmp_path.iterdir())


async def test_a_rejected_password_is_said_but_not_shown(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        await client.config_set("requirepass", "secret")
        try:
            with pytest.raises(StoreUnavailable) as raised:
                async with open_store(f"unix://:wrong@{socket_for(tmp_path)}", tmp_path):
                    pass
        finally:
            await client.config_set("requirepass", "")
    assert str(raised.value) == f"Redis at unix://{socket_for(tmp_path)} rejected the password."


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://localhost:6379/0", "redis://localhost:6379/0"),
        ("rediss://user:p@ss@host:6380", "rediss://host:6380"),
        ("redis://host?username=u&password=p", "redis://host"),
        ("redis://[broken", "REDIS_URL"),
        ("the embedded Valkey server", "the embedded Valkey server"),
    ],
)
def test_an_address_is_shown_without_its_password(url: str, shown: str) -> None:
    assert redacted(url) == shown


async def test_errors_of_redis_become_ours(redis: Redis) -> None:
    await redis.set("word", "text")
    with pytest.raises(StoreUnavailable, match="ResponseError"), store_errors():
        await redis.incr("word")


async def test_a_cancellation_that_the_client_swallows_is_not_lost() -> None:
    async def store() -> None:
        with store_errors(), suppress(asyncio.CancelledError):
            await asyncio.sleep(10)

    storing = asyncio.create_task(store())
    await asyncio.sleep(0)
    storing.cancel()
    await asyncio.wait([storing])
    assert storing.cancelled()


async def test_a_run_can_be_cancelled_at_any_moment_of_a_command(tmp_path: Path) -> None:
    async with open_store(None, tmp_path) as client:

        async def store() -> None:
            with store_errors():
                await client.set("greeting", "hello")

        for steps in range(60):
            await client.connection_pool.disconnect()
            storing = asyncio.create_task(store())
            for _ in range(steps % 12):
                await asyncio.sleep(0)
            in_time = storing.cancel()
            await asyncio.wait([storing])
            assert storing.cancelled() is in_time
