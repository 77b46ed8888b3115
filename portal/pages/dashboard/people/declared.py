"""How much shorter a tenant's jobs waited that declared a length: said only where chance does not explain it.

Jobs are compared within one week and one size (the fewest GPUs), so that neither quiet weeks nor small jobs make the difference;
an array counts as one job. The difference of the mean waits is weighed by n * m / (n + m) of each such class, and tested by
exchanging within classes which jobs declared a length (a permutation test: exact whatever the waits' distribution).
"""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from django.core.cache import cache
from django.utils import timezone

from portal.work.jobs.models import Job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from portal.people.tenants.models import Tenant

DAYS, JOBS_READ, KEPT_S = 90, 2000, 3600
LEAST_JOBS, LEAST_WAIT_S, LEAST_SHARE = 20, 60.0, 0.05
"""The fewest jobs of each kind in the compared classes, the least mean wait without a length, and the least gain."""
EXCHANGES, CHANCE = 999, 0.025
WEEK_S = 7 * 86_400


class Shorter(NamedTuple):
    """By how many per cent the jobs with a declared length waited shorter, and the jobs compared."""

    percent: int
    declared: int
    others: int


class Waited(NamedTuple):
    """An ended job: its array or itself, its week and size, its wait in seconds, and whether it declared a length."""

    job: int
    week: int
    gpus: int
    waited_s: float
    declared: bool


def declared_shorter(tenant: Tenant) -> Shorter | None:
    """Compare the tenant's latest ended jobs; None where nothing is sure. One query, once an hour."""
    found: Shorter | None = cache.get_or_set(f"declared-shorter-{tenant.pk}", lambda: compare(_ended(tenant)), KEPT_S)
    return found


def _ended(tenant: Tenant) -> list[Waited]:
    since = timezone.now() - timedelta(days=DAYS)
    ended = Job.objects.runnable().filter(tenant=tenant, ended_at__gt=since, started_at__isnull=False, link_probe=None)
    rows = ended.order_by("-ended_at").values_list(
        "pk", "array_id", "submitted_at", "gpus_least", "waited_s", "expected_duration_s", "samples"
    )
    return [
        Waited(array or pk, int(at.timestamp() // WEEK_S), gpus, waited_s, bool(length or samples))
        for pk, array, at, gpus, waited_s, length, samples in rows[:JOBS_READ]
    ]


def compare(jobs: Sequence[Waited]) -> Shorter | None:
    """Return by how much those with a declared length waited shorter; None: too few jobs, a slight difference, or chance."""
    classes = [each for each in _classes(jobs) if len(each[0]) and len(each[1])]
    declared, others = (sum(len(each[kind]) for each in classes) for kind in (1, 0))
    if min(declared, others) < LEAST_JOBS:
        return None
    weights = [len(with_length) * len(without) / (len(with_length) + len(without)) for without, with_length in classes]
    usual_s = np.average([each[0].mean() for each in classes], weights=weights)
    shorter_s = np.average([each[0].mean() - each[1].mean() for each in classes], weights=weights)
    if usual_s < LEAST_WAIT_S or shorter_s < LEAST_SHARE * usual_s:
        return None
    by_chance_s = np.average([_exchanged(*each) for each in classes], axis=0, weights=weights)
    if (1 + np.count_nonzero(by_chance_s >= shorter_s - 1e-9)) / (1 + EXCHANGES) > CHANCE:
        return None
    return Shorter(round(100 * shorter_s / usual_s), declared, others)


def _classes(jobs: Sequence[Waited]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return for each week and size the waits without a declared length, and those with one."""
    tasks: dict[tuple[int, int, int, bool], list[float]] = defaultdict(list)
    for each in jobs:
        tasks[each.week, each.gpus, each.job, each.declared].append(each.waited_s)
    found: dict[tuple[int, int], tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    for (week, gpus, _, declared), waits in tasks.items():
        found[week, gpus][declared].append(fmean(waits))
    return [(np.array(without), np.array(with_length)) for without, with_length in found.values()]


def _exchanged(without: np.ndarray, with_length: np.ndarray) -> np.ndarray:
    """Return the differences of the means with the lengths given to other jobs of the class, by a fixed seed."""
    waits = np.concatenate([without, with_length])
    drawn = np.random.default_rng(len(waits)).permuted(np.tile(waits, (EXCHANGES, 1)), axis=1)
    return drawn[:, : len(without)].mean(axis=1) - drawn[:, len(without) :].mean(axis=1)
