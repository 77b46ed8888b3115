"""Work out the receivers of happenings, and put these into messages: few enough that nobody is flooded."""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction
from django.db.models import Count
from django.utils import timezone

from portal.foundation.environment import env
from portal.work.jobs.models import Job
from portal.work.jobs.states import FINAL, JobState, end_words
from portal.work.notifications.models import Happening, Hook, Item, LogTail, Message, Wishes
from portal.work.notifications.noting import Receivers
from portal.work.notifications.words import OF_TASKS

BATCH = 1000
SINGLY = 3
"""The most things that get a message each; more go into one."""
KEEP_DAYS = 7
IN_ONE_CALL = 500
"""The most events in one call of a webhook."""


def happenings_spread() -> int:
    """Turn happenings into messages; return how many there were. A constant number of queries a batch."""
    done = 0
    while count := _batch_spread():
        done += count
        if count < BATCH:
            break
    return done


@transaction.atomic
def _batch_spread() -> int:
    rows = list(Happening.objects.all()[:BATCH])
    if not rows:
        return 0
    jobs = Job.objects.in_bulk({row.job_id for row in rows})
    wishes = Wishes.objects.filter(user__in={job.owner_id for job in jobs.values()})
    tenants = {job.tenant_id for job in jobs.values()}
    owners = {job.owner_id for job in jobs.values()}
    hooks = [
        hook for hook in Hook.objects.filter(is_active=True) if hook.tenant_id in tenants or hook.user_id in owners
    ]
    receivers = Receivers(wishes, hooks)
    items = [
        Item(job=job, what=row.what, mark=row.mark, at=row.at, detail=row.detail or _detail(job, row.what), **receiver)
        for row in rows
        if (job := jobs.get(row.job_id)) is not None and (job.array_id is None or row.what in OF_TASKS)
        for receiver, _ in receivers.of(job, row.what)
    ]
    Item.objects.bulk_create(items, ignore_conflicts=True)
    Happening.objects.filter(pk__in=[row.pk for row in rows]).delete()
    return len(rows)


def _detail(job: Job, what: str) -> str:
    if what == "started" or job.state not in FINAL:
        return ""
    told = end_words(job.exit_code, job.signal)
    code = f", {told.replace('exit', 'exit code')}" if told else ""
    detail = f": {job.end_detail}" if job.end_detail and job.end_detail != told else ""
    return f"{JobState(job.state).label.lower()}{code}{detail}"[:300]


def messages_make() -> int:
    """Put what waits into messages; return how many were made.

    A receiver gets at most this many an hour: later ones wait, and go out in one message as soon as one may go.
    """
    now = timezone.now()
    waiting = Item.objects.filter(message=None).order_by().values("user", "hook").annotate(count=Count("pk"))
    lately = Message.objects.filter(made_at__gt=now - timedelta(hours=1)).order_by().values("user", "hook")
    sent = {(row["user"], row["hook"]): row["count"] for row in lately.annotate(count=Count("pk"))}
    made = 0
    for row in list(waiting):
        most = env("BERTH_MAILS_PER_HOUR") if row["hook"] is None else env("BERTH_WEBHOOKS_PER_HOUR")
        room = most - sent.get((row["user"], row["hook"]), 0)
        if room > 0:
            made += _receiver_messages(user=row["user"], hook=row["hook"], count=row["count"], room=room)
    return made


@transaction.atomic
def _receiver_messages(*, user: int | None, hook: int | None, count: int, room: int) -> int:
    mine = Item.objects.filter(user=user, hook=hook, message=None)
    step = 1 if count <= SINGLY and count < room else (count if hook is None else IN_ONE_CALL)
    made = 0
    while made < room and (keys := list(mine.values_list("pk", flat=True)[:step])):
        now = timezone.now()
        message = Message.objects.create(user_id=user, hook_id=hook, made_at=now, due_at=now)
        if hook is None and step > 1:
            mine.filter(pk__lte=keys[-1]).update(message=message)
        else:
            Item.objects.filter(pk__in=keys).update(message=message)
        made += 1
    return made


def messages_expire() -> int:
    """Delete sent happenings after a week: until then none is sent twice."""
    LogTail.objects.filter(attempt__ended_at__lt=timezone.now() - timedelta(days=1)).delete()
    old = Message.objects.filter(ended_at__lt=timezone.now() - timedelta(days=KEEP_DAYS))
    return old.delete()[0]
