"""What tenants use now of what their quotas count."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db.models import Count, ExpressionWrapper, F, IntegerField, Q, Sum
from django.db.models.functions import Coalesce

from portal.jobs.models import Attempt, Job
from portal.jobs.states import FINAL, QUEUED

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from portal.tenants.models import Tenant


WHOLE = 1000
"""Thousandths of a GPU."""
GPU_MILLI = ExpressionWrapper(F("gpus") * Coalesce(F("gpu_compute"), WHOLE), output_field=IntegerField())
"""Of an attempt: the thousandths of GPUs that it holds."""


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
