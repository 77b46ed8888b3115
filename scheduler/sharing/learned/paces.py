"""What jobs on one GPU get done together, and who gains by joining them (decision 0209).

A job's *pace* is what it gets done of its own work in a second, 1 as alone. It is estimated as every policy estimates what jobs
cost each other (`scheduler.sharing.measured`): where it was measured beside each of the others, by their harms added up; else by
what all of them keep the GPU busy. Whoever starts adds a pace of its own and takes from those of the others. What is left of
that over its own time there is its *gain*: where it is little, the job is as well off waiting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scheduler.sharing.learned.images import STEPS, STRIDE
from scheduler.sharing.measured import BESIDE, BEYOND, ENOUGH, NOTHING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.sharing.learned.images import Frame
    from scheduler.sharing.measured import Measured
    from scheduler.sharing.series import Flags, Floats, Ints

GPU = 0
AT = np.arange(STEPS)


class Course(NamedTuple):
    """A job of some signature over the next `STEPS` steps: the part of each that it keeps the GPU busy, and is there."""

    signature: str
    busy: Floats
    there: Floats


def course(signature: str, image: Floats, phases: float) -> Course:
    """Return the course of a job that has so many phases before it. `image`: as `images.ahead` returns."""
    there = np.minimum(np.maximum(phases / STRIDE - AT, 0.0), 1.0)
    return Course(signature, image[:, GPU], there)


def summed(busy: Floats, there: Floats, harms: Floats | None = None) -> Floats:
    """Return the paces of the jobs of each set together, by step. Shape (sets, STEPS).

    `busy`, `there`: by set and job, shape (sets, jobs, STEPS), zeros for who is not of the set. `harms`: what each job suffers
    beside another as measured, NaN where it was not; shape (jobs, jobs), or (sets, jobs, jobs).
    """
    total = busy.sum(axis=1, keepdims=True)
    slow = 1.0 + BEYOND * np.maximum(total - 1.0, 0.0) + BESIDE * (total - busy)
    if harms is not None:
        unmeasured = np.isnan(harms)
        told = 1.0 + np.where(unmeasured, 0.0, harms) @ there
        slow = np.where(unmeasured.astype(np.float64) @ there > 0.0, slow, told)
    found: Floats = (there / slow).sum(axis=1)
    return found


def harms_of(signatures: Sequence[str], measured: Measured, gpu_type: str) -> Floats | None:
    """Return what jobs of these signatures suffer beside each other, NaN where that was not measured; None: nothing was."""
    if not measured.beside:
        return None
    found = np.full((len(signatures), len(signatures)), np.nan)
    for row, own in enumerate(signatures):
        for column, other in enumerate(signatures):
            harm, counts = measured.told(own, other, gpu_type) or (0.0, 0.0)
            if counts >= ENOUGH:
                found[row, column] = harm
    np.fill_diagonal(found, 0.0)  # beside itself stands nobody
    return found


@dataclass(frozen=True, slots=True)
class Gains:
    """Who must gain how much (`least`, in parts of a whole pace), told of these pairs on GPUs of this type."""

    frame: Frame
    least: float
    measured: Measured = NOTHING
    gpu_type: str = ""

    def enough(self, running: Sequence[Course], slots: Sequence[Course], fit: Flags) -> Flags:
        """Return with which of the actions that `fit` each who starts gains enough beside all the others. Shape (actions,).

        Who starts alone on a GPU gains all there is. No action that fits names an empty slot.
        """
        found, count = fit.copy(), len(slots)
        start = self.frame.members.sum(axis=1)
        at = np.flatnonzero(fit & (start > 0) & (start + len(running) > 1))
        if not count or not len(at):
            return found
        without = self.frame.without[at][:, :count]
        looked, place = np.unique(np.concatenate([at[:, None], without], axis=1), return_inverse=True)
        place = place.reshape(len(at), count + 1)
        over = self._over(running, slots, self.frame.members[looked, :count])
        gains = over[place[:, :1], np.arange(count)] - over[place[:, 1:], np.arange(count)]
        starts = self.frame.members[at, :count] > 0.0
        found[at] = ~(starts & (gains < self.least)).any(axis=1)
        return found

    def _over(self, running: Sequence[Course], slots: Sequence[Course], members: Floats) -> Floats:
        """Return the mean pace of those running and a subset, over each slot's own time. Shape (subsets, slots)."""
        jobs = [*running, *slots]
        part = np.ones((len(members), len(jobs), 1))
        part[:, len(running) :, 0] = members
        busy, there = np.array([job.busy for job in jobs]), np.array([job.there for job in jobs])
        harms = harms_of([job.signature for job in jobs], self.measured, self.gpu_type)
        own = there[len(running) :]
        found: Floats = summed(part * busy, part * there, harms) @ (own / own.sum(axis=1, keepdims=True)).T
        return found


