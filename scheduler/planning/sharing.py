"""Jobs that share a GPU get their places: a planning's step of its own (algorithms.md section 11).

No other job may have their GPUs, so nothing of this is in the ILP: the step takes cores, memory and quota from the ledger before
the policy does. The next turn goes to the tenant with the smallest share of the GPUs, parts counted in thousandths, then by the
queue's order. *Deviation* from Kube-Knots, which takes the jobs of all tenants by memory, largest first.
The sharing policy says which GPUs a job may join and in which order; among those that are as good to it, the prices of gaps
decide (decision 0013), then the cores that the job wants, then the fuller GPU.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import lru_cache
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy as np

from scheduler.copies import replace
from scheduler.estimator.measured import signature
from scheduler.explaining.figures import Why, needs, over_quota
from scheduler.fairness.arrays import gpu_shares, gpu_units
from scheduler.model import Chosen, ClusterState, Configuration, HeldPart, Job, Ranked, Reason, Share
from scheduler.model.placements import WHOLE, Regrant
from scheduler.planning.gaps import Floats, gap_worth
from scheduler.planning.shared_gpus import Askers, Harvests, Places, expected_parts
from scheduler.sharing.measured import Measured
from scheduler.sharing.model import BY_NUMBER, LAST_ADMITTING, NUMBERS, Rule, admitting, closing
from scheduler.sharing.policy import Policy, granted
from scheduler.sharing.sharing import LOOKS_AT_USE, policy_named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.parameters import Parameters
    from scheduler.placement.free_capacity import FreeCapacity
    from scheduler.placement.ledger import Ledger
    from scheduler.sharing.series import Flags, Numbers


NO_RULES: Numbers = np.empty(0, dtype=np.int8)

NAMED = 3
"""The most jobs named from which a job is kept apart."""


READ = ("running", "tenants", "gpu_weights", "uses", "pairs", "learned")
"""The fields of a snapshot that the step reads beside the ledger."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The step's question, kept as it was before, so that another policy can be asked the same (`shadowing`)."""

    sharers: Sequence[Ranked]
    ledger: Ledger
    state: ClusterState
    parameters: Parameters
    fair: bool


@dataclass(slots=True)
class Sharing:
    """The jobs that start on shared GPUs, their figures (by job id), and why the others that share wait.

    `asked`: None where no shadow is wanted, or no job shares. `harvests`: memory that running jobs give back for them.
    """

    chosen: dict[int, Chosen] = field(default_factory=dict)
    told: dict[int, dict[str, Any]] = field(default_factory=dict)
    waiting: dict[int, Why] = field(default_factory=dict)
    asked: Asked | None = None
    harvests: tuple[Regrant, ...] = ()

    def apart(self, queue: Sequence[Ranked]) -> Sequence[Ranked]:
        """The jobs of the queue that share no GPU."""
        if not self.chosen and not self.waiting:
            return queue
        return [each for each in queue if each.job.part is None]


def choose(
    queue: Sequence[Ranked], ledger: Ledger, state: ClusterState, parameters: Parameters, *, fair: bool
) -> Sharing:
    """Give places on shared GPUs, taking from the ledger. `queue`: in order; `fair`: tenants take turns by their shares."""
    sharers = [each for each in queue if each.job.part is not None]
    if not sharers:
        return Sharing()
    asked = None
    if parameters.sharing_shadow not in ("off", parameters.sharing_policy):
        needed = replace(ClusterState((), ()), **{name: getattr(state, name) for name in READ})
        asked = Asked(sharers, ledger.copy(), needed, parameters, fair)
    step = _Step(sharers, ledger, state, parameters)
    step.give(sharers, fair=fair)
    step.sharing.asked = asked
    return step.sharing


@lru_cache(maxsize=32)
def _worth(parts: tuple[tuple[int, int], ...]) -> Floats:
    return gap_worth(dict(parts))


