"""An operator's question to a job's owner: it stands on the job's page, and goes out by the way that the owner chose."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from portal.foundation.errors import BerthError, Conflict, Forbidden
from portal.foundation.events.services import page_event
from portal.people.tenants.services import audit_record
from portal.work.jobs.models import JobEvent
from portal.work.jobs.services.events import event_record
from portal.work.jobs.states import FINAL
from portal.work.notifications.models import Happening, Hook, Wishes
from portal.work.notifications.noting import Receivers

if TYPE_CHECKING:
    from portal.people.tenants.models import User
    from portal.work.jobs.models import Job

ASKED = "asked"
MOST_CHARS = 250
AGAIN = timedelta(minutes=10)


@transaction.atomic
def owner_ask(*, job: Job, actor: User, text: str) -> bool:
    """Tell the owner what an operator asks; return whether anything goes out. Without it the question stands on the page only.

    It goes as the message that nobody uses a job (`idle`). Raises Forbidden for others, BerthError for a text that is empty or
    too long, Conflict for a job that has ended or was asked about just now.
    """
    if not actor.is_operator:
        raise Forbidden("Only an operator may ask a job's owner.", code="operator_only")
    text = " ".join(text.split())
    if not 0 < len(text) <= MOST_CHARS:
        raise BerthError("invalid", f"`text` must have 1 to {MOST_CHARS} characters.", field="text")
    if job.state in FINAL:
        raise Conflict("ended", f"Job {job.number} has ended; there is nothing to ask for.")
    now = timezone.now()
    if JobEvent.objects.filter(job=job, kind=ASKED, at__gt=now - AGAIN).exists():
        raise Conflict("asked", f"Its owner was asked within the last {AGAIN.seconds // 60} minutes.")
    words = f"Question of {actor.username}: {text}"
    event_record(job_id=job.pk, kind=ASKED, text=words, epoch=job.epoch, actor=actor)
    audit_record(actor=actor, action="job.ask", target=f"job:{job.pk}", tenant=job.tenant)
    mark = f"{ASKED}-{int(now.timestamp())}"
    Happening.objects.create(job=job, what="idle", mark=mark, at=now, detail=words[:300])
    page_event(stream=f"job:{job.pk}", topic="job", id=job.pk)
    hooks = Hook.objects.filter(Q(user=job.owner_id) | Q(tenant=job.tenant_id), is_active=True)
    return bool(Receivers(Wishes.objects.filter(user=job.owner_id), hooks).of(job, "idle"))
