"""Where artefacts' bytes lie: `DIR/artefacts/KE/KEY/NAME`, by the job's key and a random name.

A content is written under a new name from its beginning to its end, and never changed once it is whole. So what a reader
has open stays as it is, and a file without a row is nobody's: `sweep` removes it.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings

from portal.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Iterator

READ_BYTES = 64 * 1024
_HASH_BYTES = 1024 * 1024
_KEY = re.compile(r"[0-9a-zA-Z]{1,64}\Z")
_NAME = re.compile(r"[0-9a-f]{32}\Z")


def root() -> Path:
    return Path(settings.DATA_DIR) / "artefacts"


def folder(key: str) -> Path:
    """Return the folder of the job with this key."""
    if not _KEY.match(key):
        raise ValueError(f"{key!r} is no job's key")
    return root() / key[:2] / key


def name_new() -> str:
    return secrets.token_hex(16)


def _path(key: str, name: str) -> Path:
    if not _NAME.match(name):
        raise ValueError(f"{name!r} is no stored name")
    return folder(key) / name


def length(key: str, name: str) -> int:
    """Return how many bytes there are; 0 where none came yet."""
    try:
        return _path(key, name).stat().st_size
    except FileNotFoundError:
        return 0


def append(key: str, name: str, data: bytes, *, at: int) -> int:
    """Write `data` at byte `at`, where the file ends now; return the new length. Another length: nothing is written."""
    path = _path(key, name)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        have = os.fstat(descriptor).st_size
        if have != at:
            return have
        view, done = memoryview(data), 0
        try:
            while done < len(view):
                done += os.pwrite(descriptor, view[done:], at + done)
        except OSError:
            os.ftruncate(descriptor, at)  # a full disk: half a piece is of no use
            raise
        return at + done
    finally:
        os.close(descriptor)


def seal(key: str, name: str) -> str:
    """Make a whole content durable; return its SHA-256 (hexadecimal)."""
    path, digest = _path(key, name), hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_HASH_BYTES):
            digest.update(piece)
        os.fsync(file.fileno())
    for directory in (path.parent, path.parent.parent):
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    return digest.hexdigest()


def pieces(key: str, name: str, *, start: int, stop: int) -> Iterator[bytes]:
    """Yield the bytes from `start` to before `stop`. Raises NotFound at the first piece where the file is gone."""
    try:
        file = _path(key, name).open("rb")
    except FileNotFoundError:
        raise NotFound("artefact") from None
    with file:
        file.seek(start)
        while start < stop and (piece := file.read(min(READ_BYTES, stop - start))):
            start += len(piece)
            yield piece
        if start < stop:
            raise OSError(f"a stored artefact is shorter than its row says, by {stop - start} bytes")


def drop(key: str, names: list[str]) -> None:
    """Remove contents; those that are gone already do no harm."""
    for name in names:
        if name:
            _path(key, name).unlink(missing_ok=True)


def drop_job(key: str) -> None:
    """Remove all that is kept of a job."""
    shutil.rmtree(folder(key), ignore_errors=True)


def folders() -> Iterator[tuple[str, Path]]:
    """Yield key and folder of each job that has one."""
    for upper in sorted(root().glob("??")):
        for path in sorted(upper.iterdir()):
            yield path.name, path
