"""Whose a process on a GPU is: a job's, when its line of parents leads to that job's shim; else it is outside Berth.

Nothing that a process can choose counts (its name, environment or files). A job cannot become a descendant of another
job's shim, so it can neither give its use to another job nor take another's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workers.system.procs import Stat, stat

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_DEEPEST = 4096


@dataclass(frozen=True, slots=True)
class Shim:
    """A running part's shim: its process, and which part it is of."""

    pid: int
    start_ticks: int
    attempt: str


OUTSIDE = ""


def owner_of(pid: int, shims: Mapping[int, Shim], look: Callable[[int], Stat | None] = stat) -> str | None:
    """Return the attempt that a process belongs to, OUTSIDE for one that Berth did not start, None for one that has ended."""
    for _ in range(_DEEPEST):
        seen = look(pid)
        if seen is None:
            return None
        shim = shims.get(pid)
        if shim is not None and shim.start_ticks == seen.start_ticks:
            return shim.attempt
        if seen.ppid <= 1:
            return OUTSIDE
        pid = seen.ppid
    return OUTSIDE


def name_of(pid: int) -> str:
    """Return the process's own name for people, at most 15 printable characters; empty when it is gone."""
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:  # noqa: PTH123 - read at each look
            text = file.read(64).decode(errors="replace").strip()
    except OSError:
        return ""
    return "".join(char if char.isprintable() else "?" for char in text)
