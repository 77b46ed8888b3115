"""A part's usage: its shim measures it each second and overwrites one line of a file, which the agent reads."""

from __future__ import annotations

import contextlib
import math
import os
import resource
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from workers.system.files import BrokenFileError, read_bytes
from workers.system.procs import Stat, Tree, boottime, disk_bytes, pss_mib, runqueue_wait_s

if TYPE_CHECKING:
    from pathlib import Path

_LINE_BYTES = 128
_MOST = 1e12
"""Larger than any machine's seconds or MiB. A larger figure was not measured."""
_MOST_BYTES = 2**64
_UNKNOWN = b"-"
# Reading PSS walks the page tables. It may take at most this share of a core, so a huge job is measured less often.
_PSS_SHARE = 0.02
LATELY = 10
"""Readings, one a second, that say what a part uses lately."""


class Usage(NamedTuple):
    """Totals since the start; `memory_mib` is what is in use now. `at` is in seconds since boot. None: not known."""

    at: float
    cpu_s: float
    wait_s: float
    memory_mib: float
    read_bytes: float | None = None  # from disks; a process that hides keeps them from an agent without root's rights
    write_bytes: float | None = None


def usage_read(path: Path) -> Usage | None:
    """Read the last figures; None when there are none yet, or when they are being written. Raises BrokenFileError."""
    try:
        parts = read_bytes(path, limit=_LINE_BYTES).split()
    except FileNotFoundError:
        return None
    # The line's number stands at both ends.
    if len(parts) != 8 or parts[0] != parts[-1]:
        return None
    try:
        values = [float(p) for p in parts[1:5]]
        moved = [None if p == _UNKNOWN else float(p) for p in parts[5:-1]]
    except ValueError as error:
        raise BrokenFileError(path, "holds no figures") from error
    bounded = all(math.isfinite(v) and 0 <= v <= _MOST for v in values)
    if not bounded or not all(v is None or (math.isfinite(v) and 0 <= v <= _MOST_BYTES) for v in moved):
        raise BrokenFileError(path, "holds no figures")
    return Usage(*values, *moved)


def _fair_mib(process: Stat) -> float:
    """Return the process's share of memory (PSS); all its resident memory (RSS) when it hides its pages."""
    try:
        return pss_mib(process.pid) or 0.0
    except PermissionError:
        return process.rss_mib


class UsageMeter:
    """Sums over the shim's descendants. Memory is PSS. It is measured anew whenever it could exceed the limit."""

    peak_mib = 0.0
    _wait_s = 0.0
    _pss_mib = 0.0
    _pss_again_at = 0.0
    _moved = (0.0, 0.0)
    _number = 0
    _file: int | None = None

    def __init__(self, tree: Tree, path: Path, limit_mib: int | None, *, count_wait: bool) -> None:
        self.tree, self.path, self.limit_mib, self.count_wait = tree, path, limit_mib, count_wait
        self.seen: list[Stat] = []
        self._waits: dict[int, float] = {}
        self._lately: deque[tuple[float, float]] = deque(maxlen=LATELY)

    def measure(self) -> Usage:
        self.seen = processes = self.tree.scan()
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = sum(p.cpu_s + p.reaped_cpu_s for p in processes) + children.ru_utime + children.ru_stime
        moved = self._disk(processes)
        usage = Usage(boottime(), cpu_s, self._add_waits(processes), self._memory(processes), *moved)
        self.peak_mib = max(self.peak_mib, usage.memory_mib)
        self._lately.append((usage.at, usage.cpu_s))
        self._write(usage)
        return usage

    def cores_lately(self) -> float:
        """Return the mean cores in use over the last readings; 1 before there are two."""
        if len(self._lately) < 2:
            return 1.0
        (first, before), (last, after) = self._lately[0], self._lately[-1]
        return max(0.0, after - before) / max(1e-3, last - first)

    def _add_waits(self, processes: list[Stat]) -> float:
        if self.count_wait:
            now = {p.pid: runqueue_wait_s(p.pid) for p in processes}
            self._wait_s += sum(max(0.0, wait - self._waits.get(pid, 0.0)) for pid, wait in now.items())
            self._waits = now
        return self._wait_s

    def _disk(self, processes: list[Stat]) -> tuple[float | None, float | None]:
        """Return the bytes read from and written to disks, never less than before; (None, None) when one hides them.

        A process that was waited for lives on in its parent's figures, at last in the shim's own.
        """
        try:
            seen = [disk_bytes(pid) for pid in (os.getpid(), *(p.pid for p in processes))]
        except PermissionError:
            return None, None
        read, written = sum(each[0] for each in seen), sum(each[1] for each in seen)
        self._moved = (max(self._moved[0], read), max(self._moved[1], written))
        return self._moved

    def _memory(self, processes: list[Stat]) -> float:
        """Return the PSS. RSS is never below PSS: as long as RSS is within the limit, an older PSS is good enough."""
        rss_mib = sum(p.rss_mib for p in processes)
        begun = boottime()
        if begun >= self._pss_again_at or (self.limit_mib is not None and rss_mib > self.limit_mib):
            self._pss_mib = sum(_fair_mib(p) for p in processes)
            self._pss_again_at = begun + (boottime() - begun) / _PSS_SHARE
        return self._pss_mib

    def _write(self, usage: Usage) -> None:
        self._number += 1
        figures = f"{usage.at:.3f} {usage.cpu_s:.3f} {usage.wait_s:.3f} {usage.memory_mib:.3f}"
        for moved in (usage.read_bytes, usage.write_bytes):
            figures += f" {_UNKNOWN.decode() if moved is None else f'{moved:.0f}'}"
        line = f"{self._number} {figures} {self._number}".ljust(_LINE_BYTES - 1) + "\n"
        with contextlib.suppress(OSError):  # a full disk costs a figure on a page, never the job
            if self._file is None:
                self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
            os.pwrite(self._file, line.encode(), 0)
