"""Reservations for large jobs (algorithms.md section 4), so that they do not starve behind small jobs that cannot be stopped.

If a job at the head of an array's window has LR >= `reserve_lr`, nodes are kept for it: those where it will fit soonest, by the
expected ends of the jobs there. Another job is placed on them only if its expected end is earlier. Reservations are made before
the solve, so that many small gains together do not outbid the job when it fits. In each array one job at a time has one: their
number decides whether large or small jobs wait, and hardly how much is idle (docs/decisions/0041). Only a job that `has_waited`
long waits for guessed ends, too: nodes idle for nothing where one comes late. A guess counts as late as
`estimator.lengths` says, an unknown end as one hour after the start, and one that has passed as one second from now.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import chain, groupby
from typing import TYPE_CHECKING

from scheduler.copies import replace
from scheduler.estimator.lengths import KNOWN_PATIENCE_S, LAST_RESORT_S, LATE, PATIENCE_S, Length, is_sure
from scheduler.fairness.lrf import LONGEST_S
from scheduler.model import Job, Piece, Ranked, Reservation, Running
from scheduler.placement.feasibility import Level, aggregated_gpus, distributed_gpus, open_long_enough, usable
from scheduler.placement.free_capacity import Offer

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence


def starving(picked: Sequence[Ranked], reserve_lr: float | None) -> Ranked | None:
    """The job of an array's window that nodes may be kept for: the first of a known length, or that waited for `PATIENCE_S`, if
    its LR >= `reserve_lr`.
    """
    first = next((each for each in picked if is_sure(each.spread) or has_waited(each)), None)
    return first if first is not None and reserve_lr is not None and first.latency_ratio >= reserve_lr else None


def has_waited(ranked: Ranked) -> bool:
    """Whether it has waited for `PATIENCE_S`, or with a known length for `KNOWN_PATIENCE_S`."""
    return ranked.latency_ratio * ranked.age_s >= (KNOWN_PATIENCE_S if is_sure(ranked.spread) else PATIENCE_S)


def waited_for(ranked: Ranked, running: Iterable[Running]) -> list[Running]:
    """The running jobs for whose ends its reservation may wait."""
    return [live for live in running if has_waited(ranked) or is_sure(live.spread)]


def expected_end_s(live: Running, now_s: float) -> float:
    """When it is expected to end; never before now, and in ten years at the latest."""
    known = live.started_s + LAST_RESORT_S if live.expected_end_s is None else live.expected_end_s
    return min(max(known, now_s + 1.0), now_s + LONGEST_S)


def late_end_s(live: Running, now_s: float) -> float:
    """When it will have ended, as far as that is known: a guess counts at its `LATE` quantile, given how long it has run."""
    return expected_end_s(live, now_s) if is_sure(live.spread) else _end_s(live, now_s, LATE)


def middle_end_s(live: Running, now_s: float) -> float:
    """When it is expected to end, given how long it has run: the longer, the later."""
    return _end_s(live, now_s, 0.5)


def _end_s(live: Running, now_s: float, part: float) -> float:
    began_s, median_s = live.started_s, LAST_RESORT_S
    if live.age_s is not None:
        began_s, median_s = live.started_s - live.ran_s, max(1.0, live.age_s)
    elif live.expected_end_s is not None:
        median_s = max(1.0, live.expected_end_s - live.started_s)
    ends_s = began_s + Length(median_s, "", live.spread).quantile(part, max(0.0, now_s - began_s))
    return min(max(ends_s, now_s + 1.0), now_s + LONGEST_S)


def soonest(
    job: Job, idle: Sequence[Offer], running: Iterable[Running], largest: dict[str, int], now_s: float
) -> Reservation | None:
    """The nodes, of those offered, on which the job's R_1 fits soonest; None when it never will.

    One node, unless R_1 exceeds the largest node of its type. Ties: the fewest idle GPUs left over, then the lowest id. Each
    node is looked at once, and again whenever something on it ends.
    """
    offers = {offer.node.id: offer for offer in idle if usable(job, offer, Level.TRUST)}
    closing = {number for number, offer in offers.items() if offer.node.closes_s < math.inf}
    parts = _Parts(job, largest)
    grown = set(offers)
    for time_s, ended in chain([(now_s, ())], _releases(running, offers, now_s)):
        for piece in ended:
            offers[piece.node] = _grown(offers[piece.node], piece)
            grown.add(piece.node)
        for node in [each for each in closing if not open_long_enough(job, offers[each].node, wait_s=time_s - now_s)]:
            offers[node] = Offer(offers[node].node, 0, 0, 0)
            grown.add(node)
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
        ((late_end_s(live, now_s), piece) for live in running for piece in live.pieces if piece.node in nodes),
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
