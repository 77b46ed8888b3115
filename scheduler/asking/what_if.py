"""What would make a waiting job start (algorithms.md section 7): re-solves with one change each.

Every answer is a whole planning by the same code, on the same snapshot, with one thing about the job changed: a smaller
size, fewer cores, any GPU type, less memory, its checkpoint given up, the hold or the dependency gone; or with time
moved to when what runs is expected to have made room. Only changes that could matter are tried, `MOST_TRIES` at most,
and what the time did not suffice for is said. Larger sizes are not tried: they never fit where smaller ones do not.
Of those that would start it, one that gains nothing (`scheduler.asking.over`) says so, and comes behind the others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from scheduler.asking import ahead
from scheduler.asking.over import pace_placed, standing_of
from scheduler.asking.remedies import remedy_sentence
from scheduler.copies import replace
from scheduler.errors import InvalidJob
from scheduler.model import Reason
from scheduler.model.instances import is_instance, only_instances
from scheduler.placement.feasibility import Level, aggregated_gpus, first_failing, idle_offers, usable
from scheduler.placement.ledger import Ledger
from scheduler.planning.plan import plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.random import Generator

    from scheduler.asking.over import NoGain, Pace, Standing, Verdict
    from scheduler.model import Clock, ClusterState, Decision, Job, Plan
    from scheduler.parameters import Parameters
    from scheduler.placement.feasibility import Offer

MOST_TRIES = 8
LEAST_SOLVE_S = 0.05
"""With less time than this left a change is not tried any more."""
ENDS_LOOKED_AT = 200
"""Expected ends of running jobs, soonest first, at which the job is asked whether it would fit."""


class Change(StrEnum):
    """The one thing that is changed. `none`: it would start as it is."""

    NONE = "none"
    RELEASE = "release"
    DEPENDENCY = "dependency"
    SIZE = "size"
    CORES = "cores"
    CORES_PER_GPU = "cores-per-gpu"
    GPU_TYPE = "gpu-type"
    MEMORY = "memory"
    CHECKPOINT = "checkpoint"
    SOFTWARE = "software"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Remedy:
    """One change and what it would do.

    value       what it is changed to: GPUs; cores in all (a CPU job) or a GPU; the GPU types allowed besides; MiB;
                seconds to wait; None for the others
    starts      True: it starts in that planning (`wait`: in the one then); False: it does not, `reason` says why;
                None: there was no time to try
    nodes       {node name: GPUs} where it would start; gpus, cores: in all
    throughput  estimated, of what it would get; `source` as in configurations; None for CPU jobs
    of_asked    that throughput over the best of the job's smallest asked size on empty nodes of its types; None when
                nothing is known to compare with
    no_gain     why the job would not be over sooner, or why nobody can tell; None: it would, or nothing was to be judged
    over_s      when it is expected to be over then; None: not known
    sentence    the same in plain words
    """

    change: Change
    value: Any = None
    starts: bool | None = None
    reason: str | None = None
    nodes: Mapping[str, int] = field(default_factory=dict)
    gpus: int | None = None
    cores: int | None = None
    throughput: float | None = None
    source: str | None = None
    of_asked: float | None = None
    no_gain: NoGain | None = None
    over_s: float | None = None

    @property
    def sentence(self) -> str:
        return remedy_sentence(self)


@dataclass(frozen=True, slots=True)
class _Try:
    change: Change
    value: Any
    state: ClusterState
    now_s: float


def dry_run(
    state: ClusterState, job: Job, parameters: Parameters, rng: Generator, clock: Clock, *, now_s: float
) -> Decision:
    """What the next planning would decide about a job that is not submitted. ValueError when its id is taken."""
    if any(each.id == job.id for each in state.jobs):
        raise ValueError(f"job {job.id} is in the queue already; give the new one an id of its own")
    made = plan(replace(state, jobs=[*state.jobs, job]), now_s, parameters, rng, clock)
    return _decision(made, job.id)


def what_would_start(
    state: ClusterState,
    job_id: int,
    parameters: Parameters,
    rng: Generator,
    clock: Clock,
    *,
    now_s: float,
    limit_s: float = 10.0,
    standing: Callable[[], Standing] | None = None,
) -> tuple[Remedy, ...]:
    """The changes that could make the waiting job start now, those that do and gain first, then by throughput.

    `standing`: the job as it stands, by which changes are judged; None: what the snapshot says of it.
    `limit_s`: for all re-solves together. One seed from `rng` serves them all, so the same arguments give the same
    answer unless time runs out. KeyError: no such waiting job; InvalidJob: it cannot be planned at all.
    """
    job = next((each for each in state.jobs if each.id == job_id), None)
    if job is None:
        raise KeyError(f"no waiting job {job_id} in the snapshot")

    standing = standing or partial(standing_of, state, job, parameters, now_s=now_s, found=None)
    solver = _Solver(state, job, parameters, int(rng.integers(2**31 - 1)), clock, clock() + limit_s, standing)
    base = solver.solve(_Try(Change.NONE, None, state, now_s), MOST_TRIES + 1)
    if base.starts:
        return (base,)
    if solver.invalid is not None:
        raise InvalidJob(job_id, solver.invalid)
    tries = list(_tries(state, job, now_s))[:MOST_TRIES]
    found = [solver.solve(each, len(tries) - done) for done, each in enumerate(tries)]
    order = {True: 0, False: 1, None: 2}
    return tuple(sorted(found, key=lambda e: (order[e.starts], e.no_gain is not None, -(e.throughput or 0.0))))


class _Solver:
    def __init__(
        self,
        state: ClusterState,
        job: Job,
        parameters: Parameters,
        seed: int,
        clock: Clock,
        deadline_s: float,
        standing: Callable[[], Standing],
    ) -> None:
        self._stands = standing
        self._job, self._parameters, self._seed = job, parameters, seed
        self._clock, self._deadline_s = clock, deadline_s
        self._names = {node.id: node.name for node in state.nodes}
        self.invalid: str | None = None

    def solve(self, attempt: _Try, left: int) -> Remedy:
        """One planning, with an equal part of the time that is left for `left` of them."""
        remedy = Remedy(attempt.change, attempt.value)
        share_s = (self._deadline_s - self._clock()) / max(1, left)
        if share_s < LEAST_SOLVE_S:
            return remedy
        knobs = replace(self._parameters, time_limit_s=min(self._parameters.limit_s, share_s))
        made = plan(attempt.state, attempt.now_s, knobs, np.random.default_rng(self._seed), self._clock)
        decision = _decision(made, self._job.id)
        if decision.reason is Reason.INVALID:
            self.invalid = str(decision.figures.get("detail", ""))
        if decision.placement is None:
            return replace(remedy, starts=False, reason=str(decision.reason))
        pace = pace_placed(decision)
        asked = self._standing.pace.throughput if self._standing.pace else None
        verdict = self._judged(attempt, pace)
        return replace(
            remedy,
            starts=True,
            nodes={self._names[piece.node]: len(piece.gpus) for piece in decision.placement.pieces},
            gpus=decision.placement.gpus,
            cores=decision.placement.cores,
            throughput=pace.throughput,
            source=None if pace.throughput is None else str(decision.figures["source"]),
            of_asked=pace.throughput / asked if pace.throughput and asked else None,
            no_gain=verdict.why if verdict else None,
            over_s=verdict.over_s if verdict else None,
        )

    @cached_property
    def _standing(self) -> Standing:
        """Asked for where a planning placed the job: one that is unsound is never placed."""
        return self._stands()

    def _judged(self, attempt: _Try, pace: Pace) -> Verdict | None:
        """Of a change that starts the job now; to wait, and to change nothing, is how it stands."""
        if attempt.change in {Change.NONE, Change.WAIT} or self._job.part is not None:
            return None
        return self._standing.judged(attempt.now_s, pace, anew=attempt.change is Change.CHECKPOINT)


def _decision(made: Plan, job_id: int) -> Decision:
    return next(each for each in made.decisions if each.job == job_id)


def _tries(state: ClusterState, job: Job, now_s: float) -> Iterator[_Try]:
    """The changes that could matter, the cheapest for the tenant first."""

    def changed(change: Change, value: Any, other: Job) -> _Try:
        jobs = [other if each.id == job.id else each for each in state.jobs]
        return _Try(change, value, replace(state, jobs=jobs), now_s)

    if job.ineligible_reason in {Reason.RESTORED, Reason.INVALID}:
        return  # nothing that its tenant could change would be safe, or let it run
    if not job.eligible:
        change = Change.DEPENDENCY if job.ineligible_reason is Reason.DEPENDENCY else Change.RELEASE
        yield changed(change, None, replace(job, eligible=True, ineligible_reason=None, ineligible_figures={}))
        return
    ledger = Ledger(state.nodes, state.tenants, state.running)
    offers = idle_offers(ledger)
    for cores in _cores(job, offers):
        change = Change.CORES if job.is_cpu else Change.CORES_PER_GPU
        yield changed(change, cores, replace(job, cores=cores))
    for memory_mib in _memory(job, offers):
        yield changed(Change.MEMORY, memory_mib, replace(job, memory_mib=memory_mib))
    there = {node.gpu_type for node in state.nodes if node.gpu_type and node.gpus_total}
    others = sorted(name for name in there - job.gpu_types if not is_instance(name))
    if job.gpu_types and others and not only_instances(job.gpu_types):
        yield changed(Change.GPU_TYPE, others, replace(job, gpu_types=frozenset()))
    for size in _sizes(job, offers):
        yield changed(Change.SIZE, size, replace(job, requirement=(size, *job.requirement)))
    yield from (changed(change, None, other) for change, other in _unbound(job))
    if (then_s := _fits_at(state, job, ledger, now_s)) is not None:
        yield _Try(Change.WAIT, then_s - now_s, ahead.at(state, now_s, then_s), then_s)


def _unbound(job: Job) -> Iterator[tuple[Change, Job]]:
    """The job without each thing that binds it to some of the nodes."""
    if job.checkpoint_domain is not None:
        yield Change.CHECKPOINT, replace(job, checkpoint_domain=None)
    if job.software:
        yield Change.SOFTWARE, replace(job, software="")


def _sizes(job: Job, offers: list[Offer]) -> list[int]:
    """At most three sizes below R_1: what one node has idle at most, the half, one GPU; the largest first."""
    block = max((aggregated_gpus(job, offer) for offer in offers if usable(job, offer, Level.TRUST)), default=0)
    return sorted({size for size in (block, job.min_gpus // 2, 1) if 0 < size < job.min_gpus}, reverse=True)


def _cores(job: Job, offers: list[Offer]) -> list[int]:
    """The fewest a GPU; of a CPU job what one node with the memory has idle at most."""
    if not job.is_cpu:
        return [job.least_cores] if job.cores > job.least_cores else []
    idle = [o.cores for o in offers if usable(job, o, Level.TRUST) and o.memory_mib >= job.memory_mib]
    most = max(idle, default=0)
    return [most] if 0 < most < job.cores else []


def _memory(job: Job, offers: list[Offer]) -> list[int]:
    """The most that is idle on a node that has the GPUs (of a CPU job the cores)."""
    bare = replace(job, memory_mib=0)
    enough = [
        offer.memory_mib
        for offer in offers
        if usable(job, offer, Level.TRUST)
        and (offer.cores >= job.cores if job.is_cpu else aggregated_gpus(bare, offer) >= job.min_gpus)
    ]
    most = max(enough, default=0)
    return [most] if 0 < most < job.memory_mib else []


def _fits_at(state: ClusterState, job: Job, ledger: Ledger, now_s: float) -> float | None:
    """When the expected ends of what runs leave room for the smallest size, were it alone; None = not foreseeable."""
    ledger = ledger.copy()
    for time_s, ended in ahead.releases(state, now_s)[:ENDS_LOOKED_AT]:
        for live in ended:
            ledger.release(live.pieces, live.tenant)
        fits = first_failing(job, idle_offers(ledger), ledger.largest) is None
        if fits and ledger.over_quota(job) is None:
            return time_s
    return None
