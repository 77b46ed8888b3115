"""Processes as /proc shows them: their identity, descent and usage.

The same pid may belong to another process later; an `Identity` (pid, start time, boot id) never does. Signals go through a
pidfd that was checked against the start time. Standard library only: the shim runs without site packages.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
import time
from pathlib import Path
from typing import Any, NamedTuple

from workers.system.files import write_json

PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / 2**20
TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_DEAD = frozenset("ZXx")
_NO_PROCESS = frozenset({errno.ESRCH, errno.EINVAL, errno.ENOENT})
"""Errors of pidfd_open for a number that names no process: nobody's, or none (0), or a thread's (EINVAL, lately ENOENT)."""
# A scan skips processes that it has seen as strangers. Each tenth scan reads all, because pids are used again.
_FULL_SCAN_EVERY = 10
FAMILY_MOST = 4096
"""The most processes of one job that are noted."""


_boot: list[str] = []


def boot_id() -> str:
    """Return the id of this boot, which no process outlives: it is read once."""
    if not _boot:
        _boot.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
    return _boot[0]


def boottime() -> float:
    """Return seconds since boot, suspended time included. All processes share this clock until the next boot."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed")


def become_subreaper() -> None:
    """Become the parent of every orphaned descendant from now on, so that none gets out of sight."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(sig: int = signal.SIGKILL) -> None:
    """Ask the kernel to send `sig` to this process when its parent dies."""
    _prctl(_PR_SET_PDEATHSIG, sig)


def no_new_rights() -> None:
    """Let no program that this process or its children start gain rights (set-user-id programs, file capabilities)."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def hide() -> None:
    """Let no other process of the account look into this one: no ptrace, no /proc/PID/environ or mem, no core file.

    Its files under /proc then belong to root. exec undoes it, so each program of ours does it for itself.
    """
    _prctl(_PR_SET_DUMPABLE, 0)


def show() -> None:
    _prctl(_PR_SET_DUMPABLE, 1)


class Stat(NamedTuple):
    """One process, from /proc/PID/stat."""

    pid: int
    ppid: int
    session: int
    state: str
    start_ticks: int
    cpu_s: float
    reaped_cpu_s: float
    rss_mib: float


def stat(pid: int) -> Stat | None:
    """None when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - read thousands of times, Path is slow
            text = file.read().decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command's name stands in brackets and may hold anything, so fields count from the last bracket.
    parts = text[text.rindex(")") + 2 :].split()
    return Stat(
        pid=pid,
        ppid=int(parts[1]),
        session=int(parts[3]),
        state=parts[0],
        start_ticks=int(parts[19]),
        cpu_s=(int(parts[11]) + int(parts[12])) * TICK_S,
        reaped_cpu_s=(int(parts[13]) + int(parts[14])) * TICK_S,
        rss_mib=int(parts[21]) * PAGE_MIB,
    )


class Identity(NamedTuple):
    """Names one process, and never another."""

    pid: int
    start_ticks: int
    boot_id: str

    @classmethod
    def of(cls, pid: int) -> Identity | None:
        seen = stat(pid)
        return cls(pid, seen.start_ticks, boot_id()) if seen else None

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Identity:
        return cls(int(value["pid"]), int(value["start_ticks"]), str(value["boot_id"]))

    def to_json(self) -> dict[str, Any]:
        return {"pid": self.pid, "start_ticks": self.start_ticks, "boot_id": self.boot_id}

    def is_alive(self) -> bool:
        """Say whether it lives. A zombie counts as dead: it runs nothing and holds nothing."""
        if self.boot_id != boot_id():
            return False
        seen = stat(self.pid)
        return seen is not None and seen.start_ticks == self.start_ticks and seen.state not in _DEAD

    def open_pidfd(self) -> int | None:
        """A descriptor that becomes readable when the process ends; None when it has."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except OSError as error:
            if error.errno in _NO_PROCESS:
                return None
            raise
        if self.is_alive():
            return descriptor
        os.close(descriptor)
        return None

    def signal(self, sig: int) -> bool:
        """Send `sig` to exactly this process; False when it is gone."""
        descriptor = self.open_pidfd()
        if descriptor is None:
            return False
        try:
            signal.pidfd_send_signal(descriptor, sig)
        except ProcessLookupError:
            return False
        finally:
            os.close(descriptor)
        return True


def all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - names only, and often


class Tree:
    """The living descendants of a subreaper.

    Other processes can never become descendants. So those seen once are not read again until the next full scan.
    """

    def __init__(self, root: int) -> None:
        self.root = root
        self._strangers: set[int] = set()
        self._scans = 0

    def scan(self, *, full: bool = False) -> list[Stat]:
        """Return them, each after its parent: so a signal to all reaches a shell before it sees its children end by theirs."""
        self._scans += 1
        pids = all_pids()
        if full or self._scans % _FULL_SCAN_EVERY == 1:
            self._strangers.clear()
        self._strangers.intersection_update(pids)
        seen = {s.pid: s for p in pids if p not in self._strangers and p != self.root and (s := stat(p))}
        depths = {s.pid: depth for s in seen.values() if (depth := self._depth(s, seen))}
        self._strangers.update(seen.keys() - depths.keys())
        return [seen[pid] for pid in sorted(depths, key=depths.__getitem__) if seen[pid].state not in _DEAD]

    def _depth(self, process: Stat, seen: dict[int, Stat]) -> int:
        """Return how many generations it is below the root: 1 for a child, 0 where it does not descend from it."""
        parent = process.ppid
        for depth in range(1, len(seen) + 2):  # the chain may be a circle, because processes change while it is read
            if parent == self.root:
                return depth
            above = seen.get(parent)
            if above is None:
                return 0
            parent = above.ppid
        return 0


class Family:
    """Writes the job's processes into a file, so that they are found again when their shim was killed.

    A process may clear its environment, leave its session, close its descriptors and hide. Its pid stays the same.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._noted: frozenset[tuple[int, int]] = frozenset()

    def note(self, processes: list[Stat]) -> None:
        """Write the file when the living processes are not those of last time."""
        now = frozenset((p.pid, p.start_ticks) for p in processes[:FAMILY_MOST])
        if now != self._noted:
            with contextlib.suppress(OSError):  # on a full disk the job goes on without this file
                write_json(self.path, sorted(now), durable=False)
                self._noted = now


def pss_mib(pid: int) -> float | None:
    """Return the proportional set size: each shared page is divided among its users. None when the process is gone.

    Raises PermissionError when the process hides its pages (it is not dumpable).
    """
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:  # noqa: PTH123 - as above
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) / 1024
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None


def disk_bytes(pid: int) -> tuple[int, int]:
    """Return (bytes read from, bytes written to) disks by a process and the children it waited for; (0, 0) when it is gone.

    Raises PermissionError when the process hides them (it is not dumpable, and we are not root).
    """
    found = {}
    try:
        with open(f"/proc/{pid}/io", "rb") as file:  # noqa: PTH123 - as above
            found = dict(line.split(b": ", 1) for line in file.read().splitlines())
    except (FileNotFoundError, ProcessLookupError):
        return 0, 0
    return int(found.get(b"read_bytes", 0)), int(found.get(b"write_bytes", 0))


def runqueue_wait_s(pid: int) -> float:
    """Return how long the main thread was ready but had no core; 0 when the kernel does not count it."""
    try:
        with open(f"/proc/{pid}/schedstat", "rb") as file:  # noqa: PTH123 - as above
            return int(file.read().split()[1]) / 1e9
    except (FileNotFoundError, ProcessLookupError, IndexError):
        return 0.0
