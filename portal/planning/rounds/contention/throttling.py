"""Carries out what the scheduler says about a CPU job: less, and all of it again; and tells both jobs and the node.

A node's events are read by everybody, and so name no job.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from django.db import transaction

from portal.cluster.models import NodeEvent
from portal.foundation.events.services import page_event
from portal.work.jobs.models import Attempt, Job, Slowing
from portal.work.jobs.selectors import ANOTHERS
from portal.work.jobs.services.cores import CorePlace, core_place, cores_order
from portal.work.jobs.services.events import event_record

if TYPE_CHECKING:
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
        slowed_tell(slowing)
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
    let_go_tell(slowing)
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


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def reason(slowing: Slowing, helped: str) -> str:
    """Return why a job was slowed: `it took 61 % of the node's memory bandwidth and #41 lost 18 % of its speed`."""
    took = f"it took {percent(slowing.drew)} of the node's memory bandwidth"
    if slowing.cause == slowing.Cause.TRIAL:
        return f"{took}, to see whether {helped} gets faster without that"
    lost = "fell back" if slowing.lost is None else f"lost {percent(slowing.lost)} of its speed"
    return f"{took} and {helped} {lost}"


def named(job: Job, reader: Job) -> str:
    """Return a job's name on another job's page."""
    return f"#{job.number}" if job.tenant_id == reader.tenant_id else ANOTHERS


def slowed_tell(slowing: Slowing) -> None:
    """Tell the node and both jobs that a job is slowed."""
    job, node = slowing.attempt.job, slowing.node
    helped = slowing.helped.job if slowing.helped else None
    other = named(helped, job) if helped else "a training job"
    event_record(
        job_id=job.pk, kind="slowed", text=f"Slowed, because {reason(slowing, other)}.", epoch=slowing.attempt.epoch
    )
    detail = f"a CPU job, because {reason(slowing, 'a training job')}"
    NodeEvent.objects.create(node=node, kind="job slowed", detail=detail)
    if helped is not None and slowing.helped is not None:
        took = f"it took {percent(slowing.drew)} of the node's memory bandwidth"
        text = f"{named(job, helped).capitalize()} on {node.name} is slowed for this job, because {took}."
        event_record(job_id=helped.pk, kind="relieved", text=text, epoch=slowing.helped.epoch)


def let_go_tell(slowing: Slowing) -> None:
    """Tell the node and both jobs that a job is slowed no more."""
    minutes = ((slowing.to_at or slowing.from_at) - slowing.from_at).total_seconds() / 60
    after = f"after {minutes:.0f} min" if minutes >= 1 else "within a minute"
    why = slowing.get_outcome_display()
    NodeEvent.objects.create(node=slowing.node, kind="job let go", detail=f"a CPU job, {after}: {why}")
    text = f"No longer slowed, {after}: {why}."
    event_record(job_id=slowing.attempt.job_id, kind="let go", text=text, epoch=slowing.attempt.epoch)
    if slowing.helped is not None and slowing.helped.ended_at is None:
        who = named(slowing.attempt.job, slowing.helped.job).capitalize()
        text = f"{who} is no longer slowed for this job, {after}: {why}."
        event_record(job_id=slowing.helped.job_id, kind="relieved", text=text, epoch=slowing.helped.epoch)
