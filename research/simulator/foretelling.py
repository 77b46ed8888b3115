"""Start ranges replayed: a simulated cluster whose forecasts are made and recorded as the service does it.

Every `every_s` the starts of waiting jobs are forecast from the cluster's own snapshot, with what the service would know then:
run times and arrivals of the past, and how earlier ranges turned out. The first range that a job gets in a wait is compared with
the start that followed. After the last forecast the replay goes on until every job with a range has started.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from scheduler.asking.forecast import FAR, forecast
from scheduler.asking.starts.ranges import Accuracy, Foretold, accuracy
from scheduler.asking.starts.runtimes import PastRun, RunTimes
from scheduler.asking.starts.scene import Experience
from scheduler.simulator.observe import state_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scheduler.asking.forecast import Reach
    from scheduler.asking.starts.ranges import StartRange
    from scheduler.model import Clock
    from scheduler.simulator.engine import Engine
    from scheduler.simulator.load import Load

    Feed = Callable[[Engine, float], None]

RUNS_READ, ARRIVALS_READ, ARRIVALS_S, ARRIVALS_LEAST_S = 2000, 300, 24 * 3600.0, 1800.0
"""As in service: completed jobs behind run times, arrivals behind those to come, of so long, at least so long."""
NO_LIMITS: Mapping[int, float] = MappingProxyType({})
BINS_S = (60.0, 300.0, 1200.0, 3600.0, 4 * 3600.0)
"""Borders between horizons: how far ahead the middle of the range lay."""


@dataclass(frozen=True, slots=True)
class Given:
    """A range as first given in a wait, and the start that followed (None: the replay ended before)."""

    job: int
    made_s: float
    range: StartRange
    started_s: float | None


class Foretelling:
    """An engine with its forecasts. `feed` is called every `step_s` of virtual time and may submit jobs.

    `limits_s`: the time limits that jobs were submitted with; it may grow as they come. The replay itself ends nobody by them.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        every_s: float,
        step_s: float,
        clock: Clock,
        feed: Feed | None = None,
        reach: Reach = FAR,
        learns: bool = True,
        limits_s: Mapping[int, float] = NO_LIMITS,
    ) -> None:
        self.engine, self._feed, self._reach, self._learns = engine, feed, reach, learns
        self._limits_s = limits_s
        self._every_s, self._step_s, self._clock = every_s, step_s, clock
        self._open: dict[tuple[int, int], tuple[float, StartRange]] = {}  # (job, starts before) -> when, what
        self.given: list[Given] = []
        self.forecasts, self.cpu_s = 0, 0.0

    def run(self, until_s: float, *, most_s: float) -> None:
        """Forecasts up to `until_s`, and on until all given ranges are settled, but not beyond `most_s`."""
        now_s, next_s = 0.0, self._every_s * 0.4  # between two ticks of whatever is periodic
        while now_s < until_s or (self._open and now_s < most_s):
            if self._feed is not None and now_s < until_s:
                self._feed(self.engine, now_s)
            now_s += self._step_s
            self.engine.run(now_s)
            self._settle()
            if next_s <= now_s < until_s:
                self._forecast(now_s)
                next_s += self._every_s
        self.given += [Given(job, made_s, given, None) for (job, _), (made_s, given) in self._open.items()]
        self._open.clear()

    def _settle(self) -> None:
        for key in [key for key in self._open if self.engine.simulated.loads[key[0]].starts > key[1]]:
            made_s, given = self._open.pop(key)
            load = self.engine.simulated.loads[key[0]]
            self.given.append(Given(key[0], made_s, given, _start_s(load, key[1])))

    def _forecast(self, now_s: float) -> None:
        engine, simulated = self.engine, self.engine.simulated
        state = state_of(simulated, engine.arrays, now_s, engine.replanned_s)
        if not state.jobs:
            return
        began_s = self._clock()
        rng = np.random.default_rng([engine.seed, int(now_s)])
        experience = self._experience(now_s) if self._learns else Experience()
        found = forecast(state, now_s, engine.parameters, rng, lambda: 0.0, reach=self._reach, experience=experience)
        self.cpu_s += self._clock() - began_s
        self.forecasts += 1
        for job, each in found.items():
            if each.earliest_s is not None:
                self._open.setdefault((job, simulated.loads[job].starts), (now_s, each))

    def _experience(self, now_s: float) -> Experience:
        loads = self.engine.simulated.loads.values()
        ended = sorted((load for load in loads if load.state == "COMPLETED"), key=lambda load: load.ended_s or 0.0)
        past = [_past(load, 0.0) for load in ended[-RUNS_READ:]]
        past += [
            _past(load, now_s - load.attempt.started_s)
            for load in self.engine.simulated.running.values()
            if load.attempt is not None
        ]
        came = [load.traced.job for load in loads if now_s - ARRIVALS_S < load.traced.job.submitted_s <= now_s]
        came = sorted(came, key=lambda job: job.submitted_s)[-ARRIVALS_READ:]
        since_s = max(0.0, now_s - ARRIVALS_S) if len(came) < ARRIVALS_READ else came[0].submitted_s
        if len(came) < ARRIVALS_READ:
            since_s = min(since_s, now_s - ARRIVALS_LEAST_S)
        return Experience(RunTimes(past), came, since_s, self._record(now_s), self._ran_before(), self._limits_s)

    def _ran_before(self) -> dict[int, float]:
        simulated = self.engine.simulated
        going_on = (simulated.loads[number] for number in (*simulated.waiting, *simulated.running))
        return {
            load.id: load.ran_s
            for load in going_on
            if load.ran_s > 0 and load.traced.job.movable and not load.traced.reports
        }

    def _record(self, now_s: float) -> list[Foretold]:
        rows = [
            (each.made_s, Foretold(each.made_s, each.range.drawn, each.started_s - each.made_s, started=True))
            for each in self.given
            if each.started_s is not None and each.range.drawn is not None
        ]
        rows += [
            (made_s, Foretold(made_s, given.drawn, now_s - made_s, started=False))
            for made_s, given in self._open.values()
            if given.drawn is not None
        ]
        return [each for _, each in sorted(rows, key=lambda row: row[0])]

    def scores(self) -> dict[str, Accuracy]:
        """By how far ahead: `all`, and a name for each part of `BINS_S`. Ranges without a start are as if it came at the
        replay's end.
        """
        by_bin: dict[str, list[tuple[StartRange, float, float]]] = defaultdict(list)
        for each in self.given:
            started_s = self.engine.now_s if each.started_s is None else each.started_s
            row = (each.range, each.made_s, started_s)
            by_bin["all"].append(row)
            by_bin[_bin(each)].append(row)
        names = ["all", *(_name(place) for place in range(len(BINS_S) + 1))]
        return {name: accuracy(by_bin[name]) for name in names if by_bin[name]}


