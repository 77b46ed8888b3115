"""Removes a job's files of any kind: deep trees, directories without permissions, names that are no text."""

from __future__ import annotations

import contextlib
import os
import stat
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NAMES_AT_ONCE = 10_000


def tree_remove(path: Path) -> None:
    """Remove `path`, if it exists, and all below it. Follows no link. Raises OSError.

    Directories inside are first moved up beside `path`, so that deep ones need no more descriptors or stack.
    """
    try:
        about = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(about.st_mode):
        path.unlink()
        return
    root = os.open(path.parent, _OPEN_DIRECTORY)
    try:
        _remove(root, path.name)
    finally:
        os.close(root)


def _remove(root: int, first: str) -> None:
    """Remove the directory `first` of `root`, then one by one those that were found in it."""
    prefix, numbers = f".{first}.{os.urandom(4).hex()}", count()
    waiting = [first]
    while waiting:
        name = waiting.pop()
        _unlock(name, root)
        directory = os.open(name, _OPEN_DIRECTORY, dir_fd=root)
        try:
            while _empty(directory, root, prefix, numbers, waiting):
                pass
        finally:
            os.close(directory)
        os.rmdir(name, dir_fd=root)


def _empty(directory: int, root: int, prefix: str, numbers: count[int], waiting: list[str]) -> bool:
    """Unlink or move away up to _NAMES_AT_ONCE entries of a directory; True when there may be more."""
    with os.scandir(directory) as entries:
        names = [
            (e.name, e.is_dir(follow_symlinks=False)) for e, _ in zip(entries, range(_NAMES_AT_ONCE), strict=False)
        ]
    for name, is_directory in names:
        if not is_directory:
            os.unlink(name, dir_fd=directory)
            continue
        _unlock(name, directory)  # moving a directory needs permission to write into it
        moved = f"{prefix}.{next(numbers)}"
        os.rename(name, moved, src_dir_fd=directory, dst_dir_fd=root)
        waiting.append(moved)
    return len(names) == _NAMES_AT_ONCE


def _unlock(name: str, directory: int) -> None:
    """Give the owner all permissions of a directory; root needs none. When it is not ours, its removal will fail and say so.

    Of the very directory that was opened: in its place a job of the same account may have put a link to another.
    """
    if os.geteuid() == 0:
        return
    with contextlib.suppress(OSError):
        handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        try:
            os.chmod(f"/proc/self/fd/{handle}", 0o700)  # noqa: PTH101 - by its descriptor
        finally:
            os.close(handle)
