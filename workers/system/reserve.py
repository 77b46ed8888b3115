"""Room that a node keeps for the news of its jobs: files that are written already, one of which becomes a record in need.

A file that is removed when the disk is full gives its room to the first writer, which is the job that filled the disk. So nothing
is ever given back here: a record is written over the content of such a file, and the two change places. The reserve then
holds the old record's room.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from typing import TYPE_CHECKING

from workers.system.files import sync_directory
from workers.system.room import room_fill, room_keep

if TYPE_CHECKING:
    from pathlib import Path

FILES, FILE_BYTES = 32, 16 * 1024
"""Half a MiB. A record takes one to three KiB, and changes places six times in a part's life."""
_HERE, _EXCHANGE = -100, 2  # AT_FDCWD, RENAME_EXCHANGE


class Reserve:
    """`FILES` files in `directory`, which lies on the records' file system."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files = [directory / str(number) for number in range(FILES)]
        self._one_at_a_time = threading.Lock()
        self.is_whole = False

    def refill(self) -> None:
        """Make what was used whole again, as far as there is room. Any thread may call it."""
        with contextlib.suppress(OSError):
            self._directory.mkdir(exist_ok=True, mode=0o700)
        for file in self._files:
            with self._one_at_a_time:
                if _room(file) < FILE_BYTES and not room_keep(file, FILE_BYTES):
                    return
        self.is_whole = True

    def replace(self, path: Path, data: bytes) -> bool:
        """Replace the file at `path`, which exists, without any new room. False when nothing here is large enough."""
        with self._one_at_a_time:
            for file in sorted(self._files, key=_room):
                if _room(file) < len(data):
                    continue
                self.is_whole = False
                with contextlib.suppress(OSError):
                    room_fill(file, data)
                    _exchange(file, path)
                    sync_directory(path.parent)
                    return True
        return False


def _room(path: Path) -> int:
    with contextlib.suppress(OSError):
        return path.lstat().st_blocks * 512
    return 0


def _exchange(one: Path, other: Path) -> None:
    """Let two files change names at one stroke; where that cannot be done the first takes the other's place. Raises OSError."""
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:  # a C library from before 2018
        one.replace(other)
        return
    if call(_HERE, bytes(one), _HERE, bytes(other), _EXCHANGE) == 0:
        return
    other.lstat()  # a removed file is not made again here
    one.replace(other)
