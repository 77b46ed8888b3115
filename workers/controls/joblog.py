"""A job's standard output and error: the shim moves them from pipes into files, and the agent reads the files.

The job has no descriptor of the files. Output above the limit is read slowly and thrown away, so a job that writes without
end takes neither disk space nor cores.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from workers.system.files import BrokenFileError, open_regular

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from workers.controls.secrets import LineMask, Mask

STREAMS = ("stdout", "stderr")
CHUNK_BYTES = 256 * 1024
"""Most bytes that are read from a file, and sent to the portal, at a time."""
_PIPE_BYTES = 64 * 1024
DISCARD_PAUSE_S = 0.002
"""The pause after each pipeful that is thrown away: at most 32 MB/s, for a few per cent of a core."""
_NO_FILE: list[int | None] = [None, -1]
WRITE_AGAIN_S = 1.0
"""Pause after a failed write (a full disk). The job waits, as for a full pipe."""


class LogPipe:
    """One stream. `reader` is our end of the pipe; its bytes go to the file at `path`, up to `limit_bytes`."""

    reader = -1
    kept = 0
    _file = -1
    _waiting = b""
    _write_at = 0.0

    def __init__(self, path: Path, limit_bytes: int, mask: Mask | LineMask | None = None) -> None:
        self.path, self.limit_bytes, self.mask = path, limit_bytes, mask

    def open(self) -> int:
        """Make the pipe, and the file at the first time; return the job's end of the pipe.

        Raises OSError, also when the file exists already.
        """
        if self._file < 0:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(self.path, flags, 0o600)
        self.reader, writer = os.pipe()
        os.set_blocking(self.reader, False)
        return writer

    @property
    def identity(self) -> list[int]:
        """Device and inode of the file. A later reader sees by them whether it is still the same file."""
        about = os.fstat(self._file)
        return [about.st_dev, about.st_ino]

    @property
    def mark(self) -> str:
        """The pipe's name in /proc/PID/fd of a process that holds its other end."""
        return f"pipe:[{os.fstat(self.reader).st_ino}]"

    def is_blocked(self) -> bool:
        """Say whether bytes wait because the disk is full. Then nothing is read."""
        return bool(self._waiting) and time.monotonic() < self._write_at

    def pump(self) -> bool:
        """Move at most one pipeful. False when there was nothing to move, or no room on the disk. Never waits."""
        if self._waiting:
            return self._write(self._waiting)
        try:
            data = os.read(self.reader, _PIPE_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self.close()
            return False
        room = max(0, self.limit_bytes - self.kept)
        if not room:
            time.sleep(DISCARD_PAUSE_S)
            return True
        shown = data if self.mask is None else self.mask.feed(data)
        return self._write(shown[:room])

    def _write(self, data: bytes) -> bool:
        try:
            done = os.write(self._file, data)
        except OSError:
            self._waiting, self._write_at = data, time.monotonic() + WRITE_AGAIN_S
            return False
        self.kept += done
        self._waiting = data[done:]
        return True

    def close(self) -> None:
        """Stop reading, and write what was held back as the possible beginning of a secret."""
        if self.mask is not None and self._file >= 0:
            self._write(self.mask.end()[: max(0, self.limit_bytes - self.kept)])
        if self.reader >= 0:
            os.close(self.reader)
            self.reader = -1


class JobLog:
    """Both streams of a job."""

    def __init__(self, streams: list[LogPipe]) -> None:
        self.streams = streams

    @classmethod
    def under(cls, directory: Path, limit_bytes: int, masked: list[bytes] | None = None) -> JobLog:
        """`masked`: the pieces that the files do not show."""
        if not masked:
            return cls([LogPipe(directory / name, limit_bytes) for name in STREAMS])
        from workers.controls.secrets import mask_of  # few jobs need it

        return cls([LogPipe(directory / name, limit_bytes, mask_of(masked)) for name in STREAMS])

    def readers(self) -> list[int]:
        return [s.reader for s in self.streams if s.reader >= 0 and not s.is_blocked()]

    def pump(self) -> bool:
        """Move one piece of each stream; True when there may be more."""
        moved = [s.pump() for s in self.streams if s.reader >= 0]  # each has its turn
        return any(moved)

    def finish(self) -> None:
        """Take what the pipes still hold when the job is dead. If a process elsewhere has a pipe's end, do not wait for it."""
        rest = _PIPE_BYTES * 32  # a pipe holds a mebibyte at most, unless root made it larger
        while rest > 0 and self.pump():
            rest -= _PIPE_BYTES
        for stream in self.streams:
            stream.close()


def log_identities(job: dict[str, Any] | None, boot_id: str) -> dict[str, list[int | None]]:
    """Return each log's identity from `job.json`: device and inode; after a reboot only the inode.

    A disk may have another device number after it. A value that is no such pair matches no file.
    """
    logs, same = (job or {}).get("logs") or {}, (job or {}).get("boot_id") == boot_id
    if not isinstance(logs, dict):
        return dict.fromkeys(STREAMS, _NO_FILE)
    pairs = {name: pair if isinstance(pair, list) and len(pair) == 2 else _NO_FILE for name, pair in logs.items()}
    return {name: [pair[0] if same else None, pair[1]] for name, pair in pairs.items()}


def log_read(
    path: Path, offset: int, identity: Sequence[int | None] | None, most: int = CHUNK_BYTES
) -> tuple[bytes, bool]:
    """Return up to `most` bytes from `offset` on, and whether there is more; nothing when the file is gone.

    `identity`: device (None: any) and inode, by `log_identities`. Raises BrokenFileError when another file, or
    no plain file, is there.
    """
    try:
        descriptor = open_regular(path)
    except FileNotFoundError:
        return b"", False
    try:
        about = os.fstat(descriptor)
        if identity is not None and (about.st_ino != identity[1] or identity[0] not in (None, about.st_dev)):
            raise BrokenFileError(path, "is not the file that was written")
        data = os.pread(descriptor, most, offset)
        return data, about.st_size > offset + len(data)
    finally:
        os.close(descriptor)
