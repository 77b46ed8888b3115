"""Carries out what the scheduler says about a CPU job: less, and all of it again; and tells both jobs and the node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction

from portal.foundation.events.services import page_event
from portal.planning.rounds.contention import words
from portal.work.jobs.models import Attempt, Slowing
from portal.work.jobs.services.cores import core_place, cores_order

if TYPE_CHECKING:
    from datetime import datetime

    from portal.work.jobs.services.cores import CorePlace
    from scheduler.contention import Order

CORES = "cores"


@transaction.atomic
def order_apply(order: Order, *, lost: float | None, drew: float, now: datetime) -> bool:
    """Give a CPU job the share that it is to have; False where it cannot be ordered now, and so was not."""
    place = core_place(attempt_id=order.job)
    if place is None:
        return False
    slowing = Slowing.objects.filter(attempt_id=order.job, to_at=None).first()
    if order.share >= 1:
        if slowing is not None:
            _give(place, slowing, 1.0)
            _close(slowing, Slowing.Outcome(order.cause), now=now)
        return True
    if slowing is None:
        slowing = _open(order, place, lost=lost, drew=drew, now=now)
        words.slowed_tell(slowing)
    slowing.share, slowing.changed_at = order.share, now
    slowing.save(update_fields=["share", "changed_at"])
    _give(place, slowing, order.share)
    _told(slowing)
    return True


def _open(order: Order, place: CorePlace, *, lost: float | None, drew: float, now: datetime) -> Slowing:
    owed = Slowing.objects.filter(attempt_id=order.job, cores_owed__isnull=False)
    before = max([len(place.part.core_ids), *owed.values_list("cores_owed", flat=True)])
    owed.update(cores_owed=None)
    return Slowing.objects.create(
        attempt=place.attempt,
        node=place.node,
        helped=Attempt.objects.filter(pk=order.training).first(),
        means=place.node.memory_traffic.get("throttle") or CORES,
        cause=order.cause,
        share=order.share,
        drew=drew,
        lost=lost,
        cores_before=before,
        from_at=now,
        changed_at=now,
    )


def _give(place: CorePlace, slowing: Slowing, share: float) -> None:
    """Order a share of its cores, or of its traffic with the same cores, where its node can hold it so."""
    if slowing.means == CORES:
        cores = max(1, int(slowing.cores_before * share))
        cores_order(place=place, cores=min(cores, len(place.part.core_ids) + len(place.idle)))
    else:
        cores_order(place=place, cores=len(place.part.core_ids), share=share)


def _close(slowing: Slowing, outcome: Slowing.Outcome, *, now: datetime) -> None:
    slowing.to_at, slowing.changed_at, slowing.outcome = now, now, outcome
    owes = slowing.means == CORES and outcome != Slowing.Outcome.ENDED
    slowing.cores_owed = slowing.cores_before if owes else None
    slowing.save(update_fields=["to_at", "changed_at", "outcome", "cores_owed"])
    words.let_go_tell(slowing)
    _told(slowing)


def _told(slowing: Slowing) -> None:
    """Let open pages look again."""
    page_event(stream="cluster", topic="node")
    for attempt in (slowing.attempt, slowing.helped):
        if attempt is not None:
            page_event(stream=f"job:{attempt.job_id}", topic="job", id=attempt.job_id)


def ended_close(*, now: datetime) -> int:
    """Close what concerns attempts that are over; return how many were."""
    over = Slowing.objects.filter(to_at=None, attempt__ended_at__isnull=False)
    for slowing in over.select_related("attempt__job", "helped__job"):
        with transaction.atomic():
            _close(slowing, Slowing.Outcome.ENDED, now=now)
    Slowing.objects.filter(cores_owed__isnull=False, attempt__ended_at__isnull=False).update(cores_owed=None)
    return len(over)


@transaction.atomic
def let_go(slowing: Slowing, *, now: datetime) -> bool:
    """Let a job go because slowing is switched off; False where nothing can be ordered now."""
    place = core_place(attempt_id=slowing.attempt_id)
    if place is None:
        return False
    _give(place, slowing, 1.0)
    _close(slowing, Slowing.Outcome.OFF, now=now)
    return True


@transaction.atomic
def cores_regain(slowing: Slowing) -> None:
    """Give a job that was let go what it had before, as far as it is idle."""
    place = core_place(attempt_id=slowing.attempt_id)
    if place is None or slowing.cores_owed is None:
        return
    held = len(place.part.core_ids)
    cores = min(slowing.cores_owed, held + len(place.idle))
    if cores > held:
        cores_order(place=place, cores=cores)
    if cores >= slowing.cores_owed:
        Slowing.objects.filter(pk=slowing.pk).update(cores_owed=None)
