"""Finding what a part left behind when its shim was killed: by marker, session, open log file and descent."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from workers.procs import Identity, Stat, all_pids, boot_id, stat

MARKER = "BERTH_PART"


def _has_marker(pid: int, directory: Path) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # gone, a kernel thread's or another user's: not ours
        return False
    return f"{MARKER}={directory}".encode() in environment.split(b"\0")


def _writes_logs(pid: int, directory: Path) -> bool:
    """A process that emptied its environment still writes to the part's log, unless it closed that too."""
    for descriptor in (1, 2):
        try:
            target = Path(f"/proc/{pid}/fd/{descriptor}").readlink()
        except OSError:
            continue
        if target in {directory / "stdout", directory / "stderr"}:
            return True
    return False


def _session_of(leader: Identity | None, seen: dict[int, Stat]) -> int | None:
    """The part's session, unless its number belongs to somebody else by now."""
    if leader is None or leader.boot_id != boot_id():
        return None
    holder = seen.get(leader.pid)
    return leader.pid if holder is None or holder.start_ticks == leader.start_ticks else None


def leftovers_find(directory: Path, *, leader: Identity | None) -> list[Stat]:
    """Living processes of the part whose directory this is; `leader` is the job's first process."""
    seen = {p: s for p in all_pids() if p != os.getpid() and (s := stat(p)) and s.state not in "ZXx"}
    session = _session_of(leader, seen)
    found = {
        s.pid
        for s in seen.values()
        if s.session == session or _has_marker(s.pid, directory) or _writes_logs(s.pid, directory)
    }
    while grown := {s.pid for s in seen.values() if s.ppid in found} - found:
        found |= grown
    return [seen[p] for p in found]


def leftovers_kill(directory: Path, *, leader: Identity | None, timeout_s: float = 10.0) -> int:
    """Kill until nothing of the part lives; return how many were killed.

    Raises TimeoutError when something still lives after `timeout_s` (a process in an uninterruptible call).
    """
    killed: set[tuple[int, int]] = set()
    boot = boot_id()
    end = time.monotonic() + timeout_s
    while found := leftovers_find(directory, leader=leader):
        for process in found:
            if Identity(process.pid, process.start_ticks, boot).signal(signal.SIGKILL):
                killed.add((process.pid, process.start_ticks))
        if time.monotonic() > end:
            pids = sorted(p.pid for p in found)
            raise TimeoutError(f"processes {pids} of {directory.name} do not die")
        time.sleep(0.02)
    return len(killed)
