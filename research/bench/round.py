"""How long one whole planning takes: database -> snapshot -> scheduler -> database, on a seeded cluster and queue.

Each planning is the live one, `planning_run`, under its lease; nothing is left out. `order_s` and `window_s`, the
queue's ordering and the filling of its windows, are part of `plan_s`.
Between two plannings what was placed is put back in the queue, so that each has the same work. Two plannings go before
those that are measured as steady: the `first` also writes down why each of the jobs waits, and the `second` reads the jobs
anew, since all of them were changed by that. Beside each time stands the processor time of this process, which a loaded
machine stretches less; the database server's own is not in it.
"""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from django.db import connection
from django.utils import timezone

from portal.foundation.events.models import OutboxMessage
from portal.planning.rounds.models import OperatorSetting, Planning
from portal.planning.rounds.planning.run import planning_run
from portal.work.jobs.models import Allocation, Attempt, GpuAllocation, Job, JobEvent
from portal.work.jobs.states import AttemptState, JobState
from research.bench.errors import BenchError
from research.bench.filling import contact_refresh, database_fill

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

POLICIES = ("berth", "hops")
TARGET_TOTAL_S, TARGET_QUEUE_S = 10.0, 1.0
WARMING = 2
"""Plannings before those that are measured as steady."""
STEPS = ("load_s", "order_s", "window_s", "plan_s", "apply_s", "total_s", "total_cpu_s")


def round_measure(
    *, gpus: int, jobs: int, seed: int, policies: Sequence[str] = POLICIES, repeat: int = 3
) -> dict[str, Any]:
    """Fill the present database, which must be empty, and measure `repeat` steady plannings under each policy."""
    if repeat < 1:
        raise BenchError("--repeat must be at least 1.")
    began = time.monotonic()
    database_fill(gpus=gpus, jobs=jobs, seed=seed)
    figures: dict[str, Any] = {
        "database": connection.vendor,
        "gpus": gpus,
        "jobs": jobs,
        "seed": seed,
        "fill_s": round(time.monotonic() - began, 3),
        "target_total_s": TARGET_TOTAL_S,
        "target_queue_s": TARGET_QUEUE_S,
    }
    for policy in policies:
        OperatorSetting.objects.update_or_create(name="policy", defaults={"value": policy})
        Job.objects.filter(state=JobState.PENDING).update(reason="not-planned-yet", in_window=None, age_s=None)
        figures[policy] = _policy_measure(repeat)
    return figures


def _policy_measure(repeat: int) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    taken: list[dict[str, Any]] = []
    for _ in range(WARMING + repeat):
        contact_refresh()
        taken.append(_planning_measure())
        placed_put_back()
    figures["first"], figures["second"], *steady = taken
    for name in STEPS:
        figures[name] = _percentiles([each[name] for each in steady])
    return figures | {name: taken[-1][name] for name in ("queries", "placed", "window_jobs", "solver")}


def _planning_measure() -> dict[str, Any]:
    began_s, began_cpu_s = time.monotonic(), time.process_time()
    with queries_counted() as queries:
        planning = planning_run()
    total_s, cpu_s = time.monotonic() - began_s, time.process_time() - began_cpu_s
    if planning is None or planning.status != Planning.Status.APPLIED:
        raise BenchError(f"The planning was not applied: {planning.error if planning else 'its lease was taken'}")
    return {
        "load_s": round(planning.load_s, 3),
        **{name: round(planning.solver[name], 3) for name in ("order_s", "window_s")},
        "plan_s": round(planning.plan_s, 3),
        "apply_s": round(planning.apply_s, 3),
        "total_s": round(total_s, 3),
        "total_cpu_s": round(cpu_s, 3),
        "queries": queries[0],
        "placed": planning.placed,
        "dropped": planning.dropped,
        "window_jobs": planning.window_jobs,
        "solver": {name: planning.solver.get(name) for name in ("status", "gap", "solve_s", "variables")},
    }


@contextmanager
def queries_counted() -> Iterator[list[int]]:
    """Give a list whose one element counts the statements sent meanwhile."""
    count = [0]

    def wrapper(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        count[0] += 1
        return execute(sql, params, many, context)

    with connection.execute_wrapper(wrapper):
        yield count


def placed_put_back() -> None:
    """Undo what the last planning placed: its jobs wait again, as before it."""
    fresh = Attempt.objects.filter(state=AttemptState.STARTING)
    jobs = list(fresh.values_list("job_id", flat=True))
    GpuAllocation.objects.filter(allocation__attempt__in=fresh).delete()
    Allocation.objects.filter(attempt__in=fresh).delete()
    JobEvent.objects.filter(kind="placed").delete()
    OutboxMessage.objects.all().delete()
    fresh.delete()
    now = timezone.now()
    Job.objects.filter(pk__in=jobs).update(
        state=JobState.PENDING, epoch=0, started_at=None, waiting_since=now, reason="not-planned-yet", in_window=None
    )


def _percentiles(values: Sequence[float]) -> dict[str, float]:
    return {"p50": round(float(np.percentile(values, 50)), 3), "p95": round(float(np.percentile(values, 95)), 3)}


def round_report(figures: dict[str, Any], *, as_json: bool) -> str:
    if as_json:
        return json.dumps(figures)
    rows = [f"{figures['gpus']} GPUs, {figures['jobs']} jobs, seed {figures['seed']}, {figures['database']}"]
    for policy in POLICIES:
        if (own := figures.get(policy)) is None:
            continue
        p50 = {name: f"{own[name]['p50']:.2f}" for name in STEPS}
        whole = f"{policy:6} planning p50 {p50['total_s']} s, p95 {own['total_s']['p95']:.2f} s"
        parts = f"load {p50['load_s']}, plan {p50['plan_s']}, apply {p50['apply_s']}; processor {p50['total_cpu_s']}"
        queue = f"order {p50['order_s']} s and window {p50['window_s']} s (together at most {TARGET_QUEUE_S:g} s)"
        before = ", ".join(f"the {name} {own[name]['total_cpu_s']:.2f} s" for name in ("first", "second"))
        rows += [
            f"{whole} (at most {TARGET_TOTAL_S:g} s): {parts}; {own['placed']} placed, {own['queries']} queries",
            f"       {queue}; processor time of the plannings before: {before}",
        ]
    return "\n".join(rows)
