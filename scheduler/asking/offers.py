"""What a waiting job's tenant may press: single changes of what it asks for, each planned with all other jobs.

The changes are those of `scheduler.asking.what_if` that a tenant can make while the job waits. Each is planned once; one that
does not start at once is simulated forward, as is the queue as it stands, with the same seed, so that their ranges compare.
What gains is decided by when the job would be over (`scheduler.asking.over`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from scheduler.asking.forecast import forecast
from scheduler.asking.over import GAIN_S, GAIN_SHARE, Pace, pace_of, pace_placed, standing_of
from scheduler.asking.starts.ranges import LONGEST_S
from scheduler.asking.what_if import Change, Remedy, what_would_start
from scheduler.copies import replace
from scheduler.planning.plan import plan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.random import Generator

    from scheduler.asking.over import Standing, Verdict
    from scheduler.asking.starts.ranges import StartRange
    from scheduler.asking.starts.scene import Experience
    from scheduler.model import Clock, ClusterState, Job
    from scheduler.parameters import Parameters

MOST = 3
"""Offers shown."""
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
    verdict: Verdict
    remedy: Remedy
    later: Mapping[int, float] | None = None

    @property
    def gains(self) -> bool:
        """Whether the job would be over sooner than as it stands."""
        return self.verdict.gains


@dataclass(frozen=True, slots=True)
class Offers:
    """`now`: the job starts as it stands. `start`: its range as it stands, as these offers are compared with.

    `over_s`: when it is expected to be over as it stands; None: not known.
    """

    now: bool
    start: StartRange | None
    offers: tuple[Offer, ...] = ()
    over_s: float | None = None
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

    def standing(self, job_id: int, found: Mapping[int, StartRange]) -> Standing:
        job, own = _job(self.state, job_id), found.get(job_id)
        return standing_of(self.state, job, self.parameters, now_s=self.now_s, found=own, experience=self.experience)


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
    """What would have the waiting job over sooner, best end first, `MOST` at most; those that gain nothing come last.

    KeyError: no such waiting job; InvalidJob: it cannot be planned at all.
    """
    seed, until_s = int(rng.integers(2**31 - 1)), clock() + limit_s
    remedies = what_would_start(state, job_id, parameters, rng, clock, now_s=now_s, limit_s=limit_s * PLAN_SHARE)
    if remedies and remedies[0].change is Change.NONE:
        return Offers(now=True, start=None)
    asking = _Asking(state, now_s, parameters, clock, experience, seed, until_s)
    able = [each for each in remedies if each.change in CHANGED and each.starts is not None]
    base = asking.ranges(state, len(able) + 1) or {}
    job, standing = _job(state, job_id), asking.standing(job_id, base)
    found = [_offer(asking, (job, standing), each, base, len(able) - done) for done, each in enumerate(able)]
    best = sorted((each for each in found if each is not None), key=_order)
    return Offers(False, base.get(job_id), tuple(best[:MOST]), standing.over_s, len(able))


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
    """Whether with this change the waiting job starts at once, and whether it is over sooner than without.

    KeyError: no such waiting job.
    """
    job = _job(state, job_id)
    seed, until_s = int(rng.integers(2**31 - 1)), clock() + LIMIT_S
    asking = _Asking(state, now_s, parameters, clock, experience, seed, until_s)
    changed = with_change(state, job_id, *pressed)
    knobs = replace(parameters, time_limit_s=min(parameters.limit_s, LIMIT_S * PLAN_SHARE))
    made = plan(changed, now_s, knobs, np.random.default_rng(seed), clock)
    placed = next(each for each in made.decisions if each.job == job_id)
    at_once = placed.placement is not None
    own = None if at_once else (asking.ranges(changed, 2) or {}).get(job_id)
    if not at_once and (own is None or own.median_s is None):
        return False, False
    standing = asking.standing(job_id, asking.ranges(state, 1) or {})
    starts_s, pace = (now_s, pace_placed(placed)) if own is None else (own.median_s or now_s, pace_of(own.on, job))
    return at_once, standing.judged(starts_s, pace).gains


def _job(state: ClusterState, job_id: int) -> Job:
    found = next((each for each in state.jobs if each.id == job_id), None)
    if found is None:
        raise KeyError(f"no waiting job {job_id} in the snapshot")
    return found


def _offer(
    asking: _Asking, own_job: tuple[Job, Standing], remedy: Remedy, base: Mapping[int, StartRange], left: int
) -> Offer | None:
    """None: it does not start at once, and there is no time to simulate when."""
    job, standing = own_job
    found = asking.ranges(with_change(asking.state, job.id, remedy.change, remedy.value), left)
    own = (found or {}).get(job.id)
    if remedy.starts:
        verdict = standing.judged(asking.now_s, Pace(remedy.throughput, _cores(remedy)))
    elif own is None:
        return None
    else:
        starts_s = asking.now_s + LONGEST_S if own.median_s is None else own.median_s
        verdict = standing.judged(starts_s, pace_of(own.on, job))
    later = {} if not verdict.gains else None if found is None else _later(found, base, job.id, asking.now_s)
    start = None if remedy.starts else own
    return Offer(remedy.change, remedy.value, bool(remedy.starts), start, verdict, remedy, later)


def _cores(remedy: Remedy) -> float:
    return (remedy.cores or 0) / (remedy.gpus or 1)


def _later(found: Mapping[int, StartRange], base: Mapping[int, StartRange], own: int, now_s: float) -> dict[int, float]:
    """Who else would start later, and by how much."""
    later = {}
    for job, before in base.items():
        after = found.get(job)
        if job == own or after is None or before.median_s is None or after.median_s is None:
            continue
        if after.median_s - before.median_s > max(GAIN_S, GAIN_SHARE * (after.median_s - now_s)):
            later[job] = after.median_s - before.median_s
    return later


def _order(offer: Offer) -> tuple[bool, float, float]:
    return (not offer.gains, offer.verdict.ends_s, -(offer.remedy.of_asked or 0.0))
