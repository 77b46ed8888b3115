"""Promises keep the resources that stopping attempts will free for the job that they stop for (algorithms.md section 7, step 7).

A planning settles the promises before all other steps, the oldest first. A job with a promise starts exactly on its shares once
all of them are idle. Until then their idle part is kept from all other jobs, and the job is placed nowhere else.
A promise lapses when a node of it is gone, takes no jobs or closes too soon for the job; when the resources that are idle or
will be free there are not enough any more; when the job may not start (held, over quota, its sizes changed); or when it is
older than `BOUND_RESTARTS` restarts, because a stop that takes longer must not leave GPUs idle for ever.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scheduler.errors import InvalidJob
from scheduler.model import Chosen, Configuration, Job, Promise, Running, Share
from scheduler.placement.feasibility import open_long_enough

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from collections.abc import Set as AbstractSet

    from scheduler.estimator.estimator import Estimator
    from scheduler.placement.ledger import Ledger

BOUND_RESTARTS = 10
"""A promise is kept for this many times the operator's restart cost, `restart_cost_s`: ten minutes by default."""


@dataclass(slots=True)
class Settled:
    """Jobs that start on their promise, jobs that still wait for it, and jobs that lost it."""

    started: dict[int, Chosen] = field(default_factory=dict)
    waiting: dict[int, Promise] = field(default_factory=dict)
    lapsed: list[int] = field(default_factory=list)

    @property
    def kept(self) -> AbstractSet[int]:
        """The jobs whose promise is kept."""
        return self.started.keys() | self.waiting.keys()


@dataclass(frozen=True, slots=True)
class _Holder:
    job: Job
    promise: Promise
    live: Running | None  # its own attempt, while that is stopping


def settle(
    waiting: Iterable[Job],
    running: Sequence[Running],
    ledger: Ledger,
    estimator: Estimator,
    *,
    now_s: float,
    restart_cost_s: float,
) -> Settled:
    """Take what starts from `ledger`, and withhold what is promised still. `waiting`: the jobs that may start now."""
    settled = Settled()
    own = [_Holder(job, job.promise, None) for job in waiting if job.promise is not None]
    own += [
        _Holder(live.description, live.description.promise, live)
        for live in running
        if live.description is not None and live.description.promise is not None
    ]
    if not own:
        return settled
    coming = Coming(live for live in running if live.stopping)
    for holder in sorted(own, key=lambda each: (each.promise.given_s, each.job.id)):
        job, promise, live = holder.job, holder.promise, holder.live
        too_old = now_s - promise.given_s > BOUND_RESTARTS * restart_cost_s
        may_start = promise.gpus in job.requirement and (live is None or live.stopping)
        may_start = may_start and _stays_open(job, promise, ledger)
        if too_old or not may_start or not can_keep(promise.shares, job.tenant, ledger, coming):
            settled.lapsed.append(job.id)
        elif (chosen := _start(holder, ledger, estimator)) is not None:
            settled.started[job.id] = chosen
        else:
            keep(promise.shares, job.tenant, ledger, coming)
            settled.waiting[job.id] = promise
    return settled


def _stays_open(job: Job, promise: Promise, ledger: Ledger) -> bool:
    """Whether the promised nodes, as far as they are there, close late enough for the job."""
    there = (ledger.free[share.node].node for share in promise.shares if share.node in ledger.free)
    return all(open_long_enough(job, node) for node in there)


class Coming:
    """The GPUs, cores and memory of nodes, and the room in quotas, that stopping attempts will free. Promises take from it."""

    def __init__(self, stopping: Iterable[Running]) -> None:
        self._free: dict[tuple[str, int], list[int]] = {}
        for live in stopping:
            self._add(("tenant", live.tenant), math.floor(live.gpu_units), live.cores)
            for piece in live.pieces:
                self._add(("node", piece.node), len(piece.gpus), len(piece.cores), piece.memory_mib)

    def _add(self, where: tuple[str, int], *amounts: int) -> None:
        held = self._free.get(where, [0] * len(amounts))
        self._free[where] = [have + more for have, more in zip(held, amounts, strict=True)]

    def _take(self, where: tuple[str, int], *wanted: int) -> list[int]:
        free = self._free.get(where, [0] * len(wanted))
        self._free[where] = [max(0, have - need) for need, have in zip(wanted, free, strict=True)]
        return [max(0, need - have) for need, have in zip(wanted, free, strict=True)]

    def take(self, share: Share) -> Share:
        """Take what there is for the share. Returns the rest of it, which idle resources have to provide."""
        return Share(share.node, *self._take(("node", share.node), share.gpus, share.cores, share.memory_mib))

    def take_quota(self, tenant: int, shares: Iterable[Share]) -> tuple[int, int]:
        """Take the same of the tenant's quotas. Returns the GPUs and cores for which they must have room."""
        every = list(shares)
        gpus, cores = sum(share.gpus for share in every), sum(share.cores for share in every)
        left = self._take(("tenant", tenant), gpus, cores)
        return left[0], left[1]

    def copy(self) -> Coming:
        twin = Coming(())
        twin._free = dict(self._free)
        return twin


def keep(shares: Sequence[Share], tenant: int, ledger: Ledger, coming: Coming) -> None:
    """Withhold from the ledger the part of the shares and of the tenant's quotas that stopping attempts will not free."""
    ledger.withhold([coming.take(share) for share in shares])
    ledger.set_aside_quota(tenant, *coming.take_quota(tenant, shares))


def can_keep(shares: Sequence[Share], tenant: int, ledger: Ledger, coming: Coming) -> bool:
    """Whether idle and coming resources are enough for the shares."""
    trial = coming.copy()
    rest = [trial.take(share) for share in shares]
    if ledger.quota_shortfall(tenant, *trial.take_quota(tenant, shares)) is not None:
        return False
    return all(
        (free := ledger.free.get(share.node)) is not None
        and share.gpus <= len(free.gpus)
        and share.cores <= len(free.cores)
        and share.memory_mib <= free.memory_mib
        for share in rest
    )


def _start(holder: _Holder, ledger: Ledger, estimator: Estimator) -> Chosen | None:
    """The job on its shares, taken from the ledger, when all of them are idle."""
    job, shares = holder.job, holder.promise.shares
    if holder.live is not None or ledger.shortfall(Configuration(job.id, shares, 1.0, ""), job.tenant) is not None:
        return None
    nodes = [ledger.free[share.node].node for share in shares]
    try:
        speed = estimator.throughput(job, nodes, holder.promise.gpus) if not job.is_cpu else None
    except InvalidJob:
        speed = None  # only pages show the speed: the job starts, because its size is decided
    wanted = Configuration(job.id, shares, speed.value if speed else 1.0, speed.source if speed else "promise")
    return Chosen(wanted, ledger.take(wanted, job.tenant), 1.0, 1.0, 1)
