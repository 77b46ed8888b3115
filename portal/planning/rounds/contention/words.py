"""Sentences about a slowed job: on its own page, on that of the job it slowed, and among the node's events.

A node's events are read by everybody, and so name no job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from portal.cluster.models import NodeEvent
from portal.work.jobs.selectors import ANOTHERS
from portal.work.jobs.services.events import event_record

if TYPE_CHECKING:
    from portal.work.jobs.models import Job, Slowing


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