def _past(load: Load, here_s: float) -> PastRun:
    job = load.traced.job
    ran_s = load.ran_s + here_s
    gpu_s = load.gpu_s + (load.attempt.gpus * here_s if load.attempt is not None else 0.0)
    mean = sum(job.requirement) / len(job.requirement)
    size = mean * ran_s / gpu_s if gpu_s > 0 else 1.0
    owner = job.tenant if job.owner is None else job.owner
    return PastRun(owner, ran_s, load.age_s or 0.0, ended=load.attempt is None, size=size, sizes=job.requirement)


def _start_s(load: Load, before: int) -> float:
    """When the attempt after so many began. (Attempts between two looks leave spans.)"""
    if load.attempt is not None and load.starts == before + 1:
        return load.attempt.started_s
    later = load.starts - before - (load.attempt is not None)
    return load.spans[-later].began_s if 0 < later <= len(load.spans) else load.traced.job.submitted_s


def _bin(given: Given) -> str:
    middle_s = given.range.median_s
    ahead_s = float("inf") if middle_s is None else middle_s - given.made_s
    return _name(int(np.searchsorted(BINS_S, ahead_s)))


def _name(place: int) -> str:
    low = _words(BINS_S[place - 1]) if place else "0"
    return f"{low} - {_words(BINS_S[place])}" if place < len(BINS_S) else f"> {low}"


def _words(seconds: float) -> str:
    return f"{seconds / 3600:g} h" if seconds >= 3600 else f"{seconds / 60:g} min"
