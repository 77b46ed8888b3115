"""Contents on the disk: DIR/uploads/ab/abcdef..., each by the hash of its bytes, and those that still come in `incoming`.

A content comes to its name by one rename, once it is whole and on the disk. So what has a name is never half a file.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings

from portal.foundation.disk import DiskLow, disk_state

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

PIECE_BYTES = 1024 * 1024
LEFT_S = 86_400.0
"""An older file in `incoming` belongs to nobody who still sends."""
MIB = 2**20


def root() -> Path:
    return Path(settings.DATA_DIR) / "uploads"


def blob_path(sha256: str) -> Path:
    return root() / sha256[:2] / sha256


@dataclass
class Incoming:
    """A content that comes in: `write` its bytes, then `finish`. `discard` at the end, in any case."""

    path: Path
    size_bytes: int = 0
    _hash: Any = field(default_factory=hashlib.sha256)
    _file: BinaryIO | None = None

    @classmethod
    def begin(cls) -> Incoming:
        """Raises OSError."""
        folder = root() / "incoming"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        made = cls(folder / secrets.token_hex(16))
        made._file = os.fdopen(os.open(made.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", buffering=0)
        return made

    @property
    def sha256(self) -> str:
        return str(self._hash.hexdigest())

    def write(self, data: bytes) -> None:
        """Raises OSError where there is no room."""
        assert self._file is not None
        left = memoryview(data)
        while left:
            left = left[self._file.write(left) :]
        self._hash.update(data)
        self.size_bytes += len(data)

    def finish(self) -> None:
        """Have it on the disk: a name is given to nothing that a power cut could empty."""
        assert self._file is not None
        os.fsync(self._file.fileno())
        self._file.close()

    def discard(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
        self.path.unlink(missing_ok=True)


def room_require(size_bytes: int) -> None:
    """Raise DiskLow where a content of this size would bring the disk below its mark."""
    disk = disk_state()
    if disk.low or disk.free_mib - size_bytes // MIB < disk.mark_mib:
        raise DiskLow(disk)


def place(incoming: Path, sha256: str) -> None:
    """Give a finished content its name. Raises OSError."""
    target = blob_path(sha256)
    target.parent.mkdir(exist_ok=True, mode=0o700)
    incoming.replace(target)
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def is_there(sha256: str) -> bool:
    """Say whether the file of a content is there. After a restore of only the database it may not be."""
    return blob_path(sha256).exists()


def remove(sha256: str) -> None:
    blob_path(sha256).unlink(missing_ok=True)


def pieces(sha256: str) -> Iterator[bytes]:
    """Yield a content piece by piece. Raises OSError where it is not there."""
    with blob_path(sha256).open("rb") as file:
        while piece := file.read(64 * 1024):
            yield piece


def leftovers() -> Iterator[Path]:
    """Yield old files in `incoming` that nobody still sends."""
    with suppress(FileNotFoundError):
        for path in (root() / "incoming").iterdir():
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < time.time() - LEFT_S:
                    yield path


def names_of(prefix: str) -> list[str]:
    """Return the hashes on the disk that begin with these two digits, and are not new."""
    found = []
    with suppress(FileNotFoundError):
        for path in (root() / prefix).iterdir():
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < time.time() - LEFT_S:
                    found.append(path.name)
    return found
