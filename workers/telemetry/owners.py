"""Assigns processes on GPUs to jobs, and finds jobs that take more of a shared GPU's memory than was granted.

A process is a job's when its line of parents leads to that job's shim; else it is outside Berth. Nothing that a process can
choose counts (its name, environment or files). A job cannot become a descendant of another job's shim, so it can neither
give its use to another job nor take another's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workers.system.procs import Stat, stat

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from workers.telemetry.sampler import GpuDetails

_DEEPEST = 4096


@dataclass(frozen=True, slots=True)
class Shim:
    """A running part's shim: its process, and which part it is of."""

    pid: int
    start_ticks: int
    attempt: str


OUTSIDE = ""


def owner_of(pid: int, shims: Mapping[int, Shim], read: Callable[[int], Stat | None] = stat) -> str | None:
    """Return the attempt that a process belongs to, OUTSIDE for one that Berth did not start, None for one that has ended."""
    for _ in range(_DEEPEST):
        seen = read(pid)
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


TIMES = 2
"""Readings in a row in which a part has to be above its grant: a single one may be a moment's."""


class Grants:
    """Counts how often in a row. `over`: what to say of each part that is above its grant, by attempt."""

    def __init__(self) -> None:
        self._times: dict[str, int] = {}
        self._last: GpuDetails | None = None
        self.over: dict[str, str] = {}

    def check(
        self, granted: Mapping[str, int], used: Mapping[str, Mapping[int, float | None]], details: GpuDetails
    ) -> None:
        """Compare. `granted`: MiB of each GPU, by attempt; `used`: by attempt and GPU. The same details count once."""
        if details is self._last:
            return
        self._last = details
        most = {attempt: max(filter(None, used.get(attempt, {}).values()), default=0.0) for attempt in granted}
        self._times = {
            attempt: self._times.get(attempt, 0) + 1 for attempt, mib in most.items() if mib > granted[attempt]
        }
        self.over = {
            attempt: f"out of GPU memory: used {most[attempt]:.0f} MiB of {granted[attempt]} MiB granted (gpu_memory_mib)"
            for attempt, times in self._times.items()
            if times >= TIMES
        }
