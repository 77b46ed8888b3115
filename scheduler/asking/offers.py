"""What a waiting job's tenant may press: single changes of what it asks for, each planned with all other jobs.

The changes are those of `scheduler.asking.what_if` that a tenant can make while the job waits. Each is planned once; one that
does not start at once is simulated forward, as is the queue as it stands, with the same seed, so that their ranges compare.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from scheduler.asking.forecast import forecast
from scheduler.asking.what_if import Change, Remedy, what_would_start
from scheduler.copies import replace
from scheduler.planning.plan import plan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.random import Generator

    from scheduler.asking.starts.ranges import StartRange
    from scheduler.asking.starts.scene import Experience
    from scheduler.model import Clock, ClusterState, Job
    from scheduler.parameters import Parameters

MOST = 3
"""Offers shown."""
GAIN_S, GAIN_SHARE = 60.0, 0.05
"""A start that is sooner, or later, by less than this and this part of the wait counts as the same."""
LIMIT_S = 6.0
"""For all plannings and forecasts of one question."""
PLAN_SHARE = 0.4
"""Of the time, for the plannings; the rest is for the forecasts."""
LEAST_FORECAST_S = 0.1


@dataclass(frozen=True, slots=True)
class Offer:
    """One change. `start`: as in forecasts; None with `now`: it starts at once. `later`: job -> seconds that the middle of its
    start moves back; None: there was no time to find out.
    """

    change: Change
    value: Any
    now: bool
    start: StartRange | None
    gains: bool
    remedy: Remedy
    later: Mapping[int, float] | None = None


@dataclass(frozen=True, slots=True)
class Offers:
    """`now`: the job starts as it stands. `start`: its range as it stands, as these offers are compared with."""

    now: bool
    start: StartRange | None
    offers: tuple[Offer, ...] = ()
    tried: int = 0


@dataclass(frozen=True, slots=True)
class _Asking:
    """What one question is answered with."""

    state: ClusterState
    now_s: float
    parameters: Parameters
    clock: Clock
    experience: Experience
    seed: int
    deadline_s: float

    def ranges(self, state: ClusterState, left: int) -> Mapping[int, StartRange] | None:
        """The queue of `state` simulated forward, in one of `left` equal parts of the time; None without time."""
        share_s = (self.deadline_s - self.clock()) / max(1, left)
        if share_s < LEAST_FORECAST_S:
            return None
        rng = np.random.default_rng(self.seed)
        return forecast(
            state, self.now_s, self.parameters, rng, self.clock, limit_s=share_s, experience=self.experience
        )


CHANGED: Mapping[Change, Callable[[Job, Any], Job]] = {
    Change.SIZE: lambda job, size: replace(job, requirement=tuple(sorted({size, *job.requirement}))),
    Change.CORES: lambda job, cores: replace(job, cores=cores),
    Change.CORES_PER_GPU: lambda job, cores: replace(job, cores=cores),
    Change.MEMORY: lambda job, memory_mib: replace(job, memory_mib=memory_mib),
    Change.GPU_TYPE: lambda job, types: replace(job, gpu_types=job.gpu_types | set(types)),
}
"""What a tenant may change of a waiting job without submitting it anew, and how."""


def with_change(state: ClusterState, job_id: int, change: Change, value: Any) -> ClusterState:
    """The snapshot in which the job asks for that."""
    make = CHANGED[change]
    return replace(state, jobs=[make(job, value) if job.id == job_id else job for job in state.jobs])


def offers_for(
    state: ClusterState,
    job_id: int,
    parameters: Parameters,
    rng: Generator,
    clock: Clock,
    *,
    now_s: float,
    experience: Experience,
    limit_s: float = LIMIT_S,
) -> Offers:
    """What would start the waiting job sooner, best start first, `MOST` at most; those that gain nothing come last.

    KeyError: no such waiting job; InvalidJob: it cannot be planned at all.
    """
    seed, until_s = int(rng.integers(2**31 - 1)), clock() + limit_s
    remedies = what_would_start(state, job_id, parameters, rng, clock, now_s=now_s, limit_s=limit_s * PLAN_SHARE)
    if remedies and remedies[0].change is Change.NONE:
        return Offers(now=True, start=None)
    asking = _Asking(state, now_s, parameters, clock, experience, seed, until_s)
    able = [each for each in remedies if each.change in CHANGED and each.starts is not None]
    base = asking.ranges(state, len(able) + 1) or {}
    found = [_offer(asking, job_id, each, base, len(able) - done) for done, each in enumerate(able)]
    best = sorted((each for each in found if each is not None), key=_order)
    return Offers(now=False, start=base.get(job_id), offers=tuple(best[:MOST]), tried=len(able))


def holds(
    state: ClusterState,
    job_id: int,
    pressed: tuple[Change, Any],
    parameters: Parameters,
    rng: Generator,
    clock: Clock,
    *,
    now_s: float,
    experience: Experience,
) -> tuple[bool, bool]:
    """Whether with this change the waiting job starts at once, and whether it starts sooner than without.

    KeyError: no such waiting job.
    """
    if not any(each.id == job_id for each in state.jobs):
        raise KeyError(f"no waiting job {job_id} in the snapshot")
    seed, until_s = int(rng.integers(2**31 - 1)), clock() + LIMIT_S
    asking = _Asking(state, now_s, parameters, clock, experience, seed, until_s)
    changed = with_change(state, job_id, *pressed)
    knobs = replace(parameters, time_limit_s=min(parameters.limit_s, LIMIT_S * PLAN_SHARE))
    made = plan(changed, now_s, knobs, np.random.default_rng(seed), clock)
    if any(each.job == job_id and each.placement is not None for each in made.decisions):
        return True, True
    before, after = asking.ranges(state, 2), asking.ranges(changed, 1)
    own = None if after is None else after.get(job_id)
    if own is None or before is None:
        return False, False
    return False, gains_time(own, before.get(job_id), now_s)


def _offer(asking: _Asking, job_id: int, remedy: Remedy, base: Mapping[int, StartRange], left: int) -> Offer | None:
    """None: it does not start at once, and there is no time to simulate when."""
    found = asking.ranges(with_change(asking.state, job_id, remedy.change, remedy.value), left)
    if remedy.starts:
        later = None if found is None else _later(found, base, job_id, asking.now_s)
        return Offer(remedy.change, remedy.value, now=True, start=None, gains=True, remedy=remedy, later=later)
    own = (found or {}).get(job_id)
    if own is None or found is None:
        return None
    gains = gains_time(own, base.get(job_id), asking.now_s)
    later = _later(found, base, job_id, asking.now_s) if gains else {}
    return Offer(remedy.change, remedy.value, now=False, start=own, gains=gains, remedy=remedy, later=later)


def gains_time(own: StartRange, before: StartRange | None, now_s: float) -> bool:
    """Whether the middle of the range is sooner than it was by what counts."""
    if own.median_s is None:
        return False
    if before is None or before.median_s is None:
        return True
    return before.median_s - own.median_s > max(GAIN_S, GAIN_SHARE * (before.median_s - now_s))


def _later(found: Mapping[int, StartRange], base: Mapping[int, StartRange], own: int, now_s: float) -> dict[int, float]:
    """Who else would start later, and by how much."""
    later = {}
    for job, before in base.items():
        after = found.get(job)
        if job == own or after is None or before.median_s is None or after.median_s is None:
            continue
        if gains_time(before, after, now_s):
            later[job] = after.median_s - before.median_s
    return later


def _order(offer: Offer) -> tuple[int, float, float]:
    middle_s = offer.start.median_s if offer.start is not None and offer.start.median_s is not None else 0.0
    return (0 if offer.now else 1 if offer.gains else 2, middle_s, -(offer.remedy.of_asked or 0.0))
