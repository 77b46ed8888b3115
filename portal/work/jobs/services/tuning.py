"""Results of core tuning for jobs (algorithms, section 8), kept for their owners' later ones."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from django.db.models import Max
from django.utils import timezone

from portal.foundation import checks
from portal.foundation.errors import BerthError
from portal.work.jobs.declaration.table import MAX_CORES
from portal.work.jobs.models import CoreTuning

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from portal.people.tenants.models import Tenant, User
    from portal.work.jobs.models import Job

PAST, SHOWN = 200, 8
"""The most of an owner's latest results that are looked through, and that are shown."""


class PastCores(NamedTuple):
    """Cores a GPU: the result of tuning for a job, and its wish before (None: nothing)."""

    found: int
    asked: int | None


def core_tuning_record(*, job: Job, cores_per_gpu: int, steps: int = 0) -> CoreTuning:
    """Store the cores per GPU that suit a job best; a later result of the same job replaces the earlier.

    `steps`: how many settings were measured; 0 = the number was given by hand. Raises BerthError for a CPU job and for a
    number that is none.
    """
    if list(job.gpus) == [0]:
        raise BerthError("not_for_cpu_jobs", "A CPU job has no cores per GPU to tune.", field="job")
    values = {
        "owner_id": job.owner_id,
        "category": job.category or "",
        "cores_per_gpu": checks.whole(cores_per_gpu, "cores_per_gpu", 1, MAX_CORES),
        "steps": checks.whole(steps, "steps", 0, 1000),
        "tuned_at": timezone.now(),
    }
    return CoreTuning.objects.update_or_create(job=job, defaults=values)[0]


def cores_tuned(*, owner_ids: Iterable[int] | None = None) -> dict[int, dict[str | None, int]]:
    """Return, by owner, the largest tuned number per category of its past jobs (None = no category). One query."""
    rows = CoreTuning.objects.all() if owner_ids is None else CoreTuning.objects.filter(owner_id__in=set(owner_ids))
    found: dict[int, dict[str | None, int]] = defaultdict(dict)
    for owner, category, most in rows.values_list("owner_id", "category").annotate(most=Max("cores_per_gpu")):
        found[owner][category or None] = most
    return dict(found)


def cores_past(*, owner: User, tenant: Tenant, category: str, label: str) -> tuple[list[PastCores], bool]:
    """Return the results for the owner's latest jobs in the tenant with this label, and True; where none has it those of
    the category ("": without one), and False. The last first, those set by hand left out. One query.
    """
    rows = CoreTuning.objects.filter(owner=owner, job__owner=owner, job__tenant=tenant, steps__gt=0)
    found = rows.order_by("-tuned_at").values_list("category", "job__model", "cores_per_gpu", "job__cores_per_gpu")[
        :PAST
    ]
    same = [PastCores(*cores) for _, model, *cores in found if label and model == label]
    alike = [PastCores(*cores) for kind, _, *cores in found if kind == category]
    return (same or alike)[:SHOWN], bool(same)


def cores_tuned_since(moment: datetime) -> list[int]:
    """Return the tuned cores per GPU of every job tuned since then, for the arrays' division (section 4)."""
    rows = CoreTuning.objects.filter(tuned_at__gte=moment).order_by("pk")
    return list(rows.values_list("cores_per_gpu", flat=True))
