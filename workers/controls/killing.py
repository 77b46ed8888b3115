"""Ends the processes of a part: by the shim's signals, or by the agent where the shim was killed.

The agent recognises them by control group, mark, pid, session, open pipe, or parent.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from workers.system.procs import Identity, Stat, Tree, all_pids, boot_id, stat

if TYPE_CHECKING:
    from collections.abc import Callable

    from workers.controls.cgroups import Group

# From this number of processes on, all are stopped before any is killed. Some may not stop, so the tries are limited.
FREEZE_FROM = 50
FREEZE_ROUNDS = 20


class Ending:
    """Why the shim ends the job, and from when on it kills (seconds since boot)."""

    overran = False
    """Something of it lived when its grace was over."""

    def __init__(self, reason: str, detail: str, kill_at: float, graced: bool = False) -> None:
        """`graced`: it has the whole grace that its order gave it."""
        self.reason, self.detail, self.kill_at, self.graced = reason, detail, kill_at, graced


def wake_on_signals(on_terminated: Callable[..., Any]) -> int:
    """Make a pipe that becomes readable with each signal that the shim acts on; return the end to read.

    `on_terminated` is called at each SIGTERM, as a signal handler is.
    """
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for sig in (signal.SIGCHLD, signal.SIGUSR1):
        signal.signal(sig, lambda *_: None)
    signal.signal(signal.SIGTERM, on_terminated)
    for sig in (signal.SIGINT, signal.SIGHUP):
        signal.signal(sig, signal.SIG_IGN)
    return reader


def signal_all(tree: Tree, sig: int) -> None:
    _send(sig, tree.scan(full=True))


def kill_all(tree: Tree) -> None:
    """Kill all descendants. Many are stopped first, because they might fork faster than they are killed."""
    for _ in range(FREEZE_ROUNDS):
        moving = [p for p in tree.scan(full=True) if p.state not in "tT"]
        if len(moving) < FREEZE_FROM:
            break
        _send(signal.SIGSTOP, moving)
    signal_all(tree, signal.SIGKILL)


def _send(sig: int, processes: list[Stat]) -> None:
    for process in processes:
        try:
            os.kill(process.pid, sig)  # our child: its pid cannot be used again before we reap it
        except ProcessLookupError:
            continue


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
