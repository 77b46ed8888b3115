"""Tenants' use: now, as far as their quotas count it; and over a stretch of time, person by person.

An attempt, a profile too, uses what it holds from its placement to its end. A GPU hour is idle as far as the GPU did not
compute: that is measured for each attempt and known some minutes after its end (`Attempt.gpu_busy`). Hours of attempts
that run, or that no agent measured, are counted as not measured, neither busy nor idle.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from django.db.models import Count, ExpressionWrapper, F, FloatField, IntegerField, Q, Sum, Value
from django.db.models.functions import Coalesce, Greatest, Least
from django.utils import timezone

from portal.foundation.errors import BerthError
from portal.work.jobs.models import Attempt, Job
from portal.work.jobs.queue_counts import SecondsUntil
from portal.work.jobs.states import FINAL, QUEUED

if TYPE_CHECKING:
    from datetime import datetime

    from django.db.models import QuerySet

    from portal.people.tenants.models import Tenant


WHOLE = 1000
"""Thousandths of a GPU."""
GPU_MILLI = ExpressionWrapper(F("gpus") * Coalesce(F("gpu_compute"), WHOLE), output_field=IntegerField())
"""The thousandths of GPUs that an attempt holds."""


def gpus_of(milli: int) -> float:
    """Return thousandths as GPUs: a whole number where they are."""
    return milli // WHOLE if milli % WHOLE == 0 else milli / WHOLE


@dataclass(frozen=True)
class Use:
    gpus: float  # parts of shared ones in thousandths
    cores: int
    queued_jobs: int


def tenants_use(tenants: QuerySet[Tenant]) -> dict[int, Use]:
    """Return each tenant's use, by its key. Four queries."""
    live = Attempt.objects.filter(ended_at=None, job__tenant__in=tenants).values_list("job__tenant")
    sums = live.order_by().annotate(held_milli=Sum(GPU_MILLI), held_cores=Sum("cores"))
    held = {tenant_id: (gpus_of(milli), cores) for tenant_id, milli, cores in sums}
    queued = queued_jobs(tenants)
    return {tenant.pk: Use(*held.get(tenant.pk, (0, 0)), queued_jobs=queued.get(tenant.pk, 0)) for tenant in tenants}


def queued_jobs(tenants: QuerySet[Tenant]) -> Counter[int]:
    """Count the waiting and held jobs of each tenant. An array counts its tasks that wait or have not been made yet.

    The index `job_top_by_tenant` counts them together with arrays' parents, which are then taken off. Three queries.
    """
    rows = Job.objects.filter(tenant__in=tenants, state__in=QUEUED, array=None)
    found = Counter(dict(rows.order_by().values_list("tenant").annotate(n=Count("*"))))
    arrays = Job.objects.filter(tenant__in=tenants, array_size__isnull=False).exclude(state__in=FINAL)
    tasks = Coalesce(Sum(F("array_size") + F("array_retries")), 0) - Count("state", filter=Q(state__in=QUEUED))
    found.update(dict(arrays.order_by().values_list("tenant").annotate(n=tasks)))
    begun = Job.objects.filter(array__in=arrays).exclude(state__in=QUEUED)
    found.subtract(dict(begun.order_by().values_list("tenant").annotate(n=Count("*"))))
    return found


# ---- over a stretch of time ------------------------------------------------------------------------------------------

HOUR_S = 3600
USUAL, LONGEST = timedelta(days=30), timedelta(days=400)
HOURS = ("gpu_hours", "idle_gpu_hours", "unmeasured_gpu_hours", "core_hours")
DIGITS = 4
"""The digits of hours: each figure is rounded once, and a sum is that of the rounded ones."""


@dataclass(frozen=True, slots=True)
class UsageRow:
    """The use of one person's jobs of one category; `user` and `category` None: not said, or all."""

    user: str | None
    category: str | None
    attempts: int
    gpu_hours: float
    idle_gpu_hours: float
    unmeasured_gpu_hours: float
    core_hours: float


@dataclass(frozen=True, slots=True)
class Usage:
    """The rows of a stretch of time, largest first, and their sum."""

    since: datetime
    until: datetime
    rows: list[UsageRow]
    total: UsageRow


def usage_of(tenant: Tenant, *, since: datetime | None = None, until: datetime | None = None) -> Usage:
    """Return the use from `since` (30 days before the end) until `until` (now). One query for any number of jobs."""
    now = timezone.now()
    until = min(until or now, now)
    since = since or until - USUAL
    if not since < until or until - since > LONGEST:
        detail = f"`since` must lie before `until` and before now, by {LONGEST.days} days at most."
        raise BerthError("invalid", detail, field="since")
    rows = sorted(_rows(tenant, since, until, now), key=lambda row: (-row.gpu_hours, -row.core_hours, row.user or ""))
    totals = [round(sum(getattr(row, name) for row in rows), DIGITS) for name in HOURS]
    return Usage(since, until, rows, UsageRow(None, None, sum(row.attempts for row in rows), *totals))


def _rows(tenant: Tenant, since: datetime, until: datetime, now: datetime) -> list[UsageRow]:
    held_s = SecondsUntil(
        Greatest(F("created_at"), Value(since)), Least(Coalesce(F("ended_at"), Value(now)), Value(until))
    )
    gpu_s = held_s * GPU_MILLI / Value(float(WHOLE))

    def hours(seconds: object, kept: Q | None = None) -> Coalesce:
        return Coalesce(Sum(seconds, filter=kept, output_field=FloatField()), Value(0.0)) / Value(float(HOUR_S))

    found = (
        Attempt.objects.filter(Q(ended_at=None) | Q(ended_at__gt=since), job__tenant=tenant, created_at__lt=until)
        .order_by()
        .values_list("job__owner__username", "job__category")
        .annotate(
            attempts=Count("*"),
            held=hours(gpu_s),
            idle=hours(gpu_s * (Value(1.0) - F("gpu_busy"))),
            unmeasured=hours(gpu_s, Q(gpu_busy=None)),
            cores_held=hours(held_s * F("cores")),
        )
    )
    return [
        UsageRow(user, category, count, *(round(each, DIGITS) for each in hours_held))
        for user, category, count, *hours_held in found
    ]
