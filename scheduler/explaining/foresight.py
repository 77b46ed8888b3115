"""Why a job cannot take part even on idle nodes: asked before the queue is drawn up (algorithms.md section 7)."""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from typing import TYPE_CHECKING

from scheduler.copies import replace
from scheduler.explaining.figures import Why, needs, over_quota, set_aside, short_of
from scheduler.model import Alike, Job, Reason
from scheduler.placement.feasibility import (
    Level,
    first_failing,
    on_instance,
    possible,
    type_allowed,
    usable,
    whole_offers,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.placement.free_capacity import Offer
    from scheduler.placement.ledger import Ledger


UNASKED = Why(Reason.HELD, {})
"""Stands for a kind of job that nobody has asked about yet."""


class Foresight:
    """Tells which jobs whole nodes could hold: the nodes that are up, and all nodes."""

    def __init__(self, start: Ledger, never: dict[tuple[object, ...], Why | None] | None = None) -> None:
        """`never`: earlier answers for shapes of jobs; valid while no node comes, goes or changes."""
        self._start = start
        self._largest = start.largest
        self._never = {} if never is None else never
        # By the needs beside memory: how much of it fits for sure, and the answer where no node has enough.
        self._holds: dict[tuple[object, ...], int] = {}
        self._too_much: dict[tuple[object, ...], Why] = {}

    @cached_property
    def _up(self) -> list[Offer]:
        return whole_offers(free.node for free in self._start.free.values())

    @cached_property
    def _all(self) -> list[Offer]:
        return whole_offers(self._start.nodes)

    @cached_property
    def _amounts(self) -> list[int]:
        return sorted({offer.memory_mib for offer in self._up})

    def aside(self, jobs: Iterable[Job]) -> dict[int, Why]:
        """The jobs that take no part in this planning: job id -> why."""
        found: dict[int, Why] = {}
        never: dict[Alike, Why | None] = {}
        limited = self._start.limited_tenants()
        for job in jobs:  # there may be 100 000: `why_never` is asked once for each kind
            if not job.eligible or job.tenant in limited:
                why = self.why_aside(job)
            elif (why := never.get(job.alike, UNASKED)) is UNASKED:
                why = never[job.alike] = self.why_never(job)
            if why is not None:
                found[job.id] = why
        return found

    def why_aside(self, job: Job) -> Why | None:
        """Why the job takes no part in this planning; None = it queues."""
        if not job.eligible:
            return Why(job.ineligible_reason or Reason.HELD, dict(job.ineligible_figures))
        if job.promise is None and (short := self._start.over_quota(job)) is not None:
            return over_quota(job, self._start.quotas[job.tenant], short)
        return self.why_never(job)

    def why_never(self, job: Job) -> Why | None:
        """Why even empty nodes would not hold the job; None = they would. One that shares a GPU is asked at its own step."""
        if job.part is not None:
            return None
        if (why := self._why_not(job)) is None or (small := on_instance(job, self._start, ever=True)) is None:
            return why
        return why if self._why_not(small) is not None else None

    def _why_not(self, job: Job) -> Why | None:
        memory_mib, asked = job.memory_mib, (job.requirement[0], job.gpu_types, job.min_cores, job.bound)
        if asked not in self._holds:
            self._holds[asked] = self._held(job)
        if memory_mib <= self._holds[asked]:
            return None  # a queue may have 100 000 amounts of memory
        shape = (*asked, memory_mib)
        if shape not in self._never:
            known = self._too_much.get(asked)
            if known is not None and memory_mib >= known.figures["needed"]:
                figures = {**known.figures, "needs": needs(job), "needed": memory_mib}
                self._never[shape] = Why(known.reason, figures)
            else:
                self._never[shape] = found = self._why_never(job)
                if found is not None and found.reason is Reason.NOT_ENOUGH_MEMORY and "spread" not in found.figures:
                    self._too_much[asked] = found
        return self._never[shape]

    def _held(self, job: Job) -> int:
        """The largest memory of a node with which such a job would fit nodes that are up; less fits as well. -1 = none."""
        amounts = self._amounts

        def fails(memory_mib: int) -> bool:
            asking = replace(job, memory_mib=memory_mib)
            return not possible(asking, self._up, Level.CORES, self._largest)

        return [-1, *amounts][bisect_left(amounts, True, key=fails)]

    def _why_never(self, job: Job) -> Why | None:
        """Why even empty nodes would not hold the job: the nodes that are up, or all nodes."""
        if not any(type_allowed(job, offer.node) for offer in self._all) and not job.is_cpu:
            aside = set_aside(job, self._all, ever=False)
            more = {} if aside is None else {"set_aside": aside}
            types = sorted({offer.node.gpu_type for offer in self._all if offer.node.gpu_type and offer.gpus})
            return Why(Reason.NO_NODE_WITH_TYPE, {"needs": needs(job), "types": types, **more})
        if first_failing(job, self._up, self._largest) is None:
            return None
        level = first_failing(job, self._all, self._largest)
        anywhere = replace(job, checkpoint_domain=None)
        if job.checkpoint_domain is not None and first_failing(anywhere, self._up, self._largest) is None:
            return short_of(
                job, Level.CHECKPOINT, self._up, ever=True
            )  # only nodes that cannot read its checkpoint fit
        if level is None or not self._all:
            away = [
                offer.node for offer in self._all if not offer.node.schedulable and usable(job, offer, Level.CHECKPOINT)
            ]
            unavailable = [{"node": node.name, "why": node.unavailable_because} for node in away]
            return Why(Reason.NODES_UNAVAILABLE, {"needs": needs(job), "unavailable": unavailable})
        return short_of(job, level, self._all, ever=False)
