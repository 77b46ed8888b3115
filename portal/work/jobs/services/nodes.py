"""Act on jobs when something happens to their node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils import timezone

from portal.cluster import followers
from portal.work.jobs.models import Attempt, GpuAllocation
from portal.work.jobs.services.control import nodes_wake
from portal.work.jobs.services.events import event_record
from portal.work.jobs.services.locks import road_lock
from portal.work.jobs.services.parts import jobs_on, node_parts_lose, node_silence_forget
from portal.work.jobs.states import StopReason

if TYPE_CHECKING:
    from collections.abc import Collection

    from portal.cluster.models import Node


def parts_unwell(*, node: Node, indices: Collection[int] | None, detail: str) -> int:
    """Stop the attempts with a part on failed GPUs of a node (None: anywhere on it); return how many were asked.

    Only those of jobs that may run again: another would lose its work, and perhaps its GPU still does its work. The
    caller holds the locks of the node and of the jobs that run there.
    """
    live = Attempt.objects.live().filter(allocations__node=node, allocations__released_at=None).select_related("job")
    if indices is not None:
        held = {"released_at": None, "gpu__node": node, "gpu__index__in": list(indices)}
        live = live.filter(pk__in=GpuAllocation.objects.filter(**held).values("allocation__attempt"))
    asked = 0
    for attempt in live.order_by("pk").distinct():
        again = attempt.is_profile or attempt.job.is_requeueable
        text = "Stopped, to run elsewhere: " if again else "Not stopped, since it may not run again, but: "
        event_record(job_id=attempt.job_id, kind="unwell", text=f"{text}{detail}.", epoch=attempt.epoch)
        waiting = Attempt.objects.filter(pk=attempt.pk, ended_at=None, stop_reason__in=["", StopReason.PREEMPT])
        if again and waiting.update(stop_reason=StopReason.UNWELL, stop_at=timezone.now()):
            nodes_wake(attempt=attempt)
            asked += 1
    return asked


def node_jobs_lock(*, node: Node) -> None:
    """Lock a node together with the jobs that run on it and their other nodes."""
    road_lock(jobs=lambda: jobs_on(node_id=node.pk), nodes=[node.pk])


def nodes_follow() -> None:
    """Register what happens to jobs with their nodes; called once, in `apps.ready()`."""
    followers.node_lock.append(node_jobs_lock)
    followers.node_back.append(node_silence_forget)
    followers.gpus_failed.append(parts_unwell)
    followers.parts_lost.append(node_parts_lose)
