"""The reservation for a large job (algorithms.md section 4), against starvation behind smaller ones that cannot be stopped.

When the first job of an array's front has LR >= `reserve_lr`, the nodes that will suit it soonest, by the expected ends
of what runs there, are kept for it; others are placed on them only if their expected end is earlier. It is made before
the solve, so that no sum of smaller gains outbids the job on the day it fits. One at a time in an array.
An unknown expected end counts as one hour after the start, one that has passed as a moment from now.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scheduler.fairness.lrf import LAST_RESORT_S
from scheduler.model import Reservation
from scheduler.placement.feasibility import Level, Offer, aggregated_gpus, distributed_gpus, usable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scheduler.model import Job, Piece, Running


@dataclass(frozen=True, slots=True)
class _Release:
    time_s: float
    piece: Piece


def expected_end_s(live: Running, now_s: float) -> float:
    """When it is expected to end; never before now."""
    known = live.started_s + LAST_RESORT_S if live.expected_end_s is None else live.expected_end_s
    return max(known, now_s + 1.0)


def soonest(
    job: Job, idle: Sequence[Offer], running: Iterable[Running], largest: dict[str, int], now_s: float
) -> Reservation | None:
    """The nodes, of those offered, on which the job's R_1 fits soonest; None when it never will.

    One node unless R_1 exceeds the largest of its type. Ties: fewest idle GPUs left over, then the lowest id.
    """
    offers = {offer.node.id: offer for offer in idle if usable(job, offer, Level.TRUST)}
    releases = sorted(
        (
            _Release(expected_end_s(live, now_s), piece)
            for live in running
            for piece in live.pieces
            if piece.node in offers
        ),
        key=lambda each: (each.time_s, each.piece.node),
    )
    times_s = [now_s, *dict.fromkeys(release.time_s for release in releases)]
    done = 0
    for time_s in times_s:
        while done < len(releases) and releases[done].time_s <= time_s:
            piece = releases[done].piece
            offers[piece.node] = _grown(offers[piece.node], piece)
            done += 1
        nodes = _suiting(job, list(offers.values()), largest)
        if nodes:
            return Reservation(job.id, nodes, time_s, job.tenant)
    return None


def _grown(offer: Offer, piece: Piece) -> Offer:
    return replace(
        offer,
        gpus=offer.gpus + len(piece.gpus),
        cores=offer.cores + len(piece.cores),
        memory_mib=offer.memory_mib + piece.memory_mib,
    )


def _suiting(job: Job, offers: Sequence[Offer], largest: dict[str, int]) -> frozenset[int]:
    single = [offer for offer in offers if aggregated_gpus(job, offer) >= job.min_gpus]
    if single:
        return frozenset({min(single, key=lambda each: (each.gpus, each.node.id)).node.id})
    by_type: dict[str, list[Offer]] = {}
    for offer in offers:
        if job.min_gpus > largest.get(offer.node.gpu_type or "", 0):
            by_type.setdefault(offer.node.gpu_type or "", []).append(offer)
    for own in by_type.values():
        nodes: set[int] = set()
        missing = job.min_gpus
        for offer in sorted(own, key=lambda each: (-each.gpus, each.node.id)):
            gpus = distributed_gpus(job, offer, job.min_gpus)
            if gpus and missing > 0:
                nodes.add(offer.node.id)
                missing -= gpus
        if missing <= 0:
            return frozenset(nodes)
    return frozenset()
