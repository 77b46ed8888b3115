"""CPU jobs in DRF order (algorithms.md sections 4 and 7, step 8): the tenant with the smallest share of the CPU array next.

Best fit by cores and memory; a job that does not fit is passed over. A job that may borrow sees every idle core, the
others those of the CPU array alone, and reserved cores stay free for GPU jobs. Jobs that gave back what they had borrowed
come first.
"""

from __future__ import annotations

from collections import deque
from functools import cached_property
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

from scheduler.fairness.arrays import Array
from scheduler.fairness.borrowing import may_borrow
from scheduler.fairness.drf import cpu_shares
from scheduler.fairness.standings import shares_of
from scheduler.model import Chosen, Side, Standing
from scheduler.placement import cpu

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.fairness.arrays import Division
    from scheduler.fairness.borrowing import AccessRules
    from scheduler.model import Job, Ranked
    from scheduler.placement.ledger import Ledger
    from scheduler.placement.work import Outcome, Work


class _Cores:
    """The ledger as CPU jobs see it, all of it or the CPU array's part; both are kept in step."""

    def __init__(self, ledger: Ledger, access_rules: AccessRules, *, borrow: bool) -> None:
        self.every, self._access_rules, self._borrow = ledger, access_rules, borrow

    @cached_property
    def own(self) -> Ledger:
        """The CPU array's part: put together when the first job has its turn, before anything is taken."""
        own = self.every.copy()
        own.allowances = self.every.allowances
        for number, room in own.rooms.items():
            room.cores = room.cores[: self._access_rules.cpu_cores(number)]
        return own

    def seen_by(self, job: Job) -> Ledger:
        borrows = self._borrow and may_borrow(Array.CPU, movable=job.movable, owner_waits=True)
        return self.every if borrows else self.own

    def take(self, ranked: Ranked, outcome: Outcome) -> bool:
        job, own_part = ranked.job, self.own
        best = cpu.choose(job, self.seen_by(job))
        if best is None:
            return False
        outcome.chosen[job.id] = Chosen(best, self.every.take(best, job.tenant), 1.0, 1.0, 1)
        for share in best.shares:
            room, own = self.every.rooms[share.node], own_part.rooms[share.node]
            own.cores = room.cores[: max(0, len(own.cores) - share.cores)]
            own.memory_mib, own.tenants = room.memory_mib, room.tenants
            own_part.note(share.node)
        return True


def place_cpu_queue(
    queue: Sequence[Ranked],
    work: Work,
    outcome: Outcome,
    access_rules: AccessRules,
    division: Division,
    *,
    fair: bool,
    borrow: bool,
) -> None:
    """Place the CPU jobs; all are in the window. `fair` false: in queue order."""
    cores = _Cores(work.ledger, access_rules, borrow=borrow)
    nodes = [room.node for room in work.ledger.rooms.values()]
    shares = cpu_shares(nodes, work.state.running, work.state.tenants, division)
    held = dict(shares.held)
    failed: set[tuple[object, ...]] = set()
    turns = count(1)

    def turn(ranked: Ranked) -> None:
        shape = (*cpu.shape(ranked.job), ranked.job.movable)
        number = next(turns)
        if fair:
            outcome.turn_shares[ranked.job.id] = shares.of(ranked.job.tenant)
        outcome.window.add(ranked.job.id)
        outcome.standings[ranked.job.id] = Standing(str(Array.CPU), Side.FRONT, number)
        if shape not in failed and cores.take(ranked, outcome):
            shares.add(ranked.job.tenant, ranked.job.cores)
            return
        failed.add(shape)
        if work.ledger.rooms and cpu.choose(ranked.job, work.ledger) is not None:
            outcome.kept[ranked.job.id] = {"kept_for": "array", "array": "gpu", "borrowing": borrow}

    waiting: dict[int, deque[Ranked]] = {}
    for ranked in queue:
        if ranked.job.gave_back:
            turn(ranked)
        else:
            waiting.setdefault(ranked.job.tenant if fair else 0, deque()).append(ranked)
    heap = [(shares.of(tenant), jobs[0].rank, tenant) for tenant, jobs in waiting.items()]
    heapify(heap)
    ends_s = work.ends_s(cpu.LIMIT_SHARE)
    while heap:
        if work.clock() >= ends_s:
            outcome.out_of_time.update(late.job.id for jobs in waiting.values() for late in jobs)
            break
        _, _, tenant = heappop(heap)
        turn(waiting[tenant].popleft())
        if waiting[tenant]:
            heappush(heap, (shares.of(tenant) if fair else 0.0, waiting[tenant][0].rank, tenant))
    outcome.shares += shares_of("cores", held, shares, shares.capacity)
