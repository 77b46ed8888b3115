"""Which jobs are profiled before they are placed, and where (Hops 3.2; algorithms.md sections 2 and 7, step 2).

An instrumented elastic job that has not started yet runs some iterations on one GPU of each type that it may use, if
nothing is known of its signature there and a GPU is idle. Meanwhile it keeps its place in the queue, and its waiting time
grows. It is not placed, with reason `profiling`, for at most `profile_limit_s` from the start of its first profile, however
many profiles follow. No job waits for a profile that finds no GPU.

Rules, so that measuring costs little:
- profiles hold at most `profile_share` of the GPUs that are idle or profiled on, rounded down; if two are idle, one;
- tenants take turns: the one with the fewest profiles first, then by the queue. For a job, types with more GPUs come first;
- no profile begins on a node that closes before the profile must end;
- a profile uses only idle resources that are promised to no job, within the tenant's quotas beside the job's smallest size.
  It takes the node with the fewest idle GPUs, so that larger blocks stay whole, and no more cores than the job wants per GPU;
- a signature has one profile at a time on a type, and after a failed one no other for `PROFILE_AGAIN_S`;
- a job whose LR has reached `reserve_lr` does not wait for profiles any longer, and nothing is profiled on types that it may
  use: idle GPUs there may be reserved for it (section 4). *Ours*: in the paper the profiler has no such rival.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scheduler.copies import replace
from scheduler.estimator.measured import signature
from scheduler.model import ClusterState, Configuration, Job, Profiled, ProfileOrder, Ranked, Running, Share

if TYPE_CHECKING:
    from scheduler.model.speeds import Knowledge
    from scheduler.parameters import Parameters
    from scheduler.placement.free_capacity import FreeCapacity
    from scheduler.placement.ledger import Ledger

NEW_BELOW = -(2**62)
"""Profiles that begin in this planning have ids from here downwards. The driver gives earlier ones ids from -1 downwards."""
PROFILE_AGAIN_S = 3600.0
"""A signature whose profile on a GPU type failed is not profiled there again for this long."""
LEAST_S = 5.0
"""A job begins no profile with less time left than this: ten iterations could hardly be measured."""


@dataclass(slots=True)
class Profiles:
    """Profiles to start, taken from the ledger, and by job id the figures of the jobs that wait for their profiles."""

    orders: list[ProfileOrder] = field(default_factory=list)
    waiting: dict[int, dict[str, Any]] = field(default_factory=dict)

    def apart(self, queue: Sequence[Ranked]) -> Sequence[Ranked]:
        """The jobs of the queue that wait for no profile."""
        if not self.waiting:
            return queue
        return [each for each in queue if each.job.id not in self.waiting]

    def seen_in(self, state: ClusterState, queue: Sequence[Ranked], now_s: float) -> ClusterState:
        """The state with the new profiles, which hold their GPUs for a short time, for the rest of the planning."""
        if not self.orders:
            return state
        tenants = {each.job.id: each.job.tenant for each in queue if each.job.id in self.waiting}
        begun = [
            Running(
                NEW_BELOW - place,
                tenants[each.job],
                (each.piece,),
                now_s,
                (1,),
                expected_end_s=now_s + each.limit_s,
                profiled=Profiled(each.job, each.signature, each.gpu_type, now_s + each.limit_s),
            )
            for place, each in enumerate(self.orders)
        ]
        return replace(state, running=[*state.running, *begun])


def choose(
    queue: Sequence[Ranked], ledger: Ledger, state: ClusterState, parameters: Parameters, now_s: float
) -> Profiles:
    """The profiles that begin now, taken from `ledger`, and the jobs that wait. `queue`: in order, without promised jobs."""
    live = [each for each in state.running if each.profiled is not None]
    profiles = Profiles()
    left = budget(ledger.idle_gpus, len(live), parameters.profile_share)
    if live:
        waiting = {each.job.id for each in queue}
        _note_live(live, ledger, waiting, now_s, parameters, profiles)
    if left > 0:
        _Choice(queue, ledger, state, parameters, now_s, profiles).take(left)
    return profiles


def budget(idle: int, profiling: int, share: float) -> int:
    """How many more profiles may begin beside the `profiling` that run: a share of the GPUs that would be idle without them."""
    free = idle + profiling
    most = max(int(free * share), 1 if free >= 2 else 0) if share > 0 else 0
    return max(0, min(idle, most - profiling))


def types_kept(queue: Sequence[Ranked], types: AbstractSet[str], reserve_lr: float | None) -> set[str]:
    """The types on which no profile begins: a job that may use them has waited so long that GPUs may be kept for it."""
    found: set[str] = set()
    for each in queue:
        if len(found) == len(types):
            break
        if reserve_lr is not None and each.latency_ratio >= reserve_lr and not each.job.is_cpu:
            found |= {name for name in types if each.job.may_use(name)}
    return found


def knows(knowledge: Knowledge, types: dict[str, set[str]], name: str, gpu_type: str) -> bool:
    """Whether the speed on the type was measured or can be modelled. `types`: by signature, those with measurements."""
    return (name, gpu_type) in knowledge.profiles or gpu_type in types.get(name, ())


def _note_live(
    live: Sequence[Running],
    ledger: Ledger,
    waiting: set[int],
    now_s: float,
    parameters: Parameters,
    profiles: Profiles,
) -> None:
    names = {node.id: node.name for node in ledger.nodes}
    for each in live:
        measured = each.profiled
        if measured is None or measured.job not in waiting or now_s >= measured.until_s:
            continue
        nodes = [names.get(piece.node, "") for piece in each.pieces]
        left_s = measured.until_s - now_s
        _note(profiles, measured.job, measured.gpu_type, nodes[0], left_s, parameters)


def _note(profiles: Profiles, job: int, gpu_type: str, node: str, left_s: float, parameters: Parameters) -> None:
    empty = {"on": [], "left_s": 0.0, "limit_s": parameters.profile_limit_s}
    figures = profiles.waiting.setdefault(job, empty)
    figures["on"].append({"gpu_type": gpu_type, "node": node})
    figures["left_s"] = max(figures["left_s"], round(left_s, 1))


class _Choice:
    """One planning's choice of profiles."""

    def __init__(
        self,
        queue: Sequence[Ranked],
        ledger: Ledger,
        state: ClusterState,
        parameters: Parameters,
        now_s: float,
        profiles: Profiles,
    ) -> None:
        self._ledger, self._state, self._parameters, self._now_s = ledger, state, parameters, now_s
        self._profiles = profiles
        self._types = Counter[str]()
        for free in ledger.free.values():
            if free.node.gpu_type:
                self._types[free.node.gpu_type] += free.node.gpus_total
        self._measured: dict[str, set[str]] = {}
        for key in state.knowledge.cells:
            if isinstance(key.resource, str):
                self._measured.setdefault(key.signature, set()).add(key.resource)
        live = [each for each in state.running if each.profiled is not None]
        self._busy = {(each.profiled.signature, each.profiled.gpu_type) for each in live if each.profiled}
        self._held = Counter(each.tenant for each in live)
        self._closed = types_kept(queue, self._types.keys(), parameters.reserve_lr)
        self._wishes: dict[int, Iterator[tuple[Job, str]]] = {}
        by_tenant: dict[int, list[Job]] = {}
        for each in queue:
            if each.job.instrumented and self._may(each):
                by_tenant.setdefault(each.job.tenant, []).append(each.job)
        self._rank = {tenant: place for place, tenant in enumerate(by_tenant)}
        self._wishes = {tenant: self._wishes_of(jobs) for tenant, jobs in by_tenant.items()}

    def _may(self, ranked: Ranked) -> bool:
        job, limit = ranked.job, self._parameters.reserve_lr
        return (
            len(job.requirement) > 1
            and job.age_s is None  # fixed at the first start
            and (limit is None or ranked.latency_ratio < limit)
            and self._limit_s(job) >= LEAST_S
        )

    def _limit_s(self, job: Job) -> float:
        since_s = self._now_s if job.profiled_since_s is None else job.profiled_since_s
        return since_s + self._parameters.profile_limit_s - self._now_s

    def _wishes_of(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, str]]:
        """The pairs (job, type) of one tenant that are to be measured, in turn, without pairs that others take meanwhile."""
        for job in jobs:
            name = signature(job)
            types = filter(job.may_use, job.gpu_types or self._types)
            for gpu_type in sorted(types, key=lambda each: (-self._types[each], each)):
                pair = (name, gpu_type)
                if gpu_type in self._closed or pair in self._busy or pair in self._state.profiles_tried:
                    continue
                if not knows(self._state.knowledge, self._measured, name, gpu_type):
                    yield job, gpu_type

    def take(self, most: int) -> None:
        """Start profiles, each on one GPU."""
        while most > 0 and self._wishes:
            tenant = min(self._wishes, key=lambda each: (self._held[each], self._rank[each]))
            wish = next(self._wishes[tenant], None)
            if wish is None:
                del self._wishes[tenant]
            elif self._begin(*wish):
                most -= 1

    def _begin(self, job: Job, gpu_type: str) -> bool:
        """Take the GPU on the best node; False when no node of the type has room for the job."""
        until_s = self._now_s + self._limit_s(job)
        capacities = [
            free
            for free in self._ledger.free.values()
            if free.node.gpu_type == gpu_type and free.gpus and free.node.closes_s >= until_s
        ]
        for free in sorted(capacities, key=lambda each: (len(each.gpus), each.node.id)):
            share = Share(free.node.id, 1, min(job.cores, len(free.cores)), job.memory_mib)
            wanted = Configuration(job.id, (share,), 1.0, "profile")
            # The tenant's quotas must allow the job's smallest size beside the profile.
            gpus, cores = 1 + job.min_gpus, wanted.cores + job.min_cores
            if (
                wanted.cores >= job.least_cores
                and self._ledger.quota_shortfall(job.tenant, gpus, cores) is None
                and self._ledger.shortfall(wanted, job.tenant) is None
            ):
                (piece,) = self._ledger.take(wanted, job.tenant).pieces
                self._order(job, gpu_type, piece, free)
                return True
        return False

    def _order(self, job: Job, gpu_type: str, piece: Any, free: FreeCapacity) -> None:
        name, limit_s = signature(job), self._limit_s(job)
        self._profiles.orders.append(ProfileOrder(job.id, name, gpu_type, piece, limit_s))
        _note(self._profiles, job.id, gpu_type, free.node.name, limit_s, self._parameters)
        self._busy.add((name, gpu_type))
        self._held[job.tenant] += 1
