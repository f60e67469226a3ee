from pathlib import Path

import pytest

from rag.errors import IndexingError
from rag.index.room import check_room


def test_a_disk_with_room_is_fine_even_before_the_folder_exists(tmp_path: Path) -> None:
    check_room(tmp_path / "not" / "there" / "yet", needed=1)


def test_a_full_disk_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(IndexingError, match=r"The disk is full: .* MB left, and the index needs"):
        check_room(tmp_path, needed=10**18)
