"""Ended jobs as the scheduler's values: for latency ratios, and for the run times to expect."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from statistics import median

from portal.work.jobs.models import Job
from portal.work.jobs.states import FINAL, JobState
from scheduler import model
from scheduler.fairness.lrf import HISTORY_JOBS


def ended_since(moment: datetime) -> list[model.Ended]:
    """Return waiting time and age of the jobs that ended after `moment`, for RAQLR."""
    rows = Job.objects.runnable().filter(ended_at__gt=moment, age_s__gt=0, state__in=FINAL)
    return [
        model.Ended(ended_s=ended_at.timestamp(), wait_s=waited_s, age_s=age_s, array=array)
        for ended_at, waited_s, age_s, array in rows.values_list("ended_at", "waited_s", "age_s", "array_id")
    ]


def history_load() -> model.RunHistory:
    """Median run times of completed jobs, over the latest HISTORY_JOBS of them (section 3's fallbacks).

    A job's run time is that of its attempts: in between it waited, and without records of them it is taken as one.
    """
    rows = (
        Job.objects.runnable()
        .filter(state=JobState.COMPLETED, started_at__isnull=False, ended_at__isnull=False, link_probe=None)
        .order_by("-ended_at")
        .values_list("owner_id", "tenant_id", "category", "ran_s", "started_at", "ended_at", "expected_duration_s")[
            :HISTORY_JOBS
        ]
    )
    ratios, by_tenant, by_category, every = defaultdict(list), defaultdict(list), defaultdict(list), []
    for owner, tenant, category, ran_s, started_at, ended_at, declared_s in rows:
        took_s = ran_s or max(0.0, (ended_at - started_at).total_seconds())
        by_tenant[tenant, category].append(took_s)
        by_category[category].append(took_s)
        every.append(took_s)
        if declared_s:
            ratios[owner].append(took_s / declared_s)
    return model.RunHistory(
        declared_ratio={owner: median(values) for owner, values in ratios.items()},
        tenant_category_s={key: median(values) for key, values in by_tenant.items()},
        category_s={key: median(values) for key, values in by_category.items()},
        cluster_s=median(every) if every else None,
    )
