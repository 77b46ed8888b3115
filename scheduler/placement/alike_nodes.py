"""Groups of equal nodes: the same type, speed class, software, idle GPUs, cores and memory.

If a job takes one node, and its speed depends only on the GPU type, it has the same configurations on all nodes of a group. Ties
go to the lowest id, so it is enough to offer it the first node of each group. There are few groups, however many nodes there
are. A change of a node moves only that node to another group, so that starting a job costs no walk over the cluster.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING

from scheduler.placement.core_choices import speed_class
from scheduler.placement.feasibility import Offer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scheduler.placement.rooms import Room

    Key = tuple[str | None, int, int, int, int, frozenset[int] | None, frozenset[str]]


class AlikeNodes:
    """The rooms in groups of equal ones. `moved`: nodes whose rooms have changed since; the code that changes a room adds it."""

    def __init__(self, rooms: Mapping[int, Room]) -> None:
        self._rooms = rooms
        self._key: dict[int, Key] = {}
        self._nodes: dict[Key, list[int]] = {}
        self._first: dict[Key, Offer] = {}
        self._sorted: list[Offer] | None = None
        self.idle_gpus: dict[str | None, int] = {}  # by type
        for number in sorted(rooms):
            self._put(number)

    def moved(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            if number in self._rooms:
                self._put(number)

    def offers(self) -> list[Offer]:
        """The first node of each group, by id."""
        if self._sorted is None:
            for key, nodes in self._nodes.items():
                first = self._first.get(key)
                if first is None or first.node.id != nodes[0]:
                    room = self._rooms[nodes[0]]
                    self._first[key] = Offer(room.node, key[2], key[3], key[4], room.tenants)
            self._sorted = sorted(self._first.values(), key=lambda offer: offer.node.id)
        return self._sorted

    def _put(self, number: int) -> None:
        room = self._rooms[number]
        node = room.node
        exclusive = room.tenants if node.exclusive_tenant else None
        idle = (len(room.gpus), len(room.cores), room.memory_mib)
        key = (node.gpu_type, speed_class(node), *idle, exclusive, node.offers)
        before = self._key.get(number)
        if before == key:
            return
        if before is not None:
            self._take_off(number, before)
        self._key[number] = key
        insort(self._nodes.setdefault(key, []), number)
        self.idle_gpus[key[0]] = self.idle_gpus.get(key[0], 0) + key[2]
        self._sorted = None

    def _take_off(self, number: int, key: Key) -> None:
        nodes = self._nodes[key]
        del nodes[bisect_left(nodes, number)]
        if not nodes:
            del self._nodes[key]
            self._first.pop(key, None)
        self.idle_gpus[key[0]] -= key[2]
