"""CPU jobs in DRF order (algorithms.md sections 4 and 7, step 8): next is the tenant with the smallest share of the CPU array.

A job takes the best fit by cores and memory; one that does not fit is passed over. A job that may borrow sees every idle core.
The others see only those of the CPU array, so that reserved cores stay free for GPU jobs. Jobs that gave back borrowed resources
come first.
"""

from __future__ import annotations

from collections import deque
from functools import cached_property
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from scheduler.fairness.arrays import Array, Division, Shares, cpu_shares
from scheduler.fairness.borrowing import AccessRules, may_borrow
from scheduler.fairness.progressive import shares_of
from scheduler.model import Chosen, Ranked, ShareView, Side, Standing
from scheduler.placement import cpu

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.placement.ledger import Ledger
    from scheduler.placement.outcome import DraftPlan
    from scheduler.placement.work import Work


class _Cores:
    """The ledger as CPU jobs see it: all of it, or the CPU array's part. A job takes from both."""

    def __init__(self, ledger: Ledger, access_rules: AccessRules, *, borrow: bool) -> None:
        self.every, self._access_rules, self.borrow = ledger, access_rules, borrow

    @cached_property
    def own(self) -> Ledger:
        """The CPU array's part, made when the first job has its turn, before anything is taken."""
        own = self.every.copy()
        own.allowances = self.every.allowances
        for number, free in own.free.items():
            free.cores = free.cores[: self._access_rules.cpu_cores(number)]
        return own

    def take(self, ranked: Ranked, draft: DraftPlan) -> bool:
        job, own_part = ranked.job, self.own
        borrows = self.borrow and may_borrow(Array.CPU, movable=job.movable, owner_waits=True)
        best = cpu.choose(job, self.every if borrows else own_part)
        if best is None:
            return False
        draft.chosen[job.id] = Chosen(best, self.every.take(best, job.tenant), 1.0, 1.0, 1)
        for share in best.shares:
            free, own = self.every.free[share.node], own_part.free[share.node]
            own.cores = free.cores[: max(0, len(own.cores) - share.cores)]
            own.memory_mib, own.tenants = free.memory_mib, free.tenants
            own_part.note(share.node)
        return True


class CpuTurns(NamedTuple):
    """The CPU queue's report beside the draft plan, by job id. A job with a standing has had its turn."""

    standings: Mapping[int, Standing]
    shares_at_turn: Mapping[int, float]  # its tenant's share; {} where tenants take no turns
    kept: Mapping[int, Mapping[str, object]]  # idle cores fit it, but are kept for GPU jobs
    out_of_time: frozenset[int]
    shares: Sequence[ShareView]


def place_cpu_queue(
    queue: Sequence[Ranked],
    work: Work,
    draft: DraftPlan,
    access_rules: AccessRules,
    division: Division,
    *,
    fair: bool,
    borrow: bool,
) -> CpuTurns:
    """Place the CPU jobs; all are in the window. `fair` false: in queue order."""
    nodes = [free.node for free in work.ledger.free.values()]
    shares = cpu_shares(nodes, work.state.running, work.state.tenants, division)
    held = dict(shares.held)
    turns = _Turns(work, draft, _Cores(work.ledger, access_rules, borrow=borrow), shares, fair=fair)
    out_of_time = turns.give(queue)
    views = shares_of("cores", held, shares, shares.capacity)
    return CpuTurns(turns.standings, turns.shares_at_turn, turns.kept, out_of_time, views)


class _Turns:
    """The turns of one planning's CPU jobs."""

    def __init__(self, work: Work, draft: DraftPlan, cores: _Cores, shares: Shares, *, fair: bool) -> None:
        self._work, self._draft, self._cores, self._shares, self._fair = work, draft, cores, shares, fair
        self._failed: set[tuple[object, ...]] = set()
        self.standings: dict[int, Standing] = {}
        self.shares_at_turn: dict[int, float] = {}
        self.kept: dict[int, Mapping[str, object]] = {}

    def give(self, queue: Sequence[Ranked]) -> frozenset[int]:
        """Jobs that gave back go first, then the tenants by share. Returns the jobs whose turn did not come in time."""
        waiting: dict[int, deque[Ranked]] = {}
        for ranked in queue:
            if ranked.job.gave_back:
                self._turn(ranked)
            else:
                waiting.setdefault(ranked.job.tenant if self._fair else 0, deque()).append(ranked)
        heap = [(self._shares.of(tenant), jobs[0].rank, tenant) for tenant, jobs in waiting.items()]
        heapify(heap)
        ends_s = self._work.ends_s(cpu.LIMIT_SHARE)
        while heap:
            if self._work.clock() >= ends_s:
                return frozenset(late.job.id for jobs in waiting.values() for late in jobs)
            _, _, tenant = heappop(heap)
            self._turn(waiting[tenant].popleft())
            if waiting[tenant]:
                share = self._shares.of(tenant) if self._fair else 0.0
                heappush(heap, (share, waiting[tenant][0].rank, tenant))
        return frozenset()

    def _turn(self, ranked: Ranked) -> None:
        job, work = ranked.job, self._work
        shape = (*cpu.shape(job), job.movable)
        if self._fair:
            self.shares_at_turn[job.id] = self._shares.of(job.tenant)
        self.standings[job.id] = Standing(str(Array.CPU), Side.FRONT, len(self.standings) + 1)
        if shape not in self._failed and self._cores.take(ranked, self._draft):
            self._shares.add(job.tenant, job.cores)
            return
        self._failed.add(shape)
        if work.ledger.free and cpu.choose(job, work.ledger) is not None:
            self.kept[job.id] = {"kept_for": "array", "array": "gpu", "borrowing": self._cores.borrow}
