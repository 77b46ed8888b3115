"""Which subsets of the waiting jobs may start: none with which a resource is exceeded at any step (DqnGPU 3.2.2).

A job that is slowed comes to its peak later than on an idle GPU, and stays longer. Each job counts with the most that it may use
at a step when it comes on at its own speed, or up to `slowest` times slower, or anything between. Where the true slowdown of
jobs that exceed nothing is at most `slowest`, no job ever runs out of memory by a decision. Without a bound (`inf`), which is
how the service decides, memory counts by the most that a job will use until its end: no slowdown can break that.

With `gain` (decision 0209) no job starts that would gain too little there (`paces`); and where a bound would hold subsets to
`in_time`, those subsets may start too for which memory is enough at any pace.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scheduler.sharing.learned.images import MEMORY, RESOURCES, WAIT, Frame
from scheduler.sharing.series import Flags, Floats

TOLERANCE = 1e-9
IN_TIME = [0, 2, 3]


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a job may fall behind (`slowest`, 1 or more, or inf), and how many phases of a job count (`longest`).

    `longest` must be no less than the phases of any job times `slowest` (where that is finite). `in_time`: how much of the
    resources that jobs take in turns (GPU time, SMs, PCIe) they may ask for together, in parts of all; of memory never more than
    there is. `gain`: how much pace each job that starts must add at least, in parts of its own (`paces`); None: any job that
    fits may start.
    """

    slowest: float = np.inf
    longest: int = 80
    in_time: float = 1.0
    gain: float | None = None

    @property
    def bounded(self) -> bool:
        """Whether nobody falls behind by more than `slowest`."""
        return bool(np.isfinite(self.slowest))


class Reach:
    """The most that one job may use at each phase from now on. `uses`: shape (phases, 4).

    `_highest[p, n]`: the highest use of the `2 ** p` phases from `n` on; any stretch is covered by two of these.
    """

    def __init__(self, uses: Floats, limits: Limits) -> None:
        self._limits, self._total = limits, len(uses)
        self._later = np.maximum.accumulate(uses[::-1, MEMORY])[::-1]
        steps = np.arange(limits.longest)
        bounded = limits.bounded
        self._fast, self._slow = steps, steps / limits.slowest if bounded else steps.astype(np.float64)
        self._bounded = bounded
        levels = [np.asarray(uses, dtype=np.float64)]
        while bounded and 2 ** len(levels) <= limits.longest:
            step = 2 ** (len(levels) - 1)
            below = levels[-1]
            levels.append(np.maximum(below, below[np.minimum(np.arange(self._total) + step, self._total - 1)]))
        self._highest = np.array(levels)
        self._powers = np.log2(np.arange(1, limits.longest + 2)).astype(np.int64)

    def ahead(self, done: float = 0.0) -> Floats:
        """Return the most that it may use at each phase from now on, having done `done` phases. Shape (longest, 4)."""
        first = (self._slow + done).astype(np.int64)
        there = int(np.searchsorted(first, self._total))
        first = first[:there]
        found = np.zeros((self._limits.longest, RESOURCES))
        if self._bounded:
            last = np.minimum(self._fast[:there] + int(done), self._total - 1)
            power = self._powers[last - first]
            np.maximum(self._highest[power, first], self._highest[power, last + 1 - (1 << power)], out=found[:there])
        else:
            found[:there] = self._highest[0, first]
            found[:, MEMORY] = self.ever(done)
        found[:, IN_TIME] /= self._limits.in_time
        return found

    def ever(self, done: float = 0.0) -> float:
        """Return the most memory that it will use until its end, having done `done` phases."""
        return float(self._later[int(done)]) if int(done) < self._total else 0.0


def taken(frame: Frame, slots: list[Floats]) -> Floats:
    """Return the use that each action would add, by phase and resource; inf where it names an empty slot. Shape (actions, phases
    * 4).

    `slots`: as `Reach.ahead` returns, of the job in each filled slot.
    """
    given = np.array([each.ravel() for each in slots]) if slots else np.zeros((0, 1))
    found: Floats = frame.members[:, : len(slots)] @ given
    found[frame.members[:, len(slots) :].any(axis=1)] = np.inf
    return found


def fitting(running: Floats, added: Floats) -> Flags:
    """Return with which actions no resource is exceeded at any step, shape (actions,).

    `running`: as `Reach.ahead` returns, of all those on the GPU together; `added`: as `taken` returns.
    """
    found: Flags = (added + running.ravel()).max(axis=1) <= 1.0 + TOLERANCE
    return found


def remembered(frame: Frame, running: float, slots: list[float]) -> Flags:
    """Return with which actions memory is enough at whatever pace, shape (actions,). Given: as `Reach.ever` returns."""
    found: Flags = running + frame.members[:, : len(slots)] @ np.array(slots, dtype=np.float64) <= 1.0 + TOLERANCE
    return found & ~frame.members[:, len(slots) :].any(axis=1)


def allowed(may: Flags, *, somebody: bool) -> Flags:
    """Return which actions may be taken, of those that fit. To wait: beside somebody, or where nobody may start."""
    found = may.copy()
    found[WAIT] = somebody or not may[1:].any()
    return found
