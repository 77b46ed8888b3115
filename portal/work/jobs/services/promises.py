"""Promises of plannings to jobs (algorithms, sections 4, 7): gone when the job starts, ends or is held, or they lapse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from portal.work.jobs.models import Attempt, Job, Promise
from portal.work.jobs.states import LIVE, JobState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ShareRow = tuple[int, ...]
"""Node id, GPUs, cores, memory in MiB; a fifth number where the GPUs are not of the type that the node goes by: their type."""


def promise_give(
    *, job_id: int, shares: Sequence[ShareRow], cause: str, planning_number: int, cores_wanted: int | None
) -> bool:
    """Keep these resources for a job that waits, or that is being stopped to go on there; False when it does neither.

    The caller holds the job's lock. A second promise takes the place of the first.
    """
    stopping = Attempt.objects.runs().live().filter(job=OuterRef("pk")).exclude(stop_reason="")
    may = Q(state__in=[JobState.PENDING, JobState.PREEMPTED]) | Q(Exists(stopping), state__in=LIVE)
    if not Job.objects.filter(may, pk=job_id, cancel_requested_at=None).exists():
        return False
    values = {
        "shares": [list(share) for share in shares],
        "cause": cause,
        "planning_number": planning_number,
        "given_at": timezone.now(),
        "cores_wanted": cores_wanted,
    }
    Promise.objects.update_or_create(job_id=job_id, defaults=values)
    return True


def promises_withdraw(*, job_ids: Iterable[int]) -> int:
    """Give up what is kept for these jobs; return for how many of them something was kept."""
    wanted = list(job_ids)
    return Promise.objects.filter(job__in=wanted).delete()[0] if wanted else 0
