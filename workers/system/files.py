"""Files that survive a kill -9 at any instruction, and reading them as if anybody could have put something in their place.

A reader sees the old content or the new, never half of it. Nothing here waits for a pipe, follows a link or reads
without end: a job of the same account may reach these files where the kernel cannot keep it out.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import time
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

_numbers = count()  # threads of one process write one file at once

READ_LIMIT_BYTES = 16 * 2**20
"""No file of ours is larger: a launch holds a command of 64 KiB and a thousand variables."""


class BrokenFileError(Exception):
    """Something of this name is there, and it is not what we wrote."""

    def __init__(self, path: Path | str, why: str) -> None:
        super().__init__(f"{path} {why}")
        self.path, self.why = path, why


def write_atomic(path: Path, data: bytes, *, mode: int = 0o600, durable: bool = True) -> None:
    """Replace `path` with `data`; `durable` also survives a power cut, at the price of two fsyncs."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{next(_numbers)}")
    with contextlib.suppress(FileNotFoundError):
        temporary.unlink()  # left by a process of this number that was killed; it may be anything, so it is not opened
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
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
    except IsADirectoryError:  # put there by a foreign hand
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
    """A descriptor to read a plain file; never waits. Raises FileNotFoundError, BrokenFileError or another OSError.

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
    """The whole file. Raises FileNotFoundError; BrokenFileError when it is no plain file, or larger than `limit`."""
    descriptor = open_regular(path)
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise BrokenFileError(path, f"is larger than {limit} bytes")
    return data


def read_json(path: Path) -> Any | None:
    """The value, or None when there is no such file. Raises BrokenFileError when it is not one that we wrote."""
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
    """A JSON object with these fields of these types, or None when there is no such file. Raises BrokenFileError."""
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
