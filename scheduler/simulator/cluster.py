"""The simulated cluster as it is: the idle resources of each node, the tenants there, and the traffic of its memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from scheduler.copies import replace
from scheduler.intake.bays import Shared, deal, promised_on, wants_of
from scheduler.model import Job, Node, Piece, Share, node_of
from scheduler.model.placements import serves
from scheduler.simulator.world.truth import SimulationError, Spot, World

Ask = tuple[tuple[int, ...], frozenset[str], int, int]
"""Sizes, GPU types, hard cores a GPU, memory: a waiting job's demand on a node."""


@dataclass(slots=True)
class Idle:
    """A node's idle resources, in ascending order; `tenants` only of nodes that admit one at a time."""

    gpus: tuple[int, ...]
    cores: tuple[int, ...]
    memory_mib: int
    tenants: frozenset[int] = frozenset()


class Cluster:
    """Nodes and their idle resources. `take` and `give` are the only changes, and check their arguments; and `close`.

    `changed`: nodes on which something has changed; the reader clears it.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.nodes: dict[int, Node] = {}
        self._bays: dict[int, list[int]] = {}  # of nodes with GPUs of several types
        for node in sorted(world.nodes, key=lambda each: each.id):
            if node.id in self.nodes:
                raise SimulationError(f"node {node.id} is listed twice in the world; give each node an id of its own")
            own = self._bays.setdefault(node_of(node.id), [])
            first = sum(self.nodes[bay].cores_total for bay in own)
            own.append(node.id)
            cores = tuple(range(first, first + node.cores_total))
            whole = replace(node, idle_gpus=tuple(range(node.gpus_total)), idle_cores=cores)
            self.nodes[node.id] = replace(whole, idle_memory_mib=node.memory_total_mib, tenants=frozenset())
        self._bays = {number: bays for number, bays in self._bays.items() if len(bays) > 1}
        self.idle = {
            node.id: Idle(node.idle_gpus, node.idle_cores, node.memory_total_mib) for node in self.nodes.values()
        }
        self.gpus_total = sum(node.gpus_total for node in self.nodes.values())
        self.cores_total = sum(node.cores_total for node in self.nodes.values())
        self.gpus_held = self.cores_held = 0
        self.held: dict[int, list[int]] = {}  # tenant -> GPUs and cores
        self.idle_by_type: dict[str | None, int] = {}  # on nodes that take jobs
        for node in self.nodes.values():
            if node.schedulable:
                self.idle_by_type[node.gpu_type] = self.idle_by_type.get(node.gpu_type, 0) + node.gpus_total
        self.domains = {node.id: node.domain for node in self.nodes.values()}  # also of those that are gone
        self.gone: set[int] = set()
        self.changed: set[int] = set()
        self._tenants: Counter[tuple[int, int]] = Counter()
        self._drawn_gbs: dict[int, float] = dict.fromkeys(world.bandwidth_gbs, 0.0)

    def close(self, number: int) -> None:
        """The node is gone. Nothing runs there any more."""
        node = self.nodes.pop(number)
        del self.idle[number]
        if node.schedulable:
            self.idle_by_type[node.gpu_type] -= node.gpus_total
        self._bays.pop(node_of(number), None)  # all of a node's bays close at one instant
        self.gone.add(number)
        self.changed.discard(number)

    def node_now(self, number: int) -> Node:
        idle = self.idle[number]
        return replace(
            self.nodes[number],
            idle_gpus=idle.gpus,
            idle_cores=idle.cores,
            idle_memory_mib=idle.memory_mib,
            tenants=idle.tenants,
        )

    @property
    def has_bays(self) -> bool:
        """Whether some node has GPUs of several types."""
        return bool(self._bays)

    def deal(self, waiting: Iterable[Job], promises: Iterable[Iterable[Share]]) -> dict[int, Node]:
        """Deal the idle resources of nodes with several types to their bays, as the service does before a planning.

        Returns the bays, whose totals follow.
        """
        wants, promised = wants_of(waiting), promised_on(promises)
        dealt: dict[int, Node] = {}
        for bays in self._bays.values():
            now = [self.node_now(bay) for bay in bays]
            cores = tuple(sorted(core for node in now for core in node.idle_cores))
            shared = Shared(cores, sum(node.idle_memory_mib for node in now), now[0].most_cores, now[0].most_memory_mib)
            held = [
                replace(
                    bay,
                    cores_total=bay.cores_total - len(bay.idle_cores),
                    memory_total_mib=bay.memory_total_mib - bay.idle_memory_mib,
                )
                for bay in now
            ]
            for node in deal(held, shared, wants, promised):
                self.idle[node.id].cores, self.idle[node.id].memory_mib = node.idle_cores, node.idle_memory_mib
                self.nodes[node.id] = dealt[node.id] = node
                self.changed.add(node.id)
        return dealt

    def take(self, pieces: Iterable[Piece], tenant: int) -> None:
        """Hand these pieces out. SimulationError if they are not idle: the plan was not feasible."""
        for piece in pieces:
            idle = self.idle[piece.node]
            gpus, cores = _without(idle.gpus, piece.gpus), _without(idle.cores, piece.cores)
            if gpus is None or cores is None or idle.memory_mib < piece.memory_mib:
                name = self.nodes[piece.node].name
                raise SimulationError(f"a plan hands out what is not idle on node {name}: {piece}")
            idle.gpus, idle.cores = gpus, cores
            self._count(piece, tenant, 1)

    def give(self, pieces: Iterable[Piece], tenant: int) -> None:
        """Make these pieces idle again."""
        for piece in pieces:
            idle = self.idle[piece.node]
            idle.gpus, idle.cores = _with(idle.gpus, piece.gpus), _with(idle.cores, piece.cores)
            self._count(piece, tenant, -1)

    def exchange(self, piece: Piece, cores: int, tenant: int) -> Piece:
        """The piece with `cores` cores: idle ones are taken, or some are given back. SimulationError when too few are idle."""
        held = piece.cores[:cores] + self.idle[piece.node].cores[: max(0, cores - len(piece.cores))]
        if len(held) < cores:
            raise SimulationError(f"node {piece.node} does not have {cores} cores for {piece}")
        changed = replace(piece, cores=held)
        self.give([piece], tenant)
        self.take([changed], tenant)
        return changed

    def _count(self, piece: Piece, tenant: int, sign: int) -> None:
        """Add a piece to, or take it from, all that is counted."""
        number, gpus, cores = piece.node, sign * len(piece.gpus), sign * len(piece.cores)
        node, idle = self.nodes[number], self.idle[number]
        idle.memory_mib -= sign * piece.memory_mib
        self.changed.add(number)
        self.gpus_held += gpus
        self.cores_held += cores
        held = self.held.setdefault(tenant, [0, 0])
        held[0] += gpus
        held[1] += cores
        if node.schedulable:
            self.idle_by_type[node.gpu_type] -= gpus
        if node.exclusive_tenant:
            whole = node_of(number)
            self._tenants[whole, tenant] += sign
            there = {tenant} if self._tenants[whole, tenant] > 0 else set()
            for bay in self._bays.get(whole, (number,)):
                self.idle[bay].tenants = self.idle[bay].tenants - {tenant} | there
                self.changed.add(bay)

    def draw(self, pieces: Iterable[Piece], bandwidth_gbs: float) -> list[int]:
        """Add to the traffic of these nodes' memory. Returns the nodes whose pressure this changes."""
        if not bandwidth_gbs:
            return []
        changed = [piece.node for piece in pieces if piece.node in self._drawn_gbs]
        for node in changed:
            self._drawn_gbs[node] += bandwidth_gbs
        return changed

    def pressure(self, node: int) -> float:
        """The demand for memory bandwidth over the node's; 0 where the world does not give one."""
        return self.part_of_bandwidth(node, self._drawn_gbs.get(node, 0.0))

    def part_of_bandwidth(self, node: int, drawn_gbs: float) -> float:
        """The traffic over the node's bandwidth; 0 where the world does not give one."""
        has_gbs = self._world.bandwidth_gbs.get(node)
        return max(0.0, drawn_gbs) / has_gbs if has_gbs else 0.0

    def gpus_short_of_cores(self, asks: Collection[Ask]) -> int:
        """Idle GPUs of nodes that would serve one of these if they had enough idle cores (section 10)."""
        short = 0
        for number, idle in self.idle.items() if asks else ():
            node, gpus = self.nodes[number], len(idle.gpus)
            if gpus and node.schedulable:
                short += gpus * any(
                    serves(types, node.gpu_type)
                    and memory_mib <= idle.memory_mib
                    and any(size <= gpus and len(idle.cores) < size * least for size in sizes)
                    for sizes, types, least, memory_mib in asks
                )
        return short

    def spots(self, pieces: Sequence[Piece]) -> tuple[Spot, ...]:
        """These parts of nodes, with all that affects a job's speed there now."""
        speeds = self._world.speeds
        return tuple(
            Spot(
                piece.node,
                self.nodes[piece.node].gpu_type,
                len(piece.gpus),
                len(piece.cores),
                speeds.get(piece.node, 1.0),
                self.pressure(piece.node),
            )
            for piece in pieces
        )


def _with(idle: tuple[int, ...], given: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(idle + given)) if given else idle


def _without(idle: tuple[int, ...], taken: tuple[int, ...]) -> tuple[int, ...] | None:
    """The idle ones that are left; None when some of those taken are not idle."""
    if idle[: len(taken)] == taken:
        return idle[len(taken) :]
    gone = set(taken)
    left = tuple(each for each in idle if each not in gone)
    return left if len(left) == len(idle) - len(taken) else None
