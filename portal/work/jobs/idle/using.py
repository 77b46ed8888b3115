"""Uses of a job that no measurement shows: a terminal, an app, and a person who says that it is to run on."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from portal.foundation.errors import Conflict
from portal.foundation.events.services import page_event
from portal.people.tenants.selectors import work_check
from portal.people.tenants.services import audit_record
from portal.work.jobs.models import Attempt, IdleWatch
from portal.work.jobs.services.events import event_record
from portal.work.jobs.states import AttemptState

if TYPE_CHECKING:
    from portal.people.tenants.models import User
    from portal.work.jobs.models import Job


KEPT = "kept"
KEPT_ONCE_S = 60.0
WARNING_S = 1800.0
IDLE_END = ", its idle time-out"
"""How the reason of such an end ends."""


def warning_s(limit_s: float) -> float:
    """Return how long before a limit a job is warned of: at most a fifth of the limit, so that short jobs are not all."""
    return min(WARNING_S, limit_s / 5)


def ends_s(limit_s: float, warned_idle_s: float) -> float:
    """Return after how much idle time a job ends that was warned after `warned_idle_s`: never without the time of its warning."""
    return max(limit_s, warned_idle_s + warning_s(limit_s))


def span(seconds: float) -> str:
    """Return a time in its two largest units: `40 s`, `1 min 20 s`, `2 h`, `30 h 10 min`."""
    whole = round(seconds)
    units = [(whole // 3600, "h"), (whole // 60 % 60, "min"), (whole % 60, "s")]
    first = next((place for place, (count, _) in enumerate(units) if count), 2)
    return " ".join(f"{count} {unit}" for count, unit in units[first : first + 2] if count) or "0 s"


def idle_used(*, attempt_id: int, by: str) -> None:
    """Note that a running attempt is used now; nothing where it is not watched."""
    watches = IdleWatch.objects.filter(attempt=attempt_id)
    warned = watches.filter(warned_idle_s__isnull=False).values_list("attempt__job_id", flat=True).first()
    watches.update(
        parts={}, idle_s=0.0, warned_idle_s=None, uses=F("uses") + 1, used_at=timezone.now(), used_by=by[:16]
    )
    if warned is not None:
        page_event(stream=f"job:{warned}", topic="job", id=warned)


@transaction.atomic
def job_keep(*, job: Job, actor: User) -> Job:
    """Let a running job's idle time begin anew; return the job. Raises Forbidden, and Conflict where nothing would end it.

    Said again within `KEPT_ONCE_S` it does the same, but is noted once: a script may say it each second.
    """
    work_check(actor, job.tenant)
    attempt = Attempt.objects.runs().live().filter(job=job, state=AttemptState.RUNNING, stop_reason="").first()
    if attempt is None or job.idle_timeout_s is None:
        raise Conflict(
            "not_running", f"Job {job.number} does not run now, or has no idle time-out; nothing would end it."
        )
    since = timezone.now() - timedelta(seconds=KEPT_ONCE_S)
    told = IdleWatch.objects.filter(attempt=attempt, used_by=KEPT, used_at__gt=since, warned_idle_s=None).exists()
    idle_used(attempt_id=attempt.pk, by=KEPT)
    if told:
        return job
    text = f"Kept running by {actor.username}: its idle time begins anew."
    event_record(job_id=job.pk, kind="kept", text=text, epoch=attempt.epoch, actor=actor)
    audit_record(actor=actor, action="job.keep", target=f"job:{job.pk}", tenant=job.tenant)
    page_event(stream=f"job:{job.pk}", topic="job", id=job.pk)
    return job