class Beside:
    """Those on each GPU of a planning, a row a GPU: whether one more job would gain enough beside them.

    `gpu_types`: by GPU. Rows are looked at together, for a planning asks for hundreds of jobs.
    """

    def __init__(self, gpu_types: Sequence[str], least: float, measured: Measured) -> None:
        self._types, self._least, self._measured = gpu_types, least, measured
        self._numbers: dict[tuple[str, str], int] = {}
        self._make(1)

    def _make(self, places: int) -> None:
        many = len(self._types)
        self._busy, self._there = np.zeros((many, places, STEPS)), np.zeros((many, places, STEPS))
        self._harms: Floats = np.full((many, places, places), np.nan)
        self._who: Ints = np.zeros((many, places), dtype=np.int64)
        self._paces = np.zeros((many, STEPS))

    def look(self, row: int, courses: Sequence[Course]) -> None:
        """Say who is on a GPU now."""
        if len(courses) > self._busy.shape[1]:
            self._widen(2 * len(courses))
        count, gpu_type = len(courses), self._types[row]
        self._busy[row], self._there[row] = 0.0, 0.0
        for place, each in enumerate(courses):
            self._busy[row, place], self._there[row, place] = each.busy, each.there
            self._who[row, place] = self._numbers.setdefault((gpu_type, each.signature), len(self._numbers))
        harms = harms_of([each.signature for each in courses], self._measured, gpu_type)
        if harms is not None:
            self._harms[row, :count, :count] = harms
        part = None if harms is None else self._harms[row : row + 1]
        self._paces[row] = summed(self._busy[row : row + 1], self._there[row : row + 1], part)[0]

    def _widen(self, places: int) -> None:
        before = self._busy, self._there, self._harms, self._who, self._paces
        self._make(places)
        held = before[0].shape[1]
        self._busy[:, :held], self._there[:, :held], self._harms[:, :held, :held] = before[:3]
        self._who[:, :held], self._paces[:] = before[3:]

    def enough(self, rows: Ints, own: Course) -> Flags:
        """Return beside whom of these a job gains enough. Shape as `rows`."""
        shape = (len(rows), 1, STEPS)
        busy, there = (
            np.concatenate([held[rows], np.broadcast_to(new, shape)], axis=1)
            for held, new in ((self._busy, own.busy), (self._there, own.there))
        )
        more = summed(busy, there, self._with(rows, own)) - self._paces[rows]
        found: Flags = more @ own.there / own.there.sum() >= self._least
        return found

    def _with(self, rows: Ints, own: Course) -> Floats | None:
        """Return what those on each GPU and one more suffer beside each other; None: nothing was measured."""
        if not self._measured.beside:
            return None
        told = np.full(len(self._numbers) + 1, np.nan)
        for gpu_type in set(self._types):
            for other, (harm, counts) in self._measured.beside.get((gpu_type, own.signature), {}).items():
                number = self._numbers.get((gpu_type, other))
                if number is not None and counts >= ENOUGH:
                    told[number] = harm
        places = self._busy.shape[1]
        found = np.zeros((len(rows), places + 1, places + 1))
        found[:, :places, :places] = self._harms[rows]
        found[:, places, :places] = found[:, :places, places] = told[self._who[rows]]
        return found
