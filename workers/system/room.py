"""Writes files on a disk that may be full: over the old content, or again and again until there is room.

Standard library only: the shim uses it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from typing import TYPE_CHECKING, Any

from workers.system.files import write_atomic, write_json
from workers.system.modes import put_right

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

TRY_AGAIN_S = 0.5
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


def is_no_room(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno in _NO_ROOM


def write_until_room(path: Path, value: Any, *, spare: Iterable[Path] = ()) -> None:
    """Write `value`, however long that takes. For what may not be lost, and for callers that have nothing else to do.

    Makes the directory again when it was removed, and sets its mode right. When there is no room, removes the directories
    `spare` first. Raises OSError when its parents are gone.
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
            put_right((path.parent.parent, path.parent))
            time.sleep(TRY_AGAIN_S)
        else:
            return


def _remove(directories: Iterable[Path]) -> None:
    from workers.system.trees import tree_remove  # few shims need it

    for directory in directories:
        with contextlib.suppress(OSError):  # what cannot be removed takes its room on
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
