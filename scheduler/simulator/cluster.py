"""The simulated cluster as it is: what is idle on each node, who is there, and how hard its memory is pressed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from scheduler.simulator.errors import SimulationError
from scheduler.simulator.truth import Spot

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scheduler.model import Node, Piece
    from scheduler.simulator.truth import World


class Cluster:
    """Nodes with what is idle on them. `take` and `give` are the only changes; both check what they are told."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.nodes: dict[int, Node] = {}
        for node in sorted(world.nodes, key=lambda each: each.id):
            if node.id in self.nodes:
                raise SimulationError(f"node {node.id} is listed twice in the world; give each node an id of its own")
            whole = replace(node, idle_gpus=tuple(range(node.gpus_total)), idle_cores=tuple(range(node.cores_total)))
            self.nodes[node.id] = replace(whole, idle_memory_mib=node.memory_total_mib, tenants=frozenset())
        self.gpus_total = sum(node.gpus_total for node in self.nodes.values())
        self.cores_total = sum(node.cores_total for node in self.nodes.values())
        self.gpus_held = self.cores_held = 0
        self._tenants: Counter[tuple[int, int]] = Counter()
        self._drawn_gbs: dict[int, float] = dict.fromkeys(world.bandwidth_gbs, 0.0)

    @property
    def idle_types(self) -> set[str]:
        """The GPU types of which some are idle."""
        return {node.gpu_type for node in self.nodes.values() if node.gpu_type and node.idle_gpus}

    def take(self, pieces: Iterable[Piece], tenant: int) -> None:
        """Hand these out. SimulationError when they are not idle: the plan was not feasible."""
        for piece in pieces:
            node = self.nodes[piece.node]
            gpus, cores = _without(node.idle_gpus, piece.gpus), _without(node.idle_cores, piece.cores)
            memory = node.idle_memory_mib - piece.memory_mib
            if gpus is None or cores is None or memory < 0:
                raise SimulationError(f"a plan hands out what is not idle on node {node.name}: {piece}")
            self._tenants[piece.node, tenant] += 1
            self._become(node, gpus, cores, memory, node.tenants | {tenant})
            self.gpus_held += len(piece.gpus)
            self.cores_held += len(piece.cores)

    def give(self, pieces: Iterable[Piece], tenant: int) -> None:
        """Make these idle again."""
        for piece in pieces:
            node = self.nodes[piece.node]
            gpus = tuple(sorted(node.idle_gpus + piece.gpus))
            cores = tuple(sorted(node.idle_cores + piece.cores))
            self._tenants[piece.node, tenant] -= 1
            stays = self._tenants[piece.node, tenant] > 0
            tenants = node.tenants if stays else node.tenants - {tenant}
            self._become(node, gpus, cores, node.idle_memory_mib + piece.memory_mib, tenants)
            self.gpus_held -= len(piece.gpus)
            self.cores_held -= len(piece.cores)

    def _become(
        self, node: Node, gpus: tuple[int, ...], cores: tuple[int, ...], memory_mib: int, tenants: frozenset[int]
    ) -> None:
        self.nodes[node.id] = replace(
            node, idle_gpus=gpus, idle_cores=cores, idle_memory_mib=memory_mib, tenants=tenants
        )

    def draw(self, pieces: Iterable[Piece], bandwidth_gbs: float) -> list[int]:
        """Add so much to what is drawn from the memory of these nodes; those whose pressure this changes."""
        if not bandwidth_gbs:
            return []
        changed = [piece.node for piece in pieces if piece.node in self._drawn_gbs]
        for node in changed:
            self._drawn_gbs[node] += bandwidth_gbs
        return changed

    def pressure(self, node: int) -> float:
        """Memory bandwidth asked for over what the node has; 0 where the world does not say what it has."""
        has_gbs = self._world.bandwidth_gbs.get(node)
        return max(0.0, self._drawn_gbs[node]) / has_gbs if has_gbs else 0.0

    def spots(self, pieces: Sequence[Piece]) -> tuple[Spot, ...]:
        """These parts of nodes as they bear on a job's speed, now."""
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


def _without(idle: tuple[int, ...], taken: tuple[int, ...]) -> tuple[int, ...] | None:
    """The idle ones that are left; None when some of those taken are not idle."""
    if idle[: len(taken)] == taken:
        return idle[len(taken) :]
    gone = set(taken)
    left = tuple(each for each in idle if each not in gone)
    return left if len(left) == len(idle) - len(taken) else None