class _Step:
    """One planning's turns."""

    def __init__(self, sharers: Sequence[Ranked], ledger: Ledger, state: ClusterState, parameters: Parameters) -> None:
        self.sharing = Sharing()
        self._ledger, self._state, self._name = ledger, state, parameters.sharing_policy
        self._places = Places(ledger)
        self._policy: Policy | None = policy_named(self._name, state.learned)
        self._tenants = {each.job: each.tenant for gpu in self._places.gpus for each in gpu.holders}
        uses = state.uses if self._name in LOOKS_AT_USE else {}
        measured = Measured.of(state.pairs, parameters.sharing_slowdown)
        types = [free.node.gpu_type or "" for free in self._places.capacities]
        self._askers = Askers(sharers, self._places.gpus, uses, types, measured)
        self._board = self._askers.board
        self._harvests = Harvests(self._board, wanted=self._policy is not None and self._policy.harvests)
        self._worth = _worth(expected_parts(sharers, self._places.gpus))
        self._whys: dict[int, Why] = {}  # of kinds for which no GPU was open: within a planning room only shrinks

    # ---- turns -------------------------------------------------------------------------------------------------------

    def give(self, sharers: Sequence[Ranked], *, fair: bool) -> None:
        nodes = [free.node for free in self._ledger.free.values()]
        shares = gpu_shares(nodes, self._state.running, self._state.tenants, self._state.gpu_weights)
        waiting: dict[int, deque[Ranked]] = {}
        for ranked in sharers:
            waiting.setdefault(ranked.job.tenant if fair else 0, deque()).append(ranked)
        heap = [(shares.of(tenant), jobs[0].rank, tenant) for tenant, jobs in waiting.items()]
        heapify(heap)
        while heap:
            _, _, tenant = heappop(heap)
            job = waiting[tenant].popleft().job
            if (free := self._turn(job)) is not None and job.part is not None:
                shares.add(job.tenant, gpu_units(free.node.gpu_type, job.part.compute / WHOLE, self._state.gpu_weights))
            if waiting[tenant]:
                heappush(heap, (shares.of(tenant) if fair else 0.0, waiting[tenant][0].rank, tenant))
        self.sharing.harvests = tuple(self._harvests.orders.values())

    def _turn(self, job: Job) -> FreeCapacity | None:
        """Give the job a place, or note why it waits. Returns where it starts."""
        if (short := self._ledger.over_quota(job)) is not None:
            self.sharing.waiting[job.id] = over_quota(job, self._ledger.quotas[job.tenant], short)
            return None
        row = self._askers.row(job)
        if row is None:
            self.sharing.waiting[job.id] = Why(Reason.NOT_PLANNED_YET, {})
            return None
        if (known := self._whys.get(row)) is not None:
            self.sharing.waiting[job.id] = known
            return None
        why = self._full(job, row)
        if why is None:
            rules = self._policy.rules(self._board, row) if self._policy and self._places.gpus else NO_RULES
            allowed, beside = self._places.allowed(job), self._places.beside(job)
            admitted = admitting(rules) if len(rules) else np.zeros(len(allowed), dtype=bool)
            found = (allowed & admitted & beside).nonzero()[0]
            if len(found):
                return self._start(job, row, self._best(job, row, found), rules)
            why = self._why(job, rules, allowed, admitted, beside)
        self._whys[row] = self.sharing.waiting[job.id] = why
        return None

    def _full(self, job: Job, row: int) -> Why | None:
        """Why no ledger has room for the job, where all GPUs could be its own: then no policy need be asked."""
        if self._policy is None or not self._places.gpus or not self._places.everywhere(job):
            return None
        rules = self._board.rooms(harvested=self._policy.harvests).of(row)
        return self._closed_to(job, rules, closing(rules)) if rules.min() > LAST_ADMITTING else None

    def _best(self, job: Job, row: int, found: np.ndarray) -> int:
        board, policy = self._board, self._policy
        assert policy is not None
        if len(found) > 1:
            found = _least(found, board.order(row, policy.keys(board))[found].round(9))
        if len(found) > 1:
            left = board.left_compute[found]
            # Prices are rounded at the sixth digit: equal losses differ by as much.
            found = _least(found, (self._worth[left] - self._worth[left - board.compute[row]]).round(4))
            found = _least(found, np.maximum(0, job.cores - self._places.cores[found]))
            found = _least(found, board.left_compute[found])
        return int(found[0])

    def _start(self, job: Job, row: int, column: int, rules: Numbers) -> FreeCapacity:
        board, free, gpu = self._board, self._places.capacities[column], self._places.gpus[column]
        part = job.part
        assert part is not None
        assert self._policy is not None
        grant = granted(self._policy, board, row, BY_NUMBER[int(rules[column])])
        held = HeldPart(gpu.index, part.compute, grant)
        allowance = self._ledger.allowances.get(job.tenant)
        most = (
            len(free.cores) if allowance is None or allowance.cores is None else min(len(free.cores), allowance.cores)
        )
        share = Share(free.node.id, 0, min(job.cores, most), job.memory_mib)
        configuration = Configuration(job.id, (share,), 1.0, "shared")
        placement = self._ledger.take_part(configuration, job.tenant, held)
        self.sharing.chosen[job.id] = Chosen(configuration, placement, 1.0, 1.0, 1)
        self.sharing.told[job.id] = {"shared": self._told(job, row, column, held, rules)}
        board.join(row, column, grant)
        if givers := self._harvests.take(column):
            self.sharing.told[job.id]["shared"]["harvested"] = givers
        board.joined[column][-1] = job.id
        self._tenants[job.id] = job.tenant
        self._places.taken(free)
        return free

    # ---- words -------------------------------------------------------------------------------------------------------

    def _told(self, job: Job, row: int, column: int, held: HeldPart, rules: Numbers) -> dict[str, Any]:
        """The place of its start, and the rule; of the jobs there only its own tenant's are named."""
        board, rule = self._board, str(BY_NUMBER[int(rules[column])])
        beside = [each for each in board.joined[column] if self._tenants.get(each) == job.tenant]
        found: dict[str, Any] = {
            "policy": self._name,
            "node": self._places.capacities[column].node.name,
            "gpu": held.gpu,
            "compute": held.compute,
            "memory_mib": held.memory_mib,
            "rule": rule,
            "beside_own": beside,
            "beside_others": int(board.people[column]) - len(beside),
            "closed": closing(rules),
        }
        if rule == "uncorrelated":
            found["correlation"] = round(float(board.alike.correlated(row, np.array([column]))[0]), 3)
        elif rule == "forecast":
            found["ahead_mib"] = round(float(board.ahead_mib[column]))
        if (
            board.harms is not None
            and board.harms.measured
            and board.harms.people[column]
            and board.harms.known(row)[column]
        ):
            found["slowdown"] = round(1.0 + float(board.harms.worst[row, column]), 3)
        return found

    def _why(self, job: Job, rules: Numbers, allowed: Flags, admitted: Flags, beside: Flags) -> Why:
        closed = closing(rules[allowed]) if len(rules) else {}
        if barred := len(allowed) - int(np.count_nonzero(allowed)):
            closed["barred"] = barred
        if short := int(np.count_nonzero(allowed & admitted & ~beside)):
            closed["node"] = short
        return self._closed_to(job, rules, closed)

    def _closed_to(self, job: Job, rules: Numbers, closed: dict[str, int]) -> Why:
        shared: dict[str, Any] = {"policy": self._name, "gpus": len(self._places.gpus), "closed": closed}
        if "apart" in closed and job.part is not None:
            shared["apart_own"] = self._apart_from(job, np.flatnonzero(rules == NUMBERS[Rule.APART]))
        return Why(Reason.NO_SHARED_GPU, {"needs": needs(job), "shared": shared})

    def _apart_from(self, job: Job, columns: np.ndarray) -> list[int]:
        """The jobs of its own tenant on these GPUs that it is kept apart from, or that are kept apart from it."""
        assert job.part is not None
        own, apart = signature(job), job.part.apart_from
        there = [each for column in columns for each in self._places.gpus[column].holders]
        found = [each for each in there if each.signature in apart or own in each.apart_from]
        return sorted({each.job for each in found if each.tenant == job.tenant})[:NAMED]


def _least(found: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Those with the smallest key, in their order."""
    least: np.ndarray = found[keys == keys.min()]
    return least
