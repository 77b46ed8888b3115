"""The record of ended jobs: their run times, and the errors of the lengths foretold of them (algorithms.md section 3)."""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from typing import TYPE_CHECKING, NamedTuple

from scheduler.estimator.lengths import OF_LIMITS, Length, guess_of, is_sure, kin_of, like_length, told_length
from scheduler.model import RunHistory, Sample

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.model import Kin

HISTORY_JOBS = 2000
"""Lengths are learned from this number of the latest completed jobs."""
ERRORS = 200
"""Ranges are as wide as the errors of this number of the latest foretold lengths ask."""
RANGES = (0.5, 0.8)


class Ran(NamedTuple):
    """An ended job: its run time and the declared one in seconds, and the fields of its groups."""

    took_s: float
    told_s: float | None
    owner: int
    tenant: int
    category: str | None
    label: str | None
    gpus: int  # the fewest that it accepted
    completed: bool = True  # else it tells only that it ran longer than declared, if it did
    limit_s: float | None = None  # its time limit

    @property
    def kin(self) -> tuple[int, int, str | None, str | None, int]:
        """What `kin_of` asks."""
        return self[2:7]


class Record:
    """The latest ended jobs, learned one by one. `history` is the same object all the time."""

    def __init__(self) -> None:
        self._told, self._like = defaultdict[int, Sample](Sample), defaultdict["Kin", Sample](Sample)
        self._runs, self._errors = deque[Ran](), defaultdict[int | None, deque[float]](deque)
        self._errors_of = defaultdict[int, Sample](Sample)
        self.history = RunHistory(self._told, self._like, Sample(), self._errors_of)

    def learn(self, run: Ran) -> Length:
        """Add the run, and forget the oldest beyond `HISTORY_JOBS`. Returns the length that was foretold of it."""
        length = self.foretell(run)
        if run.completed:
            self._note_error(run)
        self._runs.append(run)
        for each in self._samples(run):
            each[0].add(each[1])
        if len(self._runs) > HISTORY_JOBS:
            for each in self._samples(self._runs.popleft()):
                each[0].remove(each[1])
        return length

    def foretell(self, run: Ran) -> Length:
        told = told_length(run.told_s, self.history.told.get(run.owner)).within(run.limit_s) if run.told_s else None
        if told is not None and is_sure(told.spread):
            return told
        return surest(told, like_length(self.history, run.kin, run.limit_s))

    def _note_error(self, run: Ran) -> None:
        guess = guess_of(self.history, run.kin, run.limit_s)
        if guess is None or run.took_s <= 0:
            return
        error = max(1e-9, abs(math.log(run.took_s / guess.median_s)) / max(1e-9, guess.spread))
        for whose, sample in ((None, self.history.errors), (run.tenant, self._errors_of[run.tenant])):
            self._errors[whose].append(error)
            sample.add(error)
            if len(self._errors[whose]) > ERRORS:
                sample.remove(self._errors[whose].popleft())

    def _samples(self, run: Ran) -> Iterable[tuple[Sample, float]]:
        for kin, _ in kin_of(*run.kin) if run.completed else ():
            yield self._like[kin], run.took_s
        if run.limit_s and run.completed:
            yield self._like[OF_LIMITS, run.owner], run.took_s / run.limit_s
        if run.told_s and (run.completed or run.took_s > run.told_s):
            yield self._told[run.owner], run.took_s / run.told_s


def surest(told: Length | None, like: Length) -> Length:
    """Return the length of a job whose owner declared none, or has a record that speaks against the declared one."""
    return like if told is None or like.spread < told.spread else told


class Coverage(NamedTuple):
    """The parts of these jobs' run times that were within the ranges of 50 and of 80 %."""

    jobs: int
    half: float
    most: float


def coverage_of(runs: Iterable[Ran], *, skip: int = 0) -> dict[str, Coverage]:
    """Return by source how many run times were within the ranges foretold of them. The first `skip` only teach."""
    record, counts, hits = Record(), Counter[str](), Counter[tuple[str, float]]()
    for place, run in enumerate(runs):
        length = record.learn(run)
        if place >= skip and run.completed:
            counts[length.source] += 1
            hits.update((length.source, part) for part in RANGES if _within(length, part, run.took_s))
    return {
        name: Coverage(count, *(hits[name, part] / count for part in RANGES)) for name, count in sorted(counts.items())
    }


def overall(found: Iterable[Coverage]) -> Coverage | None:
    """Return the coverage of all together; None of nothing."""
    every = list(found)
    count = sum(each.jobs for each in every)
    if not count:
        return None
    half, most = (sum(each[place] * each.jobs for each in every) / count for place in (1, 2))
    return Coverage(count, half, most)


def _within(length: Length, part: float, took_s: float) -> bool:
    return length.quantile((1.0 - part) / 2) <= took_s <= length.quantile((1.0 + part) / 2)
