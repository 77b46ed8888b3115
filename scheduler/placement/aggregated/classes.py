"""Node classes and pools (algorithms.md section 6): which nodes are interchangeable, and which jobs may use them.

A *class* holds the nodes of one type with the same idle GPUs and cores and the same speed class. Some things split it further,
where they matter: a storage domain that a resumed job of this planning must stay in, software that some job needs, a node that
takes one tenant at a time, when it closes, the zone (array and reservations) and the cores left of those reserved for its
array. Cores that no job could ask for do not matter. Where jobs were measured at speeds of their own, `own` is the number of
the nodes with the same ones (see `own_speeds`). A *pool* is the supply of a job: a type, a speed class and, for those, the
tenant, the domain and the zone, and whether its cores are the reserved ones only. A class offers pieces to one or more pools;
each job draws on one or more. In a re-plan a node on which running jobs may keep their resources is a class of its own; these
count as idle, and a *pin* offers them to their job only.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from scheduler.copies import replace
from scheduler.model import Job, Node, Ranked
from scheduler.placement.access import NO_RULES, Access, Rules, Zone
from scheduler.placement.aggregated.own_speeds import NO_NODE, OwnSpeeds
from scheduler.placement.feasibility import type_allowed
from scheduler.placement.free_capacity import FreeCapacity, speed_class

if TYPE_CHECKING:
    from scheduler.placement.ledger import Ledger
    from scheduler.placement.running import Participant


Home = tuple[str, int, Zone]
"""All nodes of a type, a speed class and a zone."""


class Pool(NamedTuple):
    """Pieces for the jobs of one tenant (None = of all) and one checkpoint domain (None = for those without)."""

    gpu_type: str
    speed: int
    tenant: int | None
    domain: str | None
    zone: Zone
    limited: bool
    offers: tuple[str, ...] = ()  # of the software that these jobs need
    pin: int | None = None  # a running job: only it may use its present pieces on its nodes
    own: int = 0  # the number of its nodes' own speeds
    ends: int = 0  # how many of the ends that the stage's jobs need are not after its nodes' own

    @property
    def home(self) -> Home:
        return self.gpu_type, self.speed, self.zone


class Pin(NamedTuple):
    """A running job that may keep its piece on a node: its pool, and that piece.

    On one node that is one piece. On several nodes it is units of one GPU, all or none on each node: the job keeps its place if
    it gets the units of all its nodes.
    """

    pool: Pool
    tenant: int
    gpus: int
    cores: int
    limited: bool
    units: int = 1  # pieces of its row here

    @property
    def piece(self) -> tuple[int, int]:
        """GPUs and cores of one of them."""
        return self.gpus // self.units, self.cores // self.units


class ClassKey(NamedTuple):
    """Nodes of one key are interchangeable. `owner`: None = shared, () = takes the first tenant, (t,) = that tenant's.

    `limit`: how many of the cores limited jobs may take together; `cores` where that is no limit.
    """

    gpu_type: str
    speed: int
    gpus: int
    cores: int
    limit: int
    owner: tuple[int, ...] | None
    domain: str | None
    zone: Zone
    software: tuple[str, ...] = ()
    pins: tuple[Pin, ...] = ()
    own: int = 0
    ends: int = 0

    @property
    def home(self) -> Home:
        return self.gpu_type, self.speed, self.zone

    def cores_for(self, pool: Pool) -> int:
        return self.limit if pool.limited else self.cores


@dataclass(frozen=True, slots=True)
class NodeClass:
    """A class with its nodes in id order, and the alternative sets of pools it can offer to, one set per node."""

    key: ClassKey
    nodes: tuple[int, ...]
    offers: tuple[tuple[Pool, ...], ...]


@dataclass(slots=True)
class PoolCapacity:
    """The most that one node of the pool offers, per least number of idle GPUs (index), and a node to stand for it."""

    cores: list[int] = field(default_factory=list)
    memory_mib: list[int] = field(default_factory=list)
    gpus: int = 0
    unit_gpus: dict[int, int] = field(default_factory=dict)  # cores a GPU -> GPUs in all that have them


class Classes:
    """The classes of a ledger's idle resources, as far as the jobs of a stage can tell them apart."""

    def __init__(
        self,
        ledger: Ledger,
        stage: Iterable[Ranked],
        rules: Rules = NO_RULES,
        participants: Mapping[int, Participant] = MappingProxyType({}),
        own_speeds: OwnSpeeds | None = None,
    ) -> None:
        asked = list(stage)
        self.rules, self.own_speeds = rules, own_speeds or OwnSpeeds()
        self.pins: dict[int, tuple[Pin, ...]] = {}  # by job, one for each of its nodes
        self._pinned: dict[int, list[Pin]] = {}  # by node
        for ranked in asked:
            if (running := participants.get(ranked.job.id)) is not None:
                self._pin(running, ledger, rules)
        jobs = [ranked.job for ranked in asked]
        self.access: dict[int, Access] = {ranked.job.id: rules.access(ranked) for ranked in asked}
        self.domains = {job.checkpoint_domain for job in jobs if job.checkpoint_domain is not None}
        self._software = {job.software for job in jobs if job.software}
        self._ends = sorted({job.open_until_s for job in jobs})
        self.tenants = sorted({job.tenant for job in jobs})
        self.most_cores = max((job.cores for job in jobs), default=1)
        self._kinds = set(self.access.values())
        self._barring = frozenset[int]().union(*(each.barred for each in self._kinds))
        self.all = self._grouped(ledger, rules)
        self.usual = self._usual()
        self.core_counts, self.largest = ledger.core_counts(), ledger.largest
        self.nodes_of: dict[Pool, list[int]] = {}  # in id order
        self.pools = self._measure(ledger)
        self.by_type: dict[str, list[Pool]] = {}
        for pool in sorted(self.pools, key=repr):
            self.by_type.setdefault(pool.gpu_type, []).append(pool)
        self._stand_ins = {
            (each.key.gpu_type, each.key.speed): replace(ledger.free[each.nodes[0]].node, id=NO_NODE)
            for each in reversed(self.all)
        }

    def _grouped(self, ledger: Ledger, rules: Rules) -> list[NodeClass]:
        """The classes of which some job may use something, in the order of their keys."""
        grouped: dict[ClassKey, list[int]] = {}
        for free in ledger.free.values():
            if free.gpus and free.cores and (key := self._key(free, ledger, rules)) is not None:
                grouped.setdefault(key, []).append(free.node.id)
        return [
            NodeClass(key, tuple(nodes), offers)
            for key, nodes in sorted(grouped.items(), key=lambda each: repr(each[0]))
            if (offers := tuple(self._offers(key))) and (offers[0] or key.pins)
        ]

    def _usual(self) -> dict[Home, int]:
        """By home, the number under which most of its idle GPUs are."""
        idle: dict[Home, dict[int, int]] = {}
        for each in self.all:
            own = idle.setdefault(each.key.home, {})
            own[each.key.own] = own.get(each.key.own, 0) + each.key.gpus * len(each.nodes)
        return {home: max(own, key=lambda number: (own[number], -number)) for home, own in idle.items()}

    def _pin(self, running: Participant, ledger: Ledger, rules: Rules) -> None:
        shares, job, limited = running.present.shares, running.job, running.job.id in ledger.limited
        node = ledger.free[shares[0].node].node
        pool = Pool(node.gpu_type or "", speed_class(node), None, None, rules.zone(node.id), limited, pin=job.id)
        spread = len(shares) > 1
        self.pins[job.id] = pins = tuple(
            Pin(pool, job.tenant, share.gpus, share.cores, limited, share.gpus if spread else 1) for share in shares
        )
        for share, pin in zip(shares, pins, strict=True):
            self._pinned.setdefault(share.node, []).append(pin)

    def _key(self, free: FreeCapacity, ledger: Ledger, rules: Rules) -> ClassKey | None:
        node = free.node
        owner = tuple(sorted(free.tenants)) if node.exclusive_tenant else None
        if owner is not None and len(owner) > 1:
            return None  # two tenants under one account already: nobody is let in
        domain = node.domain if node.domain in self.domains else None
        array, kept = rules.zone(node.id)
        zone = Zone(array, tuple(number for number in kept if number in self._barring))
        gpus = len(free.gpus)
        pins = tuple(self._pinned.get(node.id, ()))
        cores = len(free.cores) if pins else min(len(free.cores), gpus * self.most_cores)
        limited = any(access.limited for access in self._kinds)
        limit = min(cores, ledger.cores_for(node.id, limited=True)) if limited else cores
        offers = tuple(sorted(node.offers & self._software))
        own, ends = self.own_speeds.own.get(node.id, 0), bisect_right(self._ends, node.closes_s)
        return ClassKey(
            node.gpu_type or "", speed_class(node), gpus, cores, limit, owner, domain, zone, offers, pins, own, ends
        )

    def _offers(self, key: ClassKey) -> Iterable[tuple[Pool, ...]]:
        owners = [None] if key.owner is None else (list(key.owner) or self.tenants)
        domains = (None,) if key.domain is None else (None, key.domain)
        limits = sorted({access.limited for access in self._kinds if access.admits(key.zone)})
        for owner in owners:
            yield tuple(
                Pool(
                    key.gpu_type, key.speed, owner, domain, key.zone, limited, key.software, own=key.own, ends=key.ends
                )
                for domain in domains
                for limited in limits
            )

    def _measure(self, ledger: Ledger) -> dict[Pool, PoolCapacity]:
        pools: dict[Pool, PoolCapacity] = {}
        for each in self.all:
            memory = max(ledger.free[node].memory_mib for node in each.nodes)
            for pool in {pool for pools_of in each.offers for pool in pools_of}:
                capacity = pools.setdefault(pool, PoolCapacity())
                _raise_to(capacity, each.key, each.key.cores_for(pool), memory, len(each.nodes))
                self.nodes_of.setdefault(pool, []).extend(each.nodes)
            for pin in each.key.pins:
                self.nodes_of.setdefault(pin.pool, []).extend(each.nodes)
        for nodes in self.nodes_of.values():
            nodes.sort()
        return pools

    def pools_for(self, job: Job, gpu_type: str) -> list[Pool]:
        """The pools of a type that the job may draw on."""
        access, ends = self.access[job.id], bisect_right(self._ends, job.open_until_s)
        return [
            pool
            for pool in self.by_type.get(gpu_type, ())
            if pool.domain == job.checkpoint_domain
            and (not job.software or job.software in pool.offers)
            and pool.ends >= ends
            and pool.tenant in {None, job.tenant}
            and pool.limited is access.limited
            and access.admits(pool.zone)
        ]

    def types_for(self, job: Job) -> list[str]:
        return [name for name in self.by_type if type_allowed(job, self.stand_in(self.by_type[name][0]))]

    def stand_in(self, pool: Pool) -> Node:
        """A node of the pool's type and speed class: the estimator is asked about it for all of them."""
        return self._stand_ins[pool.gpu_type, pool.speed]

    def unit_gpus(self, pools: Sequence[Pool], rate: int) -> int:
        """GPUs in all that have `rate` cores each."""
        return sum(self.pools[pool].unit_gpus.get(rate, 0) for pool in pools)


def _raise_to(capacity: PoolCapacity, key: ClassKey, cores: int, memory_mib: int, nodes: int) -> None:
    grow = key.gpus + 1 - len(capacity.cores)
    capacity.cores += [0] * grow
    capacity.memory_mib += [0] * grow
    for gpus in range(key.gpus + 1):
        capacity.cores[gpus] = max(capacity.cores[gpus], cores)
        capacity.memory_mib[gpus] = max(capacity.memory_mib[gpus], memory_mib)
    capacity.gpus += key.gpus * nodes
    for rate in (1, 2):
        capacity.unit_gpus[rate] = capacity.unit_gpus.get(rate, 0) + min(key.gpus, cores // rate) * nodes
