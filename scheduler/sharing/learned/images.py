"""The input of the agent and its actions (DqnGPU 3.2; algorithms.md section 12), and which of these it may take.

An image is the height of use over the next `STEPS` steps, for each of four resources (GPU time, memory, SMs, PCIe), in parts of
a GPU's: the paper draws the same as cells of 0 and 1. One image for the GPU, one for each waiting job in a slot; then how long
those jobs and those on the GPU take, and how many more wait. An action is a subset of the slots to start together, or to wait.

No action may be taken with which a resource is exceeded at any step (DqnGPU 3.2.2). A job that is slowed comes to its peak later
than on an idle GPU, and stays longer. Each job counts with the most that it may use at a step when it comes on at its own speed,
or up to `slowest` times slower, or anything between. Where the true slowdown of jobs that exceed nothing is at most `slowest`,
no job ever runs out of memory by a decision. Without a bound (`inf`), which is how the service decides, memory counts by the
most that a job will use until its end: no slowdown can break that. With `gain` (decision 0209) no job starts that would gain too
little there (`paces`); and where a bound would hold subsets to `in_time`, those subsets may start too for which memory is enough
at any pace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from scheduler.sharing.series import Flags, Floats, Ints

STEPS, RESOURCES = 20, 4
MEMORY = 1
STRIDE = 2
"""Phases that a step of an image is the mean of: so images reach twice as far as they have steps."""
BACKLOG = 30
"""As many jobs behind the slots count as a full backlog."""
LONG = 40.0
"""As many phases count as a long job."""
CROWD = 4.0
"""As many jobs on a GPU count as many."""
WAIT = 0


@dataclass(frozen=True)
class Frame:
    """The number of waiting jobs that the agent sees, and its consequences. `subsets[WAIT]` starts no job.

    `together`: whether jobs may start as a subset (DqnGPU), or only one at a time (DeepRM).
    """

    slots: int = 3
    together: bool = True

    @cached_property
    def subsets(self) -> tuple[tuple[int, ...], ...]:
        """By action: the slots that start."""
        sizes = range(1, (self.slots if self.together else 1) + 1)
        return ((), *(chosen for size in sizes for chosen in combinations(range(self.slots), size)))

    @cached_property
    def members(self) -> Floats:
        """By action: 1 for each slot that starts. Shape (actions, slots)."""
        found = np.zeros((len(self.subsets), self.slots))
        for action, chosen in enumerate(self.subsets):
            found[action, list(chosen)] = 1.0
        return found

    @cached_property
    def without(self) -> Ints:
        """By action and slot: the action that starts the same but for that slot. Shape (actions, slots)."""
        numbers = {chosen: action for action, chosen in enumerate(self.subsets)}
        rows = [
            [numbers[tuple(each for each in chosen if each != slot)] for slot in range(self.slots)]
            for chosen in self.subsets
        ]
        return np.array(rows, dtype=np.int64)

    @cached_property
    def actions(self) -> int:
        return len(self.subsets)

    @cached_property
    def inputs(self) -> int:
        return (1 + self.slots) * STEPS * RESOURCES + self.slots + 4


def ahead(uses: Floats, at: int = 0) -> Floats:
    """Return a job's image from its phase `at` on. `uses`: shape (phases, 4). Returns shape (STEPS, 4), zeros after its end."""
    image = np.zeros((STEPS * STRIDE, RESOURCES))
    coming = uses[at : at + STEPS * STRIDE]
    image[: len(coming)] = coming
    found: Floats = image.reshape(STEPS, STRIDE, RESOURCES).mean(axis=1)
    return found


def state(
    frame: Frame, gpu: Floats, remaining: Sequence[float], slots: Sequence[tuple[Floats, float]], backlog: int
) -> Floats:
    """Return the network's input, shape (frame.inputs,).

    `gpu`: the image of those who run; `remaining`: the phases that each of them has before it; `slots`: image and phases of the
    job in each slot, as many as there are (an empty slot is nothing but zeros); `backlog`: how many wait behind them.
    """
    found = np.zeros(frame.inputs)
    size = STEPS * RESOURCES
    found[:size] = gpu.ravel()
    for slot, (image, phases) in enumerate(slots):
        found[(1 + slot) * size : (2 + slot) * size] = image.ravel()
        found[(1 + frame.slots) * size + slot] = phases / LONG
    found[-4] = len(remaining) / CROWD
    found[-3] = min(remaining, default=0.0) / LONG
    found[-2] = max(remaining, default=0.0) / LONG
    found[-1] = min(backlog, BACKLOG) / BACKLOG
    return found


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
            found[:, MEMORY] = self.peak_from(done)
        found[:, IN_TIME] /= self._limits.in_time
        return found

    def peak_from(self, done: float = 0.0) -> float:
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
