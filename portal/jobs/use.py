"""What tenants use now of what their quotas count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db.models import Count, F, Sum
from django.db.models.functions import Coalesce

from portal.jobs.models import Attempt, Job
from portal.jobs.states import FINAL, QUEUED

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from portal.tenants.models import Tenant


@dataclass(frozen=True)
class Use:
    gpus: int
    cores: int
    queued_jobs: int


def tenants_use(tenants: QuerySet[Tenant]) -> dict[int, Use]:
    """Return each tenant's use in four queries. An array counts as many jobs as it has tasks that wait or are to come."""
    live = Attempt.objects.filter(ended_at=None, job__tenant__in=tenants).values_list("job__tenant")
    held = {row[0]: row[1:] for row in live.order_by().annotate(held_gpus=Sum("gpus"), held_cores=Sum("cores"))}
    single = Job.objects.filter(tenant__in=tenants, state__in=QUEUED, array=None, array_size=None)
    queued = dict(single.order_by().values_list("tenant").annotate(n=Count("pk")))
    arrays = Job.objects.filter(tenant__in=tenants, array_size__isnull=False).exclude(state__in=FINAL)
    sizes = dict(
        arrays.order_by().values_list("tenant").annotate(n=Coalesce(Sum(F("array_size") + F("array_retries")), 0))
    )
    begun = Job.objects.filter(array__in=arrays).exclude(state__in=QUEUED)
    gone = dict(begun.order_by().values_list("tenant").annotate(n=Count("pk")))
    return {
        tenant.pk: Use(
            *held.get(tenant.pk, (0, 0)),
            queued.get(tenant.pk, 0) + sizes.get(tenant.pk, 0) - gone.get(tenant.pk, 0),
        )
        for tenant in tenants
    }
