"""The joint progress of the jobs on one GPU, and which jobs gain by joining them (decision 0209).

A job's *pace* is the work of its own that it gets done in a second, 1 on an idle GPU. It is estimated as every policy estimates
the harm between jobs (`scheduler.sharing.measured`): where it was measured beside each of the others, by their harms added up;
else by the time for which all of them keep the GPU busy. A job that starts adds a pace of its own and takes from those of the
others. The rest of that over its own time there is its *gain*: where it is little, the job is as well off waiting.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from scheduler.sharing.learned.images import STEPS, STRIDE, Frame
from scheduler.sharing.measured import BESIDE, BEYOND, ENOUGH, NOTHING, Measured
from scheduler.sharing.series import Flags, Floats, Ints

GPU = 0
AT = np.arange(STEPS)


class Course(NamedTuple):
    """A job of some signature over the next `STEPS` steps: the part of each that it keeps the GPU busy, and is there."""

    signature: str
    busy: Floats
    there: Floats


def course(signature: str, image: Floats, phases: float) -> Course:
    """Return the course of a job with `phases` before it. `image`: as `images.ahead` returns."""
    there = np.minimum(np.maximum(phases / STRIDE - AT, 0.0), 1.0)
    return Course(signature, image[:, GPU], there)


def summed(busy: Floats, there: Floats, harms: Floats | None = None) -> Floats:
    """Return the paces of the jobs of each set together, by step. Shape (sets, STEPS).

    `busy`, `there`: by set and job, shape (sets, jobs, STEPS), zeros for jobs outside the set. `harms`: each job's measured harm
    beside another, NaN where it was not measured; shape (jobs, jobs), or (sets, jobs, jobs).
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
    """Return the harm of jobs of these signatures beside each other, NaN where that was not measured; None: nothing was."""
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
    """The gain that each job must have (`least`, in parts of a whole pace), by these pairs on GPUs of this type."""

    frame: Frame
    least: float
    measured: Measured = NOTHING
    gpu_type: str = ""

    def enough(self, running: Sequence[Course], slots: Sequence[Course], fit: Flags) -> Flags:
        """Return for each of the actions that `fit` whether each job that starts gains enough beside all the others. Shape
        (actions,).

        A job without neighbours on a GPU gains all there is. No action that fits names an empty slot.
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

    `gpu_types`: by GPU; `signatures`: of the jobs that may be asked for, by number. Many pairs are looked at together, for a
    planning asks for a thousand jobs.
    """

    def __init__(self, gpu_types: Sequence[str], signatures: Sequence[str], least: float, measured: Measured) -> None:
        self._types, self._least, self._measured = gpu_types, least, measured
        self._jobs: dict[str, list[int]] = defaultdict(list)
        for job, name in enumerate(signatures):
            self._jobs[name].append(job)
        self._many = len(signatures)
        self._there: list[list[str]] = [[] for _ in gpu_types]
        self._make(1)

    def _make(self, places: int) -> None:
        many = len(self._types)
        self._courses = np.zeros((2, many, places, STEPS))
        self._harms: Floats = np.full((many, places, places), np.nan)
        self._paces = np.zeros((many, STEPS))

    def join(self, row: int, new: Course) -> None:
        """One is on that GPU from now on. Ask nothing until it is counted (`count`)."""
        there, place = self._there[row], len(self._there[row])
        if place == self._courses.shape[2]:
            before = self._courses, self._harms, self._paces
            self._make(2 * place)
            self._courses[:, :, :place], self._harms[:, :place, :place], self._paces[:] = before
        self._courses[0, row, place], self._courses[1, row, place] = new.busy, new.there
        there.append(new.signature)
        harms = harms_of(there, self._measured, self._types[row])
        if harms is not None:
            self._harms[row, : place + 1, : place + 1] = harms

    def count(self, rows: Ints) -> None:
        """Find out what those on these GPUs get done."""
        harms = self._harms[rows] if self._measured.beside else None
        busy, there = self._courses[:, rows]
        self._paces[rows] = summed(busy, there, harms)

    def enough(self, rows: Ints, jobs: Ints, busy: Floats, there: Floats) -> Flags:
        """Return for each pair of a GPU and a job whether that gains enough there. Shape as `rows`, and `jobs`.

        `busy`, `there`: the course of each pair's job, shape (pairs, STEPS).
        """
        held, own = self._courses[:, rows], np.stack([busy, there])[:, :, None]
        all_busy, all_there = np.concatenate([held, own], axis=2)
        more = summed(all_busy, all_there, self._with(rows, jobs)) - self._paces[rows]
        found: Flags = (more * there).sum(axis=1) / there.sum(axis=1) >= self._least
        return found

    def _with(self, rows: Ints, jobs: Ints) -> Floats | None:
        """Return the harm of the jobs on each GPU and one more beside each other; None: nothing was measured."""
        if not self._measured.beside:
            return None
        looked, at = np.unique(rows, return_inverse=True)
        places = self._courses.shape[2]
        told = np.full((len(looked), places, self._many), np.nan)
        for number, row in enumerate(looked.tolist()):
            for place, signature in enumerate(self._there[row]):
                for other, (harm, counts) in self._measured.beside.get((self._types[row], signature), {}).items():
                    if counts >= ENOUGH and (known := self._jobs.get(other)):
                        told[number, place, known] = harm
        found = np.zeros((len(rows), places + 1, places + 1))
        found[:, :places, :places] = self._harms[rows]
        found[:, places, :places] = found[:, :places, places] = told[at, :, jobs]
        return found
