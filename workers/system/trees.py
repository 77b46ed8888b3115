"""Removing what a job left, whatever it is: deep trees, closed directories, names that are no text."""

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
    """Remove `path` and all beneath it; no link is followed. Nothing there: nothing to do. Raises OSError.

    Directories inside are first moved up beside it, so that no depth costs descriptors or the stack.
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
    """Remove the directory `first` of `root`; those found in it come one after the other."""
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
    """Unlink or move away up to so many entries of a directory; True when there may be more."""
    with os.scandir(directory) as entries:
        names = [
            (e.name, e.is_dir(follow_symlinks=False)) for e, _ in zip(entries, range(_NAMES_AT_ONCE), strict=False)
        ]
    for name, is_directory in names:
        if not is_directory:
            os.unlink(name, dir_fd=directory)
            continue
        _unlock(name, directory)  # to move a directory one must be allowed to write into it
        moved = f"{prefix}.{next(numbers)}"
        os.rename(name, moved, src_dir_fd=directory, dst_dir_fd=root)
        waiting.append(moved)
    return len(names) == _NAMES_AT_ONCE


def _unlock(name: str, directory: int) -> None:
    """A directory that its owner closed is opened again; on what is not ours the removal itself will say so."""
    with contextlib.suppress(OSError):
        os.chmod(name, 0o700, dir_fd=directory)
