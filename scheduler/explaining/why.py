"""Why a job waits (algorithms.md section 7): its one reason, and the figures behind it.

`Foresight` answers before the queue is made, for jobs that cannot take part even on idle nodes. `Hindsight` answers after the
plan, for the jobs of the queue. The *binding* constraint of a rejected candidate is the first resource that fails when the
candidate is added to the final plan.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from scheduler.explaining.figures import NODES_SHOWN, Why, needs, offered, over_quota, short_of
from scheduler.explaining.places import Places
from scheduler.explaining.rivals import Takers, passed_by, told_apart
from scheduler.fairness.keeping import Keeper, in_the_way, kept_figures
from scheduler.model import Alike, Job, Queue, Ranked, Reason
from scheduler.placement.feasibility import Level, first_failing
from scheduler.placement.free_capacity import Shortfall

if TYPE_CHECKING:
    from scheduler.explaining.detail import Details
    from scheduler.placement.ledger import Ledger
    from scheduler.placement.outcome import Outcome

STOPPED_SHORT = frozenset({"time-limit", "failed"})


class Hindsight:
    """Answers for one plan, by the idle resources before and after it, and its placements."""

    def __init__(
        self,
        start: Ledger,
        final: Ledger,
        outcome: Outcome,
        queue: Sequence[Ranked],
        details: Details,
        limit_s: float,
        *,
        keepers: Sequence[Keeper] = (),
        late: Callable[[], bool] = lambda: False,
    ) -> None:
        """`keepers`: the jobs for which something is promised. `late`: whether it is too late for reasons that need a search."""
        self._details, self._late, self._is_late = details, late, False
        self._start, self._final, self._limit_s = start, final, limit_s
        self._outcome, self._queue = outcome, queue
        self._draft, self._standings, self._obstacles = outcome.draft, outcome.standings, outcome.obstacles
        self._idle, self._left = start.idle_offers(), final.idle_offers()
        self._promised = outcome.promised.keys() | {given.job for given in outcome.draft.promises}
        self._keepers = keepers if final.withholds else ()
        self._with_kept = final.with_kept().idle_offers() if self._keepers else []
        self._takers = Takers(queue, outcome.draft.chosen, self._idle)
        self._told = self._promised | {each.job for each in outcome.reservations}
        self._alone = self._told.union(outcome.standings.window, outcome.standings.sated, self._obstacles.jobs())
        self._known = _Known()

    def why_waiting(self, ranked: Ranked) -> Why:
        """Why a queued job was not placed, and the resources that are kept for it or come free for it."""
        job = ranked.job
        if self._obstacles.unswept is not None and job.id not in self._alone and not job.is_cpu:
            return self._why_of_kind(ranked)
        why = self._why_alone(ranked)
        if job.id not in self._told:
            return why
        own = [each for each in self._outcome.reservations if each.job == ranked.job.id]
        for each in own:
            why.figures["kept_for_it"] = {"nodes": self._names(each.nodes), "until_s": each.until_s}
        for given in self._draft.promises:
            if given.job == ranked.job.id:
                stopped = sum(order.for_job == given.job for order in self._draft.stops)
                nodes = self._names(share.node for share in given.shares)
                why.figures["promised"] = {"nodes": nodes, "cause": given.cause, "stopping": stopped}
        if (kept := self._outcome.promised.get(ranked.job.id)) is not None:
            why.figures["promised"] = {"nodes": self._names(share.node for share in kept.shares), "cause": kept.cause}
        return why

    @cached_property
    def _places(self) -> Places:
        return Places(self._queue, self._draft, self._standings, self._final)

    def _names(self, nodes: Iterable[int]) -> list[str]:
        return [self._start.free[number].node.name for number in sorted(nodes) if number in self._start.free]

    def _why_of_kind(self, ranked: Ranked) -> Why:
        """The reason, one object for all jobs of a tenant that ask for the same and have as many rivals ahead of them."""
        kind = ranked.job.alike
        group = self._known.groups.get(kind)
        if group is None:
            group = self._known.groups[kind] = (self._takers.rivals_of(ranked.job).ranks, {})
        ahead = bisect_left(group[0], ranked.rank)
        why = group[1].get(ahead)
        if why is None:
            why = group[1][ahead] = self._why_alone(ranked)
        return why

    def in_common(self, queue: Queue, others: Collection[int]) -> tuple[np.ndarray, list[Why]]:
        """The reasons of all jobs that are equal to others of their kind, as `why_waiting` gives them, all at once.

        By place in the queue: the number of its reason among those returned; -1 = ask about it by itself. `others` wait
        for none of these. The queue is the whole one, so that ranks are places.
        """
        found = np.full(len(queue), -1)
        if self._obstacles.unswept is None:
            return found, []
        of_cpu = [kind for kind, head in queue.heads.items() if head.job.is_cpu]
        aside = queue.among(others) | np.isin(queue.kinds, of_cpu)
        at = np.flatnonzero(~(queue.among(self._alone) | aside))
        ahead = passed_by(queue, at, lambda head: self._takers.rivals_of(head.job).ranks)
        found[at], firsts = told_apart(queue.kinds[at], ahead)
        whys = [self._why_of_kind(queue[place]) for place in at[firsts].tolist()]
        # On a starved core the sweep comes to few jobs of a long queue; all others get one answer.
        late = queue.among(self._obstacles.unswept) & ~(queue.among(self._told | self._standings.window) | aside)
        found[late] = len(whys)
        return found, [*whys, self._out_of_time(Reason.SOLVER_LIMIT)] if late.any() else whys

    def _why_alone(self, ranked: Ranked) -> Why:
        job, obstacles = ranked.job, self._obstacles
        if job.id in (obstacles.out_of_time if job.is_cpu or obstacles.unswept is None else obstacles.unswept):
            return self._out_of_time(Reason.NOT_PLANNED_YET if job.is_cpu else Reason.SOLVER_LIMIT)
        if (short := self._final.over_quota(job)) is not None:
            return over_quota(job, self._start.quotas[job.tenant], short)
        if job.id in self._standings.sated:
            quota, left = self._start.quotas[job.tenant], self._final.allowances[job.tenant].gpus or 0
            why = over_quota(job, quota, Shortfall("gpu_quota", None, job.min_gpus, left))
            return Why(why.reason, {**why.figures, "asked_ahead": quota.gpu_quota})
        if job.id not in self._standings.window and (obstacles.unswept is None or job.is_cpu):
            return self._outside(ranked)
        if not self._is_late:
            self._is_late = self._late()
        if self._is_late:
            return self._out_of_time(Reason.SOLVER_LIMIT)
        level = self._failing(job)
        if level is not None or job.id in self._promised:
            level = Level.GPUS if level is None else level
            shape = (*_shape(job), job.bound, job.tenant, level)
            if shape not in self._known.short:
                self._known.short[shape] = short_of(job, level, self._idle, ever=True)
            return Why(self._known.short[shape].reason, dict(self._known.short[shape].figures))
        return self._why_beaten(ranked)

    def _out_of_time(self, reason: Reason) -> Why:
        return Why(reason, {"limit_s": self._limit_s})

    def _why_beaten(self, ranked: Ranked) -> Why:
        """For a job that fitted idle resources: these are kept for others, or went to others."""
        job, obstacles = ranked.job, self._obstacles
        if (kept := self._kept_by_promise(job)) is not None:
            return Why(Reason.RESERVED, {"needs": needs(job), **kept})
        if job.id in obstacles.kept:
            return Why(Reason.RESERVED, {"needs": needs(job), **obstacles.kept[job.id]})
        return self._lost(ranked)

    def _kept_by_promise(self, job: Job) -> dict[str, Any] | None:
        """The keepers of promised resources that the job would fit; None if it does not wait because of that."""
        if not self._keepers:
            return None
        shape = (*_shape(job), job.bound, job.tenant)
        if shape not in self._known.ends:
            self._known.ends[shape] = self._kept_figures(job)
        return self._known.ends[shape]

    def _kept_figures(self, job: Job) -> dict[str, Any] | None:
        largest, numbers = self._start.largest, self._final.free

        def helps(nodes: Collection[int]) -> bool:
            both = zip(self._with_kept, self._left, strict=True)
            opened = [kept if kept.node.id in nodes else left for kept, left in both]
            return first_failing(job, opened, largest) is None

        if helps(()) or not helps(numbers):
            return None
        names = {number: free.node.name for number, free in numbers.items()}
        return kept_figures(job, in_the_way(self._keepers, helps), names)

    def _failing(self, job: Job) -> Level | None:
        """The need that failed before the plan took anything; looked up once for each shape, because queues are long."""
        tenant = job.tenant if self._takers.exclusive else None
        shape = (job.requirement[0], job.gpu_types, job.min_cores, job.memory_mib, job.bound, tenant)
        if shape not in self._known.levels:
            self._known.levels[shape] = first_failing(job, self._idle, self._start.largest)
        return self._known.levels[shape]

    def _needs_of(self, job: Job) -> dict[str, Any]:
        shape = _shape(job)
        found = self._known.needs.get(shape)
        if found is None:
            found = self._known.needs[shape] = needs(job)
        return found

    def _outside(self, ranked: Ranked) -> Why:
        """For a job whose turn has not come: its place, and how far the planning came, or which job blocks it."""
        obstacles = self._obstacles
        figures: dict[str, Any] = {"needs": self._needs_of(ranked.job), **self._places.of(ranked)}
        blocked = obstacles.blocked_by or obstacles.blocked_tenants.get(ranked.job.tenant)
        if blocked is None:
            figures |= {**self._places.window(ranked), **self._details.outside(ranked)}
        else:
            own = blocked.job.tenant == ranked.job.tenant
            there = self._places.of(blocked)
            job = blocked.job.id if own else None
            figures["blocked_by"] = {"place": there["place"], "queue": there["queue"], "job": job}
        return Why(Reason.OUTSIDE_WINDOW, figures)

    def _lost(self, ranked: Ranked) -> Why:
        """For a job that fitted at the start: others took its resources, or the solver stopped too early."""
        job, obstacles = ranked.job, self._obstacles
        rivals = self._takers.rivals_of(job)
        ahead = bisect_left(rivals.ranks, ranked.rank)
        kind = (job.is_cpu, job.gpu_types)
        if kind not in self._known.offered:
            self._known.offered[kind] = offered(job, self._left)
        figures: dict[str, Any] = {"needs": self._needs_of(job), "offered": self._known.offered[kind]}
        if job.id in self._standings.window:  # other jobs have no candidates
            figures |= self._details.rejected(job)
        swept = obstacles.unswept is not None and not job.is_cpu
        if swept and not rivals.ranks and (level := first_failing(job, self._left, self._start.largest)) is not None:
            return short_of(job, level, self._left, ever=True)  # no job of the queue took it, but profiles
        if not rivals.ranks or (self._outcome.solver.status in STOPPED_SHORT and not ahead and not swept):
            return Why(Reason.SOLVER_LIMIT, {**figures, "limit_s": self._limit_s, "gap": self._outcome.solver.gap})
        figures["lost_to"] = {
            "own_jobs": rivals.own[:NODES_SHOWN],
            "other_tenants_jobs": len(rivals.ranks) - len(rivals.own),
            "ranked_ahead": ahead,
            "ranked_behind": len(rivals.ranks) - ahead,
        }
        return Why(Reason.LOST_TO_HIGHER_PRIORITY, figures)


@dataclass(slots=True)
class _Known:
    """Answers found once, the same for all jobs that ask for the same.

    `groups`: by kind of job, the ranks of its rivals, and the reason by how many of them are ahead.
    """

    levels: dict[tuple[object, ...], Level | None] = field(default_factory=dict)
    needs: dict[tuple[object, ...], dict[str, Any]] = field(default_factory=dict)
    short: dict[tuple[object, ...], Why] = field(default_factory=dict)
    offered: dict[tuple[object, ...], dict[str, Any]] = field(default_factory=dict)
    ends: dict[tuple[object, ...], dict[str, Any] | None] = field(default_factory=dict)
    groups: dict[Alike, tuple[list[int], dict[int, Why]]] = field(default_factory=dict)


def _shape(job: Job) -> tuple[object, ...]:
    return (job.requirement, job.gpu_types, job.cores, job.least_cores, job.memory_mib)
