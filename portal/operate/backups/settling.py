"""After a restore: what the database believes is old news, and the nodes may run what it has never heard of.

Nothing that was waiting is started until every node has said what runs there (`Node.unsettled_since`), so that no job
runs twice at once; errands, messages and sign-ins of the lost time are taken back.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from django.contrib.sessions.models import Session
from django.db import connection, transaction
from django.db.models import Max
from django.utils import timezone

from portal.cluster.models import Node
from portal.foundation.environment import env
from portal.foundation.events.models import OutboxMessage
from portal.operate.backups.models import Backup
from portal.people.tenants.services import audit_record
from portal.planning.rounds.models import ErrandLease, PlanningLease
from portal.work.jobs.models import Allocation, Attempt, Job
from portal.work.jobs.states import QUEUED

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

NUMBERS_LEFT_OUT = 1000
"""Job numbers that are not given again: people hold numbers of jobs that the database has forgotten."""


@dataclass(frozen=True)
class Settled:
    """What a restored database holds: jobs that wait, jobs that it believes running, and nodes that must say so."""

    made_at: datetime
    waiting: int
    running: int
    nodes: int


@transaction.atomic
def database_settle(*, made_at: datetime, path: Path) -> Settled:
    """Let a restored database do no harm. `made_at`: when the backup was made."""
    now = timezone.now()
    PlanningLease.objects.update(holder="", until=None, again=False)
    ErrandLease.objects.update(holder="", until=None)
    OutboxMessage.objects.all().delete()
    Session.objects.all().delete()
    _leases_renew(now)
    nodes = Node.objects.alive().filter(token_revoked_at=None).update(unsettled_since=now)
    _numbers_leave_out()
    size = path.stat().st_size
    Backup.objects.create(
        kind=Backup.Kind.RESTORED, at=made_at, path=str(path), size_bytes=size, took_s=0.0, proof=Backup.Proof.RESTORED
    )
    audit_record(actor=None, action="backup.restore", target="database", detail={"made_at": made_at.isoformat()})
    waiting = Job.objects.runnable().filter(state__in=QUEUED).count()
    return Settled(made_at, waiting, Attempt.objects.live().count(), nodes)


def _leases_renew(now: datetime) -> None:
    """Assume that nodes renewed their leases until now: the shims hold these leases, whatever the backup says."""
    live = Allocation.objects.filter(released_at=None)
    live.update(missed_at=now)
    longest = live.aggregate(s=Max("attempt__lease_s"))["s"] or 0
    until = now + timedelta(seconds=max(longest, env("BERTH_LEASE_S")))
    live.filter(lease_until__lt=until).update(lease_until=until)


def _numbers_leave_out() -> None:
    last = Job.objects.aggregate(last=Max("pk"))["last"] or 0
    following = (last // NUMBERS_LEFT_OUT + 2) * NUMBERS_LEFT_OUT
    table = Job._meta.db_table  # noqa: SLF001 - Django's documented Meta API
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute(
                "UPDATE sqlite_sequence SET seq = %s WHERE name = %s AND seq < %s", [following, table, following]
            )
        else:
            cursor.execute("SELECT setval(pg_get_serial_sequence(%s, 'id'), %s)", [table, following])
