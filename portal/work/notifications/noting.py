"""Note happenings: moves in the transaction that makes them, and the passing of time by a look each minute.

Happenings then get receivers, and become messages: few enough that nobody is flooded.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from portal.people.tenants.models import Membership
from portal.work.jobs.idle.using import warning_s
from portal.work.jobs.models import Attempt, Job
from portal.work.jobs.states import JobState
from portal.work.notifications.models import Happening, Hook, Item, Wishes
from portal.work.notifications.words import event_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.db.models import QuerySet


LOOKED_AT = 1000
"""Jobs noted in one look; the others are noted in the next."""


def job_moved(job_id: int, to: str, epoch: int) -> None:
    if (what := event_of(JobState(to))) is not None:
        # Two ends of one epoch differ: a job that is retried by hand may end waiting.
        at = timezone.now()
        Happening.objects.create(job_id=job_id, what=what, mark=f"{epoch}-{int(at.timestamp() * 1000)}", at=at)


def idle_near(job_id: int, mark: str, detail: str) -> None:
    Happening.objects.create(job_id=job_id, what="idle", mark=mark[:32], at=timezone.now(), detail=detail)


def times_note() -> int:
    """Note jobs that wait long or near their time limit; return how many, those included that were noted before."""
    wishes = {row.pk: row for row in Wishes.objects.all() if {"waits", "limit"} & set(row.mail)}
    hooks = [row for row in Hook.objects.filter(is_active=True) if {"waits", "limit"} & set(row.events)]
    return _waits_note(wishes.values(), hooks) + _limits_note(wishes.values(), hooks)


def _concerned(wishes: Iterable[Wishes], hooks: Iterable[Hook], what: str, prefix: str = "") -> Q | None:
    """Return which jobs somebody wants to hear of; None: nobody wants any."""
    people = [row.pk for row in wishes if what in row.mail]
    people += [row.user_id for row in hooks if row.user_id and what in row.events]
    tenants = [row.tenant_id for row in hooks if row.tenant_id and what in row.events]
    if not people and not tenants:
        return None
    return Q(**{f"{prefix}owner__in": people}) | Q(**{f"{prefix}tenant__in": tenants})


def _waits_note(wishes: Iterable[Wishes], hooks: Iterable[Hook]) -> int:
    concerned = _concerned(wishes, hooks, "waits")
    if concerned is None:
        return 0
    now = timezone.now()
    asked_h = [row.waits_h for row in wishes if "waits" in row.mail] + [h.waits_h for h in hooks if "waits" in h.events]
    late = now - timedelta(hours=min(asked_h))
    jobs = Job.objects.filter(concerned, array=None, state=JobState.PENDING).filter(
        Q(array_size=None, waiting_since__lt=late) | Q(array_size__isnull=False, started_at=None, submitted_at__lt=late)
    )
    told = Item.objects.filter(job=OuterRef("pk"), what="waits")
    # One whose wait is longer than all that anybody asked for was sent to all; the others are looked at again.
    fresh = now - timedelta(hours=max(asked_h), minutes=10)
    jobs = jobs.filter(~Exists(told) | Q(waiting_since__gt=fresh) | Q(array_size__isnull=False, submitted_at__gt=fresh))
    return _items_make(jobs.order_by("pk")[:LOOKED_AT], "waits", wishes, hooks, now=now)


def _limits_note(wishes: Iterable[Wishes], hooks: Iterable[Hook]) -> int:
    concerned = _concerned(wishes, hooks, "limit", "job__")
    if concerned is None:
        return 0
    now = timezone.now()
    live = Attempt.objects.runs().filter(
        concerned, ended_at=None, started_at__isnull=False, job__time_limit_s__isnull=False
    )
    near = {
        job_id
        for job_id, started_at, limit_s in live.values_list("job_id", "started_at", "job__time_limit_s")
        if started_at + timedelta(seconds=limit_s - warning_s(limit_s)) < now
    }
    return _items_make(Job.objects.filter(pk__in=sorted(near)[:LOOKED_AT]), "limit", wishes, hooks, now=now)


def _items_make(jobs: QuerySet[Job], what: str, wishes: Iterable[Wishes], hooks: Iterable[Hook], *, now: Any) -> int:
    rows = list(jobs)
    receivers = Receivers(wishes, hooks)
    made = [
        Item(job=job, what=what, at=now, detail=detail, mark=mark, **receiver)
        for job in rows
        for mark, detail in [_told_of(job, what)]
        for receiver, waits_h in receivers.of(job, what)
        if what != "waits" or _waited_h(job, now) >= waits_h
    ]
    Item.objects.bulk_create(made, ignore_conflicts=True)
    return len(made)


def _told_of(job: Job, what: str) -> tuple[str, str]:
    """Return a mark that the same of the job's other attempts lacks, and the words for it."""
    if what == "limit":
        limit_s = job.time_limit_s or 0
        words = f"{limit_s / 3600:.3g} h" if limit_s >= 3600 else f"{limit_s / 60:.3g} min"
        return f"{job.epoch}-{job.time_limit_s}", f"its time limit of {words} is near"
    return str(job.epoch), "it waits longer than you asked to be told of"


def _waited_h(job: Job, now: Any) -> float:
    since = job.submitted_at if job.array_size else job.waiting_since
    return (now - since).total_seconds() / 3600 if since else 0.0


class Receivers:
    """Return a job's receivers: its owner, while the owner may see it, and its tenant's webhooks. Three queries at most."""

    def __init__(self, wishes: Iterable[Wishes], hooks: Iterable[Hook]) -> None:
        self.wishes = {row.pk: row for row in wishes}
        self.hooks: dict[tuple[str, int], list[Hook]] = {}
        for hook in hooks:
            key = ("user", hook.user_id) if hook.user_id else ("tenant", hook.tenant_id)
            self.hooks.setdefault(key, []).append(hook)
        people = {*self.wishes, *(key for kind, key in self.hooks if kind == "user")}
        self.within = set(
            Membership.objects.filter(user__in=people, user__is_active=True).values_list("user_id", "tenant_id")
        )

    def of(self, job: Job, what: str) -> list[tuple[dict[str, Any], float]]:
        """Return (receiver, hours of waiting before its message)."""
        found: list[tuple[dict[str, Any], float]] = []
        hooks = self.hooks.get(("tenant", job.tenant_id), [])
        if (job.owner_id, job.tenant_id) in self.within:
            wish = self.wishes.get(job.owner_id)
            if wish is not None and what in wish.mail:
                found.append(({"user_id": wish.pk}, wish.waits_h))
            hooks = [*hooks, *self.hooks.get(("user", job.owner_id), [])]
        return found + [({"hook_id": hook.pk}, hook.waits_h) for hook in hooks if what in hook.events]
