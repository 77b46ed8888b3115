"""Writes files on a disk that may be full: over the old content, into room kept before, or again and again until there is room.

A node keeps room for the news of its jobs (`Reserve`): files that are written already, one of which becomes a record in need. A
file that is removed when the disk is full gives its room to the first writer, which is the job that filled the disk. So nothing
is ever given back: a record is written over the content of such a file, and the two change places. The reserve then holds the
old record's room. Standard library only: the shim uses it.
"""

from __future__ import annotations

import _thread  # `threading` would cost each shim more than the lock does
import contextlib
import ctypes
import errno
import json
import os
import time
from typing import TYPE_CHECKING, Any

from workers.system.files import fix_modes, sync_directory, write_atomic, write_json

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


def is_no_room(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno in _NO_ROOM


def room_keep(path: Path, size: int) -> bool:
    """Take room for later: a file whose blocks are all written. False when that cannot be had now."""
    try:
        write_atomic(path, os.urandom(size), durable=False)  # a file system would compress zeros, and keep no room
    except OSError:
        return False
    return True


def room_use(room: Path, path: Path, data: bytes) -> bool:
    """Write `data` into the file that keeps room, which then becomes `path`. False: it has too little, or is gone.

    Spaces fill the rest, which JSON allows.
    """
    try:
        room_fill(room, data)
        room.replace(path)
        sync_directory(path.parent)
    except OSError:
        return False
    return True


def room_fill(room: Path, data: bytes) -> None:
    """Write `data` over the content of a file that keeps room, spaces behind it. Raises OSError; when it has too little, too."""
    descriptor = os.open(room, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        room_bytes = os.fstat(descriptor).st_blocks * 512
        if room_bytes < len(data):
            raise OSError(errno.ENOSPC, "too little room was kept", str(room))
        os.pwrite(descriptor, data.ljust(room_bytes), 0)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_until_room(path: Path, value: Any, *, spare: Iterable[Path] = (), room: Path | None = None) -> None:
    """Write `value`, and wait for room without limit. For records that may not be lost, and callers with nothing else to do.

    Makes the directory again when it was removed, and sets its mode right. When there is no room, removes the directories
    `spare` first, and takes the room that the file `room` keeps. Raises OSError when its parents are gone.
    """
    while True:
        try:
            write_json(path, value)
        except (FileNotFoundError, NotADirectoryError):
            path.parent.mkdir(mode=0o700)
        except OSError as error:
            if is_no_room(error):
                _remove(spare)
                spare = ()
                if room is not None and room_use(room, path, json.dumps(value).encode()):
                    return
            fix_modes((path.parent.parent, path.parent))
            time.sleep(0.5)
        else:
            return


def _remove(directories: Iterable[Path]) -> None:
    from workers.system.trees import tree_remove  # few shims need it

    for directory in directories:
        with contextlib.suppress(OSError):  # a folder that stays keeps its room
            tree_remove(directory)


def write_over(path: Path, data: bytes) -> None:
    """Replace a small file. On a full disk write over the old content, which needs no room. Raises OSError.

    Then a reader may see old and new bytes mixed, so all contents must have the same length and layout.
    """
    try:
        write_atomic(path, data, durable=False)
    except OSError as error:
        if not is_no_room(error):
            raise
        descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if os.fstat(descriptor).st_size != len(data):
                raise
            os.pwrite(descriptor, data, 0)
        finally:
            os.close(descriptor)


FILES, FILE_BYTES = 32, 16 * 1024
"""Half a MiB. A record takes one to three KiB, and changes places six times in a part's life."""
_HERE, _EXCHANGE = -100, 2  # AT_FDCWD, RENAME_EXCHANGE


class Reserve:
    """`FILES` files in `directory`, which lies on the records' file system."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files = [directory / str(number) for number in range(FILES)]
        self._one_at_a_time = _thread.allocate_lock()
        self.is_whole = False

    def refill(self) -> None:
        """Make what was used whole again, as far as there is room. Any thread may call it."""
        with contextlib.suppress(OSError):
            self._directory.mkdir(exist_ok=True, mode=0o700)
        for file in self._files:
            with self._one_at_a_time:
                if _room_of(file) < FILE_BYTES and not room_keep(file, FILE_BYTES):
                    return
        self.is_whole = True

    def replace(self, path: Path, data: bytes) -> bool:
        """Replace the file at `path`, which exists, without any new room. False when nothing here is large enough."""
        with self._one_at_a_time:
            for file in sorted(self._files, key=_room_of):
                if _room_of(file) < len(data):
                    continue
                self.is_whole = False
                with contextlib.suppress(OSError):
                    room_fill(file, data)
                    _exchange(file, path)
                    sync_directory(path.parent)
                    return True
        return False


def _room_of(path: Path) -> int:
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
