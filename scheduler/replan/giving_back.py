"""Choose the borrowers that stop so that an owner's job can start (CODA V-C; algorithms.md section 4).

Of the movable borrowers that keep the job out, the fewest are stopped, and of equally few the youngest. Borrowers are GPU jobs on
nodes of the other GPU array, and CPU jobs on a node where CPU jobs hold more than the CPU array's cores. A stopped borrower goes
to the head of its array.
"""

from __future__ import annotations

from itertools import combinations, islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scheduler.fairness.arrays import Array, Division
    from scheduler.fairness.borrowing import HomeArrays
    from scheduler.model import Configuration, Node, Running
    from scheduler.placement.ledger import Ledger

SETS_TRIED = 2_000
"""The most sets of borrowers of one size that are compared; after that the first set that is enough is taken."""


def borrowers(
    running: Iterable[Running], nodes: Mapping[int, Node], division: Division, homes: HomeArrays
) -> list[Running]:
    """The movable jobs that hold resources of another array and are not stopping yet, youngest first."""
    live = list(running)
    cpu_cores: dict[int, int] = {}
    for each in live:
        if not each.gpus:
            for piece in each.pieces:
                cpu_cores[piece.node] = cpu_cores.get(piece.node, 0) + len(piece.cores)
    found = [
        each
        for each in live
        if each.movable and not each.stopping and _borrows(each, nodes, division, homes, cpu_cores)
    ]
    return sorted(found, key=lambda each: (-each.started_s, each.job))


def _borrows(
    live: Running, nodes: Mapping[int, Node], division: Division, homes: HomeArrays, cpu_cores: Mapping[int, int]
) -> bool:
    pieces = [piece for piece in live.pieces if piece.node in nodes]
    if live.gpus:
        own = homes.of_running(live)
        return any(division.array_of_node(piece.node) is not own for piece in pieces)
    return any(
        cpu_cores[piece.node] > nodes[piece.node].cores_total - division.reserved(piece.node) for piece in pieces
    )


def owner_borrowers(array: Array, found: Sequence[Running], division: Division, homes: HomeArrays) -> list[Running]:
    """The borrowers in a GPU array: they run on its nodes and belong to another array."""
    return [
        live
        for live in found
        if (not live.gpus or homes.of_running(live) is not array)
        and any(division.array_of_node(piece.node) is array for piece in live.pieces)
    ]


def whom_to_stop(wanted: Configuration, ledger: Ledger, found: Sequence[Running]) -> tuple[Running, ...] | None:
    """The fewest of `found` (youngest first) that must stop so that the configuration fits; None when it never does."""
    nodes = {share.node for share in wanted.shares}
    here = [live for live in found if any(piece.node in nodes for piece in live.pieces)]
    for size in range(len(here) + 1):
        serving = [chosen for chosen in islice(combinations(here, size), SETS_TRIED) if _fits(wanted, ledger, chosen)]
        if serving:
            # Youngest: the set whose oldest member started last.
            return max(serving, key=lambda chosen: sorted(live.started_s for live in chosen))
    return None


def _fits(wanted: Configuration, ledger: Ledger, stopped: Sequence[Running]) -> bool:
    for share in wanted.shares:
        free = ledger.free[share.node]
        pieces = [piece for live in stopped for piece in live.pieces if piece.node == share.node]
        if (
            len(free.gpus) + sum(len(piece.gpus) for piece in pieces) < share.gpus
            or len(free.cores) + sum(len(piece.cores) for piece in pieces) < share.cores
            or free.memory_mib + sum(piece.memory_mib for piece in pieces) < share.memory_mib
        ):
            return False
    return True
