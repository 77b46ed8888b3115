"""Records of the cluster's state: figures with every planning, and their roll-up with every round.

Section 10 of the algorithms: a round's figures are time-weighted; a planning's hold until the next one. Where plannings
ceased (the portal was away) nothing is known, and nothing is made up.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import Avg, Count, F, Q
from django.db.models.functions import Coalesce
from django.utils import timezone

from portal.cluster.models import SAMPLE_FRESH_S, Node
from portal.planning.rounds.models import Planning, Round
from portal.planning.rounds.record.by_type import types_mean, types_now
from portal.work.jobs.models import Allocation, GpuAllocation, Job
from portal.work.jobs.states import FINAL
from scheduler.metrics import over_round

if TYPE_CHECKING:
    from scheduler.model import Plan


def utilisations_now() -> dict[str, float | None]:
    """Return `utilisation` of the GPUs and `cpu_utilisation` of the cores that are held and measured, in per cent.

    A job that is given cores counts as using no more than those. None when there is nothing held that is measured.
    """
    now = timezone.now().timestamp()
    live = {
        node.pk: node.live
        for node in Node.objects.only("live")
        if node.live and now - node.live.get("at", 0) < SAMPLE_FRESH_S
    }
    # Each GPU once, however many jobs share it.
    held = (
        GpuAllocation.objects.filter(released_at=None).order_by().values_list("gpu__node_id", "gpu__index").distinct()
    )
    uses = [live.get(node, {}).get("gpus", {}).get(str(index), {}).get("utilisation") for node, index in held]
    measured = [use for use in uses if use is not None]
    cores, used = 0, 0.0
    parts = Allocation.objects.filter(released_at=None).values_list("node_id", "attempt__key", "core_ids")
    for node, key, core_ids in parts:
        own = live.get(node, {}).get("attempts", {}).get(key, {}).get("cpu_cores")
        if own is not None:
            cores, used = cores + len(core_ids), used + min(own, len(core_ids))
    return {
        "utilisation": sum(measured) / len(measured) if measured else None,
        "cpu_utilisation": 100 * used / cores if cores else None,
    }


RAQLR_HOURS = (1, 6, 24)
HOLD_TICKS = 4
"""Ticks after which a planning's figures no longer hold: chance does not miss this many in a row."""


def hold_s(*, tick_s: float) -> float:
    """Return how long a planning's figures stand for, at most."""
    return max(60.0, HOLD_TICKS * tick_s)


def raqlr_by_hours(*, now: datetime) -> dict[str, Any]:
    """Return RAQLR and its m over the last 1, 6 and 24 hours: `raqlr_1h`, `raqlr_jobs_1h` and so on. One query.

    The tasks of an array are one job, with the mean of their ratios (`scheduler.metrics`).
    """
    recent = {hours: Q(ended_at__gt=now - timedelta(hours=hours)) for hours in RAQLR_HOURS}
    ratio = F("waited_s") / F("age_s")
    means = {f"mean_{hours}h": Avg(ratio, filter=within) for hours, within in recent.items()}
    wanted: dict[str, Any] = {}
    for hours in RAQLR_HOURS:
        wanted |= {f"raqlr_{hours}h": Avg(f"mean_{hours}h"), f"raqlr_jobs_{hours}h": Count(f"mean_{hours}h")}
    ended = Job.objects.runnable().filter(recent[RAQLR_HOURS[-1]], ended_at__lte=now, age_s__gt=0, state__in=FINAL)
    jobs = ended.order_by().annotate(job=Coalesce("array_id", "pk")).values("job").annotate(**means)
    return jobs.aggregate(**wanted)


def planning_metrics(*, made: Plan, now: datetime) -> dict[str, Any]:
    """Return all that a planning's record holds as its metrics."""
    return {
        **asdict(made.metrics),
        **raqlr_by_hours(now=now),
        **utilisations_now(),
        "types": types_now(),
        "window_gpus": made.window_gpus,
        "faults": [asdict(fault) for fault in made.faults],
    }


def round_metrics(*, round_: Round, until: datetime, tick_s: float) -> dict[str, Any]:
    """Return a round's figures from its applied plannings, with how many these were and how many jobs they placed."""
    rows = list(
        Planning.objects.filter(round=round_, status=Planning.Status.APPLIED)
        .order_by("number")
        .values_list("started_at", "metrics", "placed")
    )
    figures = [(at.timestamp(), metrics) for at, metrics, _ in rows]
    hold = hold_s(tick_s=tick_s)
    found: dict[str, Any] = dict(over_round(figures, until.timestamp(), hold_s=hold))
    found["types"] = types_mean(figures, until.timestamp(), hold_s=hold)
    last = rows[-1][1] if rows else {}
    names = [f"{name}_{hours}h" for hours in RAQLR_HOURS for name in ("raqlr", "raqlr_jobs")]
    totals = {name: last.get(name) for name in ("gpus_total", "cores_total", *names)}
    return {**found, **totals, "plannings": len(rows), "placed": sum(placed for _, _, placed in rows)}


def round_close(*, round_: Round, now: datetime, tick_s: float) -> None:
    """End a round and record its figures; closing it again changes nothing."""
    metrics = round_metrics(round_=round_, until=now, tick_s=tick_s)
    Round.objects.filter(pk=round_.pk, ended_at=None).update(ended_at=now, metrics=metrics)
