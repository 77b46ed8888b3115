"""The idle resources and the rest of the quotas while a plan is made. Only the ledger decides whether a configuration fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.copies import replace
from scheduler.model import Configuration, HeldPart, Job, Node, Piece, Placement, Running, Share, Tenant, node_of
from scheduler.model.placements import WHOLE, is_instance
from scheduler.placement.core_counts import CoreCounts
from scheduler.placement.free_capacity import (
    Allowance,
    EqualNodes,
    FreeCapacity,
    Offer,
    Shortfall,
    Withheld,
    largest_nodes,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence


UNITS = 3
"""Digits of GPUs held: thousandths, rounded at each step, so that ten tenths are one."""


class Ledger:
    """Free capacity of the schedulable nodes and allowances of the tenants. A planning takes from one.

    `changed`: nodes whose free capacity has changed since it was made, or since its owner last cleared the set.
    """

    def __init__(self, nodes: Iterable[Node], tenants: Iterable[Tenant], running: Iterable[Running]) -> None:
        self.nodes: tuple[Node, ...] = tuple(sorted(nodes, key=lambda node: node.id))
        self.free: dict[int, FreeCapacity] = {
            node.id: FreeCapacity(
                node, tuple(sorted(node.idle_gpus)), tuple(sorted(node.idle_cores)), node.idle_memory_mib, node.tenants
            )
            for node in self.nodes
            if node.schedulable
        }
        self.largest = largest_nodes(self.nodes)
        self.instances = frozenset(filter(is_instance, self.largest))  # the types that are instances
        self.too_small: Mapping[str, frozenset[str]] = {}  # see `ClusterState`
        self.limited: frozenset[int] = frozenset()  # jobs that may use reserved cores only (section 4)
        self.core_limits: dict[int, int] = {}  # the rest of those on each node
        self.changed: set[int] = set()
        self._ungrouped: set[int] = set()  # changed since `equal_nodes` was last read
        self._equal_nodes: EqualNodes | None = None  # made when somebody asks
        self._totals: tuple[int, int] | None = None
        held = _held_by_tenant(running)
        self.held: dict[int, list[float]] = {
            tenant: list(units) for tenant, units in held.items()
        }  # GPUs (parts in thousandths) and cores, with those taken
        self.quotas: Mapping[int, Tenant] = {tenant.id: tenant for tenant in tenants}
        self.allowances = {
            tenant.id: Allowance(
                _left(tenant.gpu_quota, held.get(tenant.id, (0, 0))[0]),
                _cores_left(tenant.core_quota, held.get(tenant.id, (0, 0))[1]),
            )
            for tenant in self.quotas.values()
        }

    def copy(self, nodes: Collection[int] | None = None) -> Ledger:
        """A copy of the present state. `nodes`: copy only these."""
        twin = Ledger((), (), ())
        twin.nodes, twin.largest, twin.instances, twin.quotas = self.nodes, self.largest, self.instances, self.quotas
        twin.too_small = self.too_small
        twin.free = {
            k: FreeCapacity(r.node, r.gpus, r.cores, r.memory_mib, r.tenants, r.kept)
            for k, r in self.free.items()
            if nodes is None or k in nodes
        }
        twin.allowances = {k: Allowance(a.gpus, a.cores) for k, a in self.allowances.items()}
        twin.limited, twin.core_limits = self.limited, dict(self.core_limits)
        twin.held = {tenant: list(units) for tenant, units in self.held.items()}
        twin._totals = self._totals if nodes is None else None
        return twin

    def note(self, node: int) -> None:
        """The node's free capacity has changed."""
        self.changed.add(node)
        self._ungrouped.add(node)

    def reset(
        self, node: int, gpus: tuple[int, ...], cores: tuple[int, ...], memory_mib: int, tenants: frozenset[int]
    ) -> None:
        """Set the node's free capacity to the real one, for an owner that keeps the ledger between plannings."""
        free = self.free.get(node)
        if free is None:
            return
        free.gpus, free.cores, free.memory_mib, free.tenants, free.kept = gpus, cores, memory_mib, tenants, Withheld()
        self._ungrouped.add(node)

    def renew(self, nodes: Mapping[int, Node]) -> None:
        """Take these nodes, by id, in the place of those that they were before: their totals have changed."""
        self.nodes = tuple(nodes.get(node.id, node) for node in self.nodes)
        for number, node in nodes.items():
            if (free := self.free.get(number)) is not None:
                free.node = node
        self._totals = None

    def reset_held(self, held: Mapping[int, Sequence[int]]) -> None:
        """Set the tenants' real holdings, and the rest of their quotas."""
        self.held = {tenant: list(units) for tenant, units in held.items()}
        for tenant in self.quotas.values():
            gpus, cores = held.get(tenant.id, (0, 0))
            self.allowances[tenant.id] = Allowance(_left(tenant.gpu_quota, gpus), _cores_left(tenant.core_quota, cores))

    @property
    def equal_nodes(self) -> EqualNodes:
        """The free capacity as it is now, equal nodes together."""
        if self._equal_nodes is None:
            self._equal_nodes = EqualNodes(self.free)
        elif self._ungrouped:
            self._equal_nodes.moved(self._ungrouped)
        self._ungrouped.clear()
        return self._equal_nodes

    def _hold(self, tenant: int, gpus: float, cores: int) -> None:
        held = self.held.setdefault(tenant, [0, 0])
        held[0] = round(held[0] + gpus, UNITS)
        held[1] += cores

    def limit(self, jobs: Iterable[int], cores: Mapping[int, int]) -> None:
        """From now on these jobs together may take at most these cores of each node; no limit on nodes not named."""
        self.limited, self.core_limits = frozenset(jobs), dict(cores)

    def cores_for(self, node: int, *, limited: bool) -> int:
        """Idle cores of the node that a job may take, `limited` or not."""
        idle = len(self.free[node].cores)
        return min(idle, self.core_limits.get(node, idle)) if limited else idle

    def idle_offers(self) -> list[Offer]:
        """The idle resources of schedulable nodes, in id order."""
        return [free.offer for free in self.free.values()]

    def core_counts(self) -> dict[bool, CoreCounts]:
        """The core counts of the idle resources: for jobs limited to the reserved cores, and for the others."""
        return {
            limited: CoreCounts(
                (free.node.gpu_type or "", len(free.gpus), self.cores_for(number, limited=limited))
                for number, free in self.free.items()
            )
            for limited in ((False, True) if self.limited else (False,))
        }

    def with_kept(self) -> Ledger:
        """A copy in which what is withheld is idle, as it is on the nodes."""
        twin = self.copy()
        twin.free = {number: free.with_kept() for number, free in self.free.items()}
        return twin

    @property
    def withholds(self) -> bool:
        return any(free.kept.gpus or free.kept.cores or free.kept.memory_mib for free in self.free.values())

    @property
    def gpus_up(self) -> int:
        """GPUs on nodes that are up, shared ones too: Hops' "total system resources"."""
        return self._up()[0]

    @property
    def cores_up(self) -> int:
        return self._up()[1]

    def _up(self) -> tuple[int, int]:
        if self._totals is None:
            nodes = [free.node for free in self.free.values()]
            self._totals = (sum(node.gpus_there for node in nodes), sum(node.cores_total for node in nodes))
        return self._totals

    @property
    def idle_gpus(self) -> int:
        return sum(len(free.gpus) for free in self.free.values())

    def quota_shortfall(self, tenant: int, gpus: float, cores: int) -> Shortfall | None:
        """The part of the tenant's quota that these GPUs and cores more would exceed."""
        allowance = self.allowances.get(tenant)
        if allowance is None:
            return None
        for resource, needed, left in (("gpu_quota", gpus, allowance.gpus), ("core_quota", cores, allowance.cores)):
            if left is not None and needed > left:
                return Shortfall(resource, None, needed, left)
        return None

    def limited_tenants(self) -> set[int]:
        return {tenant for tenant, left in self.allowances.items() if left.gpus is not None or left.cores is not None}

    def over_quota(self, job: Job) -> Shortfall | None:
        """Why even the job's smallest size would exceed its tenant's quota now."""
        allowance = self.allowances.get(job.tenant)
        if allowance is None or (allowance.gpus is None and allowance.cores is None):
            return None
        return self.quota_shortfall(job.tenant, job.min_units, job.min_cores)

    def shortfall(self, configuration: Configuration, tenant: int) -> Shortfall | None:
        """The *binding* constraint (section 7): the first resource that fails when the configuration is added."""
        limited = configuration.job in self.limited
        for share in configuration.shares:
            if (short := self.free[share.node].shortfall(share, tenant)) is not None:
                return short
            if limited and share.cores > (left := self.cores_for(share.node, limited=True)):
                return Shortfall("cores", share.node, share.cores, left)
        return self.quota_shortfall(tenant, configuration.gpus, configuration.cores)

    def withhold(self, shares: Iterable[Share]) -> list[Share]:
        """Keep the idle part of the shares from all jobs of this planning. Returns what that was."""
        kept = [self.free[share.node].withhold(share) for share in shares]
        for share in kept:
            self.note(share.node)
        return kept

    def set_aside_quota(self, tenant: int, gpus: float, cores: int) -> None:
        """Count against the tenant's quotas what a promise will use."""
        if (allowance := self.allowances.get(tenant)) is not None:
            allowance.gpus, allowance.cores = _left(allowance.gpus, gpus), _cores_left(allowance.cores, cores)

    def release(self, pieces: Iterable[Piece], tenant: int, job: int | None = None) -> None:
        """Make a tenant's pieces idle again, as far as their nodes take jobs; its quotas get them back.

        `job`: the job that took them from this ledger, if any.
        """
        for piece in pieces:
            if (free := self.free.get(piece.node)) is not None:
                free.give(piece)
            self.note(piece.node)
            self._hold(tenant, -piece.gpu_units, -len(piece.cores))
            self.set_aside_quota(tenant, -piece.gpu_units, -len(piece.cores))
            if job in self.limited and piece.node in self.core_limits:
                self.core_limits[piece.node] += len(piece.cores)

    def take(self, configuration: Configuration, tenant: int) -> Placement:
        """Give the configuration's resources to the tenant's job. ValueError if they are not there, which is a bug."""
        if (short := self.shortfall(configuration, tenant)) is not None:
            raise ValueError(f"job {configuration.job} does not fit: {short}")
        self.set_aside_quota(tenant, configuration.gpus, configuration.cores)
        if configuration.job in self.limited:
            for share in configuration.shares:
                if share.node in self.core_limits:
                    self.core_limits[share.node] -= share.cores
        pieces = tuple(self.free[share.node].take(share, tenant) for share in configuration.shares)
        for piece in pieces:
            self.note(piece.node)
            self._hold(tenant, len(piece.gpus), len(piece.cores))
            self._join_beside(piece.node, tenant)
        return Placement(configuration.job, pieces)

    def take_part(self, configuration: Configuration, tenant: int, part: HeldPart) -> Placement:
        """Give cores and memory beside a part of a shared GPU. ValueError if they, or the quota for all of it, are not there."""
        if (short := self.quota_shortfall(tenant, part.compute / WHOLE, configuration.cores)) is not None:
            raise ValueError(f"job {configuration.job} does not fit: {short}")
        taken = self.take(configuration, tenant)
        self.set_aside_quota(tenant, part.compute / WHOLE, 0)
        self._hold(tenant, part.compute / WHOLE, 0)
        (piece,) = taken.pieces
        return Placement(configuration.job, (replace(piece, part=part),))

    def _join_beside(self, number: int, tenant: int) -> None:
        """Tell the other bays of the node that the tenant is there: of one shared account it is the whole node's."""
        free = self.free[number]
        if not free.node.exclusive_tenant or free.node.whole_cores is None:
            return
        for other, beside in self.free.items():
            if other != number and node_of(other) == node_of(number):
                beside.tenants |= {tenant}
                self.note(other)


def _left(quota: float | None, used: float) -> float | None:
    return None if quota is None else round(quota - used, UNITS)


def _cores_left(quota: int | None, used: int) -> int | None:
    return None if quota is None else quota - used


def _held_by_tenant(running: Iterable[Running]) -> dict[int, tuple[float, int]]:
    held: dict[int, tuple[float, int]] = {}
    for live in running:
        gpus, cores = held.get(live.tenant, (0, 0))
        held[live.tenant] = (round(gpus + live.gpu_units, UNITS), cores + live.cores)
    return held
