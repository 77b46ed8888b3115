"""Reservations for large jobs (algorithms.md section 4), so that they do not starve behind small jobs that cannot be stopped.

If a job at the head of an array's window has LR >= `reserve_lr`, nodes are kept for it: those where it will fit soonest, by the
expected ends of the jobs there. Another job is placed on them only if its expected end is earlier. Reservations are made before
the solve, so that many small gains together do not outbid the job when it fits. In each array one job at a time has one: their
number decides whether large or small jobs wait, and hardly how much is idle (docs/decisions/0041). An unknown expected end
counts as one hour after the start, and one that has passed as one second from now.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain, groupby
from typing import TYPE_CHECKING

from scheduler.copies import replace
from scheduler.fairness.lrf import LAST_RESORT_S, LONGEST_S
from scheduler.model import Job, Piece, Ranked, Reservation, Running
from scheduler.placement.feasibility import Level, aggregated_gpus, distributed_gpus, usable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from scheduler.placement.free_capacity import Offer


def starving(picked: Sequence[Ranked], reserve_lr: float | None) -> Ranked | None:
    """The job of an array's window that nodes may be kept for: the first, if its LR >= `reserve_lr`."""
    if reserve_lr is None or not picked or picked[0].latency_ratio < reserve_lr:
        return None
    return picked[0]


def expected_end_s(live: Running, now_s: float) -> float:
    """When it is expected to end; never before now, and in ten years at the latest."""
    known = live.started_s + LAST_RESORT_S if live.expected_end_s is None else live.expected_end_s
    return min(max(known, now_s + 1.0), now_s + LONGEST_S)


def soonest(
    job: Job, idle: Sequence[Offer], running: Iterable[Running], largest: dict[str, int], now_s: float
) -> Reservation | None:
    """The nodes, of those offered, on which the job's R_1 fits soonest; None when it never will.

    One node, unless R_1 exceeds the largest node of its type. Ties: the fewest idle GPUs left over, then the lowest id. Each
    node is looked at once, and again whenever something on it ends.
    """
    offers = {offer.node.id: offer for offer in idle if usable(job, offer, Level.TRUST)}
    parts = _Parts(job, largest)
    grown = set(offers)
    for time_s, ended in chain([(now_s, ())], _releases(running, offers, now_s)):
        for piece in ended:
            offers[piece.node] = _grown(offers[piece.node], piece)
            grown.add(piece.node)
        single = [offers[node] for node in grown if aggregated_gpus(job, offers[node]) >= job.min_gpus]
        if single:
            node = min(single, key=lambda each: (each.gpus, each.node.id)).node.id
            return Reservation(job.id, frozenset({node}), time_s, job.tenant)
        nodes = parts.enough(offers, sorted(grown))
        if nodes:
            return Reservation(job.id, nodes, time_s, job.tenant)
        grown.clear()
    return None


def _releases(
    running: Iterable[Running], nodes: Collection[int], now_s: float
) -> Iterator[tuple[float, Iterable[Piece]]]:
    """When what runs on these nodes is expected to end, soonest first, with the pieces that it then frees there."""
    releases = sorted(
        ((expected_end_s(live, now_s), piece) for live in running for piece in live.pieces if piece.node in nodes),
        key=lambda each: (each[0], each[1].node),
    )
    for time_s, ended in groupby(releases, key=lambda each: each[0]):
        yield time_s, (piece for _, piece in ended)


class _Parts:
    """The parts that nodes could hold of a job that is larger than any node of their type, by type."""

    def __init__(self, job: Job, largest: dict[str, int]) -> None:
        self._job, self._largest = job, largest
        self._parts: dict[str, dict[int, int]] = {}  # type -> node -> GPUs
        self._sums = Counter[str]()

    def enough(self, offers: Mapping[int, Offer], grown: Iterable[int]) -> frozenset[int]:
        """The fewest nodes of one type that hold the job together; empty = none do. `grown`: nodes whose offers have changed."""
        for node in grown:
            gpu_type = offers[node].node.gpu_type or ""
            if self._job.min_gpus > self._largest.get(gpu_type, 0):
                own = self._parts.setdefault(gpu_type, {})
                gpus = distributed_gpus(self._job, offers[node], self._job.min_gpus)
                self._sums[gpu_type] += gpus - own.get(node, 0)
                own[node] = gpus
        held = next((name for name in self._parts if self._sums[name] >= self._job.min_gpus), None)
        return frozenset() if held is None else self._fewest(self._parts[held])

    def _fewest(self, parts: Mapping[int, int]) -> frozenset[int]:
        taken: list[int] = []
        missing = self._job.min_gpus
        for node in sorted(parts, key=lambda each: (-parts[each], each)):
            if missing <= 0:
                break
            taken.append(node)
            missing -= parts[node]
        return frozenset(taken)


def _grown(offer: Offer, piece: Piece) -> Offer:
    return replace(
        offer,
        gpus=offer.gpus + len(piece.gpus),
        cores=offer.cores + len(piece.cores),
        memory_mib=offer.memory_mib + piece.memory_mib,
    )
