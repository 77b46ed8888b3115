"""How right expected run times were, by source; and the run times of jobs like one, to propose a duration."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from portal.planning.rounds.planning.past import history_load, runs_load
from scheduler.estimator import lengths
from scheduler.estimator.record import Ran, coverage_of
from scheduler.estimator.similar import similar_of
from scheduler.fairness import lrf

if TYPE_CHECKING:
    from portal.people.tenants.models import User
    from portal.work.jobs.models import Job
    from scheduler.model import RunHistory

SOURCES = {
    lengths.DECLARED: "declared by its owner",
    lengths.OF_MODEL: "from its tenant's jobs of the model and size",
    lengths.OF_OWNER: "from its owner's jobs of the category and size",
    lengths.OF_TENANT: "from its tenant's jobs of the category",
    lengths.OF_LIMITS: "from its time limit and how its owner sets limits",
    lengths.OF_SIZE: "from all jobs of the size",
    lengths.OF_CATEGORY: "from all jobs of the category",
    lengths.OF_CLUSTER: "from all jobs",
    lengths.ASSUMED: "no job had ended",
    lrf.BY_SAMPLES: "from its samples and its speed",
    lrf.FIXED: "as expected when it first started",
}
"""The sources of an expected run time in words."""


def lengths_record() -> list[dict[str, Any]]:
    """Return a row for each source: its jobs, and how many of 100 run times were within their ranges of 50 and 80 %."""
    return _record(runs_load())


@lru_cache(maxsize=1)
def _record(runs: tuple[Ran, ...]) -> list[dict[str, Any]]:
    found = coverage_of(runs)
    return [
        {"source": words, "jobs": own.jobs, "half": round(100 * own.half), "most": round(100 * own.most)}
        for name, words in SOURCES.items()
        if (own := found.get(name))
    ]


def similar_read(history: RunHistory, asked: lengths.Asked, *, of: str, whose: str = "Your") -> dict[str, Any] | None:
    """Return the tenant's latest jobs like one in words, their number and run times; None where they tell too little.

    `of`: the tenant's name; `whose`: the owner.
    """
    found, category = similar_of(history, *asked), asked[2]
    if found is None:
        return None
    kind = f" and the category {category}" if category else " without a category"
    words = {
        lengths.OF_MODEL: f"{of}'s last {found.runs} jobs of this label and size",
        lengths.OF_OWNER: f"{whose} last {found.runs} jobs of this size{kind}",
        lengths.OF_TENANT: f"{of}'s last {found.runs} jobs of the category {category}",
    }[found.source]
    step_s = 1 if found.median_s < 120 else 60 if found.median_s < 7200 else 900
    return found._asdict() | {"words": words, "declare_s": step_s * max(1, round(found.median_s / step_s))}


def similar_of_job(job: Job, *, user: User) -> dict[str, Any] | None:
    """Return the same for a stored job whose length is not given. One query."""
    if job.expected_duration_s is not None or job.samples is not None:
        return None
    asked = (job.owner_id, job.tenant_id, job.category, job.model or None, job.gpus_least)
    whose = "Your" if job.owner_id == user.pk else f"{job.owner.username}'s"
    return similar_read(history_load(), asked, of=job.tenant.name, whose=whose)
