"""Signals that the shim gets, and signals that it sends to all processes of its job; why it ends it."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from workers.system.procs import Stat, Tree

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
