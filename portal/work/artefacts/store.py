"""Where artefacts' bytes lie: `DIR/artefacts/KE/KEY/NAME`, by the job's key and a random name, or later in a bucket (`remote`).

A content is written under a new name from its beginning to its end, and never changed once it is whole. So what a reader
has open stays as it is, and a file without a row is nobody's: `sweep` removes it.

An artefact's path must unpack on any machine, and be the name that it seems to be.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import secrets
import shutil
import unicodedata
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings

from portal.foundation.errors import NotFound
from portal.work.artefacts import remote

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader


logger = logging.getLogger(__name__)

READ_BYTES = 64 * 1024
ORPHAN_S = 86_400
"""A file that no row names is removed at this age."""
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


def is_there(key: str, name: str, size: int) -> bool:
    """Say whether a whole content lies here; one that may lie in the store is taken to be there, without asking it."""
    return remote.is_set() or length(key, name) == size


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


def opened(key: str, name: str) -> int | None:
    """Return a descriptor to read a content by; None where it does not lie here."""
    try:
        return os.open(_path(key, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None


def pieces(key: str, name: str, *, start: int, stop: int) -> Iterator[bytes]:
    """Return the bytes from `start` to before `stop`, piece by piece. Raises NotFound, and StoreAway where they are elsewhere."""
    try:
        file = _path(key, name).open("rb")
    except FileNotFoundError:
        if not remote.is_set():
            raise NotFound("artefact") from None
        found = remote.pieces(key, name, start=start, stop=stop)
        return chain((next(found, b""),), found)
    return _pieces(file, start=start, stop=stop)


def _pieces(file: BufferedReader, *, start: int, stop: int) -> Iterator[bytes]:
    with file:
        file.seek(start)
        while start < stop and (piece := file.read(min(READ_BYTES, stop - start))):
            start += len(piece)
            yield piece
        if start < stop:
            raise OSError(f"a stored artefact is shorter than its row says, by {stop - start} bytes")


def drop(key: str, names: list[str]) -> None:
    """Remove contents; those that are gone already do no harm."""
    elsewhere = []
    for name in filter(None, names):
        try:
            _path(key, name).unlink()
        except FileNotFoundError:
            elsewhere.append((key, name))
    _drop_elsewhere(elsewhere)


def drop_job(key: str) -> None:
    """Remove all that is kept of a job."""
    shutil.rmtree(folder(key), ignore_errors=True)
    try:
        pages = list(remote.listing(key)) if remote.is_set() else []
    except remote.StoreAway as error:
        logger.warning("artefacts of job %s stay in the store for now: %s", key, error.why)
        return
    _drop_elsewhere([(each.key, each.name) for page in pages for each in page])


def _drop_elsewhere(names: list[tuple[str, str]]) -> None:
    """Remove what lies in the store, where one is set; while it is away it stays there until the sweep."""
    if not names or not remote.is_set():
        return
    try:
        remote.drop(names)
    except remote.StoreAway as error:
        logger.warning("%d artefacts stay in the store for now: %s", len(names), error.why)


def folders() -> Iterator[tuple[str, Path]]:
    """Yield key and folder of each job that has one."""
    for upper in sorted(root().glob("??")):
        for path in sorted(upper.iterdir()):
            yield path.name, path


MOST_BYTES, MOST_NAME_BYTES, DEEPEST = 1024, 255, 32
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def path_problem(path: str) -> str | None:
    """Return why no artefact can have this path; None where it can."""
    names = path.split("/")
    try:
        if len(path.encode()) > MOST_BYTES or any(len(name.encode()) > MOST_NAME_BYTES for name in names):
            return f"its path is longer than {MOST_BYTES} bytes, or a name in it than {MOST_NAME_BYTES}"
    except UnicodeEncodeError:
        return "its name is not UTF-8 text"
    if len(names) > DEEPEST:
        return f"it lies more than {DEEPEST} folders deep"
    if any(name in {"", ".", ".."} for name in names):
        return "its path has an empty name, . or .."
    if "\\" in path or any(unicodedata.category(char) in _HIDDEN for char in path):
        return "its path has a backslash or a character that cannot be seen"
    return None


def path_shown(path: str) -> str:
    """Return a path for a person: each character that cannot be seen is written as Python writes it; of long ones both ends."""
    shown = "".join(
        char.encode("unicode_escape").decode() if unicodedata.category(char) in _HIDDEN else char for char in path
    )
    return shown if len(shown) <= 300 else f"{shown[:149]}\N{HORIZONTAL ELLIPSIS}{shown[-150:]}"


def is_at_or_below(path: str, above: str) -> bool:
    """Say whether a path is `above`, or lies below it; "" is above all."""
    return not above or path == above or path.startswith(above.rstrip("/") + "/")
