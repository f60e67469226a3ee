"""Whether a disk has room for the embedded engine, which is killed where it finds none."""

import shutil
from pathlib import Path

from rag.errors import IndexingError

NEEDED_BYTES = 128_000_000
"""The engine maps files of tens of megabytes; a full disk ends the process without a word."""


def check_room(folder: Path, needed: int = NEEDED_BYTES) -> None:
    """Raises while the folder's disk can still be written to."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if free < needed:
        raise IndexingError(
            f"The disk is full: {folder} has {free // 1_000_000} MB left, and the index needs"
            f" {needed // 1_000_000} MB to be written safely."
        )
