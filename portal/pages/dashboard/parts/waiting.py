"""How many jobs wait, and which quotas are nearly used, in the words of every page (`portal.work.jobs.queue_counts`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from portal.pages.dashboard.parts.formatting import number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from portal.people.tenants.models import Tenant
    from portal.work.jobs.queue_counts import QueueCounts
    from portal.work.jobs.use import Use

ASIDE = {
    "dependency": ("waits for another job", "wait for other jobs"),
    "restored": ("waits for the nodes' word after a restore", "wait for the nodes' word after a restore"),
    "tenant-quota": ("waits for its tenant's quota", "wait for their tenants' quotas"),
    "no-node-with-type": ("asks for a GPU type that no node has", "ask for GPU types that no node has"),
    "invalid": ("cannot be planned", "cannot be planned"),
    "held": ("held", "held"),
}
OTHERWISE = ("waits for its next planning", "wait for their next planning")


def counted(count: int, words: tuple[str, str]) -> str:
    return f"{number(count)} {words[0] if count == 1 else words[1]}"


def aside_words(aside: Mapping[str, int]) -> str | None:
    """Say what is not counted as eligible, and why: "Not counted: 2 wait for other jobs, 1 held."."""
    known = [counted(aside[reason], words) for reason, words in ASIDE.items() if aside.get(reason)]
    rest = sum(count for reason, count in aside.items() if reason not in ASIDE)
    words = [*known, *([counted(rest, OTHERWISE)] if rest else [])]
    return f"Not counted: {', '.join(words)}." if words else None


def eligible_words(queue: QueueCounts) -> str:
    """As: 18 eligible, 2 set aside."""
    aside = queue.set_aside.total()
    return f"{number(queue.jobs)} eligible" + (f", {number(aside)} set aside" if aside else "")


WARNING_PERCENT = 90
WAITING = "waiting jobs"


def near(used: float, quota: int | None) -> bool:
    """Whether the use is near enough to the quota for a warning (`WARNING_PERCENT`)."""
    return bool(quota) and used * 100 >= WARNING_PERCENT * (quota or 0)


def quota_near(tenant: Tenant, use: Use) -> tuple[str, float, int, str] | None:
    """Return label, use and quota of the first that is nearly used, and the consequence for the next job."""
    rows = (
        ("GPUs at one time", use.gpus, tenant.gpu_quota, "further jobs wait for it"),
        ("CPU cores at one time", use.cores, tenant.core_quota, "further jobs wait for it"),
        (WAITING, use.queued_jobs, tenant.queued_jobs_quota, "a further one is refused"),
    )
    for label, used, quota, after in rows:
        if quota and near(used, quota):
            return label, used, quota, f"{after}{'' if used >= quota else ' soon'}."
    return None
