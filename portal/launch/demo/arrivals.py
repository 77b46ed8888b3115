"""The demo's later jobs: they are submitted one by one, so that the cluster stays about 80 % busy until `down`.

Demand is the GPUs of running jobs plus the smallest sizes of waiting ones. While it is below the target, one job is
submitted every five seconds. The target changes: for some minutes it is above the cluster's size and a queue grows, then it
is below and some GPUs idle.
"""

from __future__ import annotations

import logging
import random
import time
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db.models import Sum

from portal.foundation.environment import env
from portal.foundation.errors import BerthError
from portal.foundation.layout import Layout
from portal.launch.demo.workload import TENANTS, TRAININGS, over_nodes, small_training, training, word_count

if TYPE_CHECKING:
    from random import Random

    from portal.work.jobs.models import Job

logger = logging.getLogger(__name__)

PERIOD_S = 5
SWING_S, CROWDED_SHARE = 360, 0.35
CROWDED, CALM = 1.2, 0.7
"""The target demand as a share of all GPUs: in the first part of each period, and in the rest."""
SHORTEST_S, LONGEST_S = 200, 600
MOST_WAITING = 200
"""The most waiting jobs that are read, so that it stays cheap. With more, no further job is needed anyway."""


def target_share(now: float) -> float:
    """Return the target demand as a share of the cluster's GPUs; `now` in Unix seconds."""
    return CROWDED if now % SWING_S < CROWDED_SHARE * SWING_S else CALM


def arrival(rng: Random) -> tuple[str, str, dict[str, Any]]:
    """Draw (tenant, user, description) of one job: mostly trainings, some of them small, sometimes another kind."""
    tenant = rng.choice(sorted(TENANTS))
    category, people = TENANTS[tenant]
    user, kind = rng.choice(people), rng.random()
    if kind < 0.1:
        return tenant, user, word_count(rng.randint(3, 6))
    if kind < 0.14:
        return tenant, user, over_nodes(category, 10)
    if kind < 0.2:
        return tenant, user, small_training(category, rng.randrange(SHORTEST_S, LONGEST_S, 10))
    gpus, _ = rng.choice(TRAININGS)
    return tenant, user, training(category, gpus, rng.randrange(SHORTEST_S, LONGEST_S, 10))


def _demand() -> tuple[int, int]:
    """Return (GPUs that running and waiting jobs need at least, GPUs of the cluster), but for those that are shared."""
    from portal.cluster.models import Gpu
    from portal.work.jobs.models import Attempt, Job
    from portal.work.jobs.states import JobState

    held = Attempt.objects.filter(ended_at=None, gpu_compute=None).aggregate(gpus=Sum("gpus"))["gpus"] or 0
    waiting = Job.objects.filter(state=JobState.PENDING, array_size=None, shareable=False).values_list(
        "gpus", flat=True
    )
    return held + sum(min(sizes) for sizes in waiting[:MOST_WAITING]), Gpu.objects.exclude(mode=Gpu.Mode.SHARED).count()


def arrivals_step(*, now: float | None = None) -> Job | None:
    """Submit the demo's next job if it is time for it; return the job, or None."""
    now = time.time() if now is None else now
    until = env("BERTH_DEMO_UNTIL")
    if not (settings.DEMO and env("BERTH_DEMO_WORKLOAD")) or (until and now >= until):
        return None
    if not Layout.at(settings.DATA_DIR).workload.exists():  # the first jobs are still being submitted
        return None
    demand, gpus = _demand()
    if demand >= gpus * target_share(now):
        return None
    number = int(now // PERIOD_S)
    tenant, user, description = arrival(random.Random(number))  # noqa: S311 - a demo's draw, the same for the same time
    return _submit(tenant, user, description, key=f"demo-arrival-{number}")


def _submit(tenant_name: str, username: str, description: dict[str, Any], *, key: str) -> Job | None:
    """Submit as that user; None when tenant or user is gone, or when a limit refuses the job."""
    from portal.people.tenants.models import Tenant, User
    from portal.work.jobs.services.submission import job_submit

    tenant = Tenant.objects.filter(name=tenant_name).first()
    user = User.objects.filter(username=username, is_active=True).first()
    if tenant is None or user is None:
        return None
    try:
        return job_submit(user=user, tenant=tenant, description=description, idempotency_key=key)
    except BerthError as error:
        logger.info("the demo's next job was refused: %s", error)
        return None
