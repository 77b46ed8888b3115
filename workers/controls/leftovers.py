"""Finds the processes of a part whose shim was killed: by its control group, mark, pid, session, open pipe, or parent."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from workers.system.procs import Identity, Stat, all_pids, boot_id, stat

if TYPE_CHECKING:
    from workers.controls.cgroups import Group

MARKER = "BERTH_MARK"
"""A variable of each process of a job. It holds a random word, which does not show where files lie."""


class Traces(NamedTuple):
    """All by which a part's processes are recognised.

    `pipes`: names under /proc/PID/fd of the log's pipes, or its files' paths; `family`: the (pid, start) that its shim
    noted last; `leader`: the job's first process.
    """

    directory: Path
    mark: str = ""
    leader: Identity | None = None
    pipes: frozenset[str] = frozenset()
    family: frozenset[tuple[int, int]] = frozenset()


def _has_mark(pid: int, mark: str) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # gone, hidden, a kernel thread's or another user's
        return False
    return bool(mark) and f"{MARKER}={mark}".encode() in environment.split(b"\0")


def _writes_log(pid: int, pipes: frozenset[str]) -> bool:
    """Say whether a process writes into the log's pipe. One that cleared its environment is found by this."""
    for descriptor in (1, 2):
        try:
            target = str(Path(f"/proc/{pid}/fd/{descriptor}").readlink())
        except OSError:
            continue
        if target in pipes:
            return True
    return False


def _session_of(leader: Identity | None, seen: dict[int, Stat]) -> int | None:
    """Return the part's session; None when its number belongs to another process by now."""
    if leader is None or leader.boot_id != boot_id():
        return None
    holder = seen.get(leader.pid)
    return leader.pid if holder is None or holder.start_ticks == leader.start_ticks else None


def leftovers_find(traces: Traces, group: Group | None = None) -> list[Stat]:
    """Return the living processes of the part: those in its group where it has one, and those with a trace of it."""
    members = group.pids() if group else set()
    seen = {p: s for p in all_pids() if p != os.getpid() and (s := stat(p)) and s.state not in "ZXx"}
    session = _session_of(traces.leader, seen)
    found = {
        s.pid
        for s in seen.values()
        if s.pid in members
        or s.session == session
        or (s.pid, s.start_ticks) in traces.family
        or _has_mark(s.pid, traces.mark)
        or _writes_log(s.pid, traces.pipes)
    }
    while grown := {s.pid for s in seen.values() if s.ppid in found} - found:
        found |= grown
    return [seen[p] for p in found]


def leftovers_kill(traces: Traces, group: Group | None = None, *, timeout_s: float = 10.0) -> int:
    """Kill until no process of the part lives; return how many were killed.

    Raises TimeoutError when something still lives after `timeout_s` (a process in an uninterruptible call).
    """
    killed: set[tuple[int, int]] = set()
    boot = boot_id()
    end = time.monotonic() + timeout_s
    while found := leftovers_find(traces, group):
        for process in found:
            if Identity(process.pid, process.start_ticks, boot).signal(signal.SIGKILL):
                killed.add((process.pid, process.start_ticks))
        if time.monotonic() > end:
            pids = sorted(p.pid for p in found)
            raise TimeoutError(f"processes {pids} of {traces.directory.name} do not die")
        time.sleep(0.02)
    return len(killed)
