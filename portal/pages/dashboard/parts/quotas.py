"""Which quotas a tenant has nearly used, in the words that every page says it in."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from portal.people.tenants.models import Tenant
    from portal.work.jobs.use import Use

WARNING_PERCENT = 90


def near(used: float, quota: int | None) -> bool:
    """Whether the use is near enough to the quota for a warning (`WARNING_PERCENT`)."""
    return bool(quota) and used * 100 >= WARNING_PERCENT * (quota or 0)


def quota_sentence(tenant: Tenant, use: Use) -> str | None:
    """Return the quotas that are nearly used, and the consequence for the next job; None: there are none."""
    rows = (
        ("GPUs at one time", use.gpus, tenant.gpu_quota, "further jobs wait for it"),
        ("CPU cores at one time", use.cores, tenant.core_quota, "further jobs wait for it"),
        ("waiting jobs", use.queued_jobs, tenant.queued_jobs_quota, "a further one is refused"),
    )
    for label, used, quota, after in rows:
        if quota and near(used, quota):
            return f"{tenant.name} uses {used:g} of its {quota} {label}: {after}{'' if used >= quota else ' soon'}."
    return None
