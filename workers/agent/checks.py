"""Two checks of the agent: the room on the disks where jobs write, and the operator's own program.

A node with less room than the mark gets no new jobs. It gets them again when a fifth more than the mark is free; else a job
that ends and one that begins would switch it on and off.

The program says with its exit code whether the node is well, within a time limit. 0: well. Anything else, a
time-out or a program that does not start: no new jobs here until it is well again. The first line of its output says why; a
line `gpu:3: reason` blames one GPU, and then the others go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import stat
import tempfile
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from workers.agent.health import NodeHealth
    from workers.protocol.wire import DiskRoom
    from workers.system.room import Reserve

_MIB = 2**20
AGAIN_SHARE = 1.2
FEW_INODES = 1000
"""A file system with fewer free inodes is as good as full."""


class NodeDisk:
    """Measures the file systems of `paths`, and fills `reserve` up. With `mark_mib` 0 the disk never counts as low."""

    def __init__(self, paths: Sequence[Path], *, mark_mib: int, reserve: Reserve | None = None) -> None:
        self._paths, self._reserve = paths, reserve
        self._mark_mib = mark_mib
        self.low = False

    def read_room(self) -> DiskRoom | None:
        """Return the figures of the fullest file system, None when no path exists yet. A dead network mount may block it."""
        if self._reserve is not None and not self._reserve.is_whole:
            self._reserve.refill()
        found = [room for path in self._paths if (room := _room(path)) is not None]
        if not found:
            return None
        free_mib, total_mib, _ = min(found)
        needed_mib = self._mark_mib * (AGAIN_SHARE if self.low else 1.0)
        self.low = self._mark_mib > 0 and (free_mib < needed_mib or any(room[2] for room in found))
        return {"free_mib": free_mib, "total_mib": total_mib, "low": self.low}


def _room(path: Path) -> tuple[int, int, bool] | None:
    """Return free MiB, total MiB, and whether few inodes are left. A missing path is measured at its nearest parent."""
    while not path.exists() and path != path.parent:
        path = path.parent
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    inodes_low = found.f_files > 0 and found.f_favail < FEW_INODES
    return found.f_bavail * found.f_frsize // _MIB, found.f_blocks * found.f_frsize // _MIB, inodes_low


CHECK = "script"
_GPU = re.compile(r"^gpu:(\d{1,4}):\s*(.+)$")
REMEDY = "Runs the node's own check script and reads its findings."


class CheckScript:
    """Runs the program and tells `health` what it found."""

    def __init__(self, path: Path, *, limit_s: float, health: NodeHealth) -> None:
        self._path, self._limit_s, self._health = path, limit_s, health
        self._blamed: set[str] = set()

    async def run(self) -> None:
        code, output = await self._output()
        found = {} if code == 0 else _blame(output, code)
        for subject in self._blamed - set(found):
            self._health.clear(subject, CHECK)
        for subject, detail in found.items():
            self._health.note(subject, CHECK, "drain", detail, REMEDY)
        self._blamed = set(found)

    async def _output(self) -> tuple[int | None, str]:
        """Return its exit code (None: it gave none) and its output."""
        if (why := _refusal(self._path)) is not None:
            return None, why
        try:
            with tempfile.TemporaryFile() as output:  # a process that the program leaves behind would keep a pipe open
                code = await self._run_to_end(output)
                output.seek(0)
                text = output.read(8192).decode(errors="replace")
        except OSError as error:
            return None, f"The check script does not start: {error}."
        return (None, f"The check script did not end within {self._limit_s:g} s.") if code is None else (code, text)

    async def _run_to_end(self, output: IO[bytes]) -> int | None:
        """Run it to its end, and end whatever it left; None when it took too long."""
        process = await asyncio.create_subprocess_exec(
            self._path,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(self._limit_s):
                return await process.wait()
        except TimeoutError:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


def _refusal(path: Path) -> str | None:
    """Say why a program must not be run: somebody else could have written it."""
    try:
        seen = path.stat()
    except OSError as error:
        return f"The check script cannot be found: {error.strerror}."
    if seen.st_uid not in {0, os.geteuid()} or seen.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "The check script is not run: others than root and the agent's account may write it."
    return None


def _blame(output: str, code: int | None) -> dict[str, str]:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    gpus = {f"gpu:{int(match[1])}": match[2] for line in lines if (match := _GPU.match(line))}
    if gpus:
        return gpus
    return {"node": lines[0] if lines else f"The check script ended with {code}."}
