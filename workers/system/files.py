"""Writes files that survive a kill -9 at any instruction, reads files without trust in what lies there, locks them, mends modes.

A reader sees the old content or the new, never half of it. Nothing here waits for a pipe, follows a link or reads
without end: where the kernel cannot keep a job of the same account out, it may have put something else there. Landlock keeps
a job from reading our files, not from changing their modes (chmod).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import stat
import time
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_numbers = count()  # several threads of one process may write one file

READ_LIMIT_BYTES = 16 * 2**20
"""No file of ours is larger. The largest is a launch: a command of 64 KiB and a thousand variables."""


class BrokenFileError(Exception):
    """A file of this name exists, but it is not what Berth wrote."""

    def __init__(self, path: Path | str, why: str) -> None:
        super().__init__(f"{path} {why}")
        self.path, self.why = path, why


def write_atomic(path: Path, data: bytes, *, mode: int = 0o600, durable: bool = True) -> None:
    """Replace `path` with `data`; `durable` also survives a power cut, at the price of two fsyncs."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{next(_numbers)}")
    with contextlib.suppress(FileNotFoundError):
        temporary.unlink()  # a killed process with our pid left it; it may be anything, so it is removed unopened
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)  # under any umask
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        _put(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync_directory(path.parent)


def _put(temporary: Path, path: Path) -> None:
    try:
        temporary.replace(path)
    except IsADirectoryError:  # somebody else has made it
        set_aside(path)
        temporary.replace(path)


def set_aside(path: Path, *, within: Path | None = None) -> Path:
    """Rename what is at `path` to a free name beside it or in `within`, `NAME.broken-UNIXTIME`; return the new path."""
    stamp = int(time.time())
    while os.path.lexists(aside := (within or path.parent) / f"{path.name}.broken-{stamp}"):
        stamp += 1
    path.rename(aside)
    return aside


def sync_directory(path: Path) -> None:
    """Make a rename or a new name in this directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, value: Any, *, durable: bool = True) -> None:
    write_atomic(path, json.dumps(value).encode(), durable=durable)


def open_regular(path: Path | str, *, within: int | None = None) -> int:
    """Open a plain file for reading, without waiting. Raises FileNotFoundError, BrokenFileError or another OSError.

    `within`: the descriptor of the directory that a relative `path` of one name lies in.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    try:
        descriptor = os.open(path, flags, dir_fd=within)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENXIO, errno.ENODEV}:
            raise BrokenFileError(path, "is no plain file") from error
        raise
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise BrokenFileError(path, "is no plain file")


def read_bytes(path: Path, *, limit: int = READ_LIMIT_BYTES) -> bytes:
    """Read the whole file. Raises FileNotFoundError; BrokenFileError when it is no plain file, or larger than `limit`."""
    descriptor = open_regular(path)
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise BrokenFileError(path, f"is larger than {limit} bytes")
    return data


def read_json(path: Path) -> Any | None:
    """Read the value; None when there is no such file. Raises BrokenFileError when it is no JSON."""
    try:
        return _parse(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _parse(path: Path) -> Any:
    try:
        return json.loads(read_bytes(path))
    except (ValueError, RecursionError) as error:
        raise BrokenFileError(path, f"is no JSON ({error})") from error


def read_record(path: Path, **fields: type | tuple[type, ...]) -> dict[str, Any] | None:
    """Read a JSON object with these fields of these types; None when there is no such file. Raises BrokenFileError."""
    try:
        value = _parse(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not isinstance(value, dict):
        raise BrokenFileError(path, "is no JSON object")
    for name, kind in fields.items():
        if not isinstance(value.get(name), kind):
            raise BrokenFileError(path, f"has no proper {name!r}")
    return value


def lock_take(path: Path) -> int | None:
    """Lock a file, and make it if need be; return the descriptor that holds the lock, None when another process does."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


_DIRECTORY, _FILE = 0o700, 0o600


def fix_modes(paths: Iterable[Path]) -> list[Path]:
    """Let the owner use these directories and plain files again, in this order; return those that were changed."""
    closed = []
    for path in paths:
        try:
            mode = path.lstat().st_mode
            needed = _DIRECTORY if stat.S_ISDIR(mode) else _FILE if stat.S_ISREG(mode) else 0
            if mode & needed != needed:
                path.chmod(needed)
                closed.append(path)
        except OSError:  # gone meanwhile, or not ours
            continue
    return closed


def entries(*directories: Path) -> Iterable[Path]:
    """Yield each directory, then its entries. The entries are read after the caller has set the directory's mode right."""
    for directory in directories:
        yield directory
        try:
            yield from sorted(directory.iterdir())
        except OSError:
            continue
