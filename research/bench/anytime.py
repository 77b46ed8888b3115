"""How good is a placement that had to end early? (algorithms.md section 6: *anytime*)

The window of a seeded queue is placed once for each share of the time limit, each time from the start with that much
time, and once with `CONVERGED` limits: what the objective is, over that of the last. Time is this process's own processor
time, which a loaded machine does not stretch (the solver's own limit is wall time, so there it gets less).
"""

from __future__ import annotations

import json
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from portal.planning.rounds.planning.run import collector_paused
from research.bench.errors import BenchError
from research.workloads import queues
from research.workloads.moved_on import moved_on
from research.workloads.queues import instance_draw
from scheduler.fairness import window
from scheduler.fairness.lrf import age_of
from scheduler.fairness.priorities import PRIORITIES, Moment, order
from scheduler.model import ClusterState, RunHistory
from scheduler.parameters import Parameters
from scheduler.placement import located
from scheduler.placement.joint import place_aggregated
from scheduler.placement.ledger import Ledger
from scheduler.placement.objective import Objective
from scheduler.placement.outcome import DraftPlan
from scheduler.placement.work import NOTHING, Memory, Work

if TYPE_CHECKING:
    from collections.abc import Sequence

    from research.workloads.queues import Instance

SHARES = (0.05, 0.1, 0.25, 0.5, 1.0)
WANTED = {0.1: 0.7, 0.25: 0.9}
"""By share of the limit, what of the converged objective must be there."""
CONVERGED = 4.0
SIZES = (512, 10_000)
WORKLOADS = queues.WORKLOADS
KINDS = ("gpu-only", "mixed")
JOBS_PER_GPU = 2
LIMIT_S = 15.0
CHANGED, WARM_S = 0.05, 0.5
"""Of the next planning, with the memory of the last: how much of the cluster and queue is another, and how short it may be."""


def anytime_measure(
    *, sizes: Sequence[int] = SIZES, kinds: Sequence[str] = KINDS, seed: int = 1, limit_s: float = LIMIT_S
) -> dict[str, Any]:
    """The figures of each size and kind of cluster."""
    if min(sizes) < 1 or not limit_s > 0 or not set(kinds) <= set(WORKLOADS):
        raise BenchError(f"--gpus must be at least 1, --limit-s above 0 and --workload one of {', '.join(WORKLOADS)}.")
    _placed(instance_draw(gpus=64, jobs=40, seed=1, workload="mixed"), 2.0, seed)  # loads the solver
    return {
        "seed": seed,
        "limit_s": limit_s,
        "clusters": [_cluster(gpus, kind, seed, limit_s) for gpus in sizes for kind in kinds],
    }


def _cluster(gpus: int, kind: str, seed: int, limit_s: float) -> dict[str, Any]:
    instance = instance_draw(gpus=gpus, jobs=JOBS_PER_GPU * gpus, seed=seed, workload=kind)
    converged, memory = _placed(instance, CONVERGED * limit_s, seed)
    points = [{"share": share, **_placed(instance, share * limit_s, seed)[0]} for share in SHARES]
    for each in points:
        each["of_converged"] = each["objective"] / max(converged["objective"], 1e-12)
    reached = [each["of_converged"] for each in points]
    return {
        "gpus": gpus,
        "workload": kind,
        "converged": converged,
        "points": points,
        "warm": _warm(moved_on(instance, CHANGED, seed), memory, limit_s, seed),
        "largest_fall": max(0.0, *(before - after for before, after in pairwise(reached))),
        "wanted": all(each["of_converged"] >= WANTED.get(each["share"], 0.0) for each in points),
    }


def _warm(later: Instance, memory: Memory, limit_s: float, seed: int) -> dict[str, Any]:
    """The next planning, in little time and in as much as it wants, with the memory of the last; over the converged one."""
    converged = _placed(later, CONVERGED * limit_s, seed)[0]["objective"]
    quick, whole = _placed(later, WARM_S, seed, memory)[0], _placed(later, limit_s, seed, memory)[0]
    for each in (quick, whole):
        each["of_converged"] = each["objective"] / max(converged, 1e-12)
    return {"quick": quick, "whole": whole}


def _placed(instance: Instance, limit_s: float, seed: int, memory: Memory = NOTHING) -> tuple[dict[str, Any], Memory]:
    """Place the window within the limit, as the stage of a planning; its order and window are made before."""
    parameters = Parameters.from_mapping({"time_limit_s": max(limit_s, 0.5)})
    ledger = Ledger(instance.nodes, (), ())
    queue = order(instance.jobs, PRIORITIES["lrf"], Moment(0.0), lambda job: age_of(job, RunHistory(), tick_s=30.0))
    picked = window.fill(queue, ledger, 1.0).picked
    draft = DraftPlan(objective=Objective(weights=located.weights(picked, parameters.lambda_)))
    state = ClusterState(instance.nodes, instance.jobs)
    with collector_paused():  # as the service plans
        began_s = time.process_time()
        rng, until_s = np.random.default_rng(seed), began_s + limit_s
        clock = time.process_time
        work = Work(queue, ledger, instance.estimator, parameters, rng, clock, until_s, state, 0.0, memory=memory)
        staged = place_aggregated(picked, work, draft)
        cpu_s = time.process_time() - began_s
    solver = staged.figures
    found = {
        "limit_s": round(limit_s, 3),
        "cpu_s": round(cpu_s, 3),
        "objective": solver.objective or 0.0,
        "gap": solver.gap,
        "status": solver.status,
        "incumbent": solver.incumbent,
        "window_jobs": len(picked),
        "placed_jobs": len(draft.chosen),
    }
    return found, Memory(staged.left)


def anytime_report(figures: dict[str, Any], *, as_json: bool) -> str:
    if as_json:
        return json.dumps(figures)
    rows = []
    for each in figures["clusters"]:
        last = each["converged"]
        gap = "not proven" if last["gap"] is None else f"{last['gap']:.4f}"
        points = ", ".join(
            f"{point['share']:.0%} {point['of_converged']:.1%} ({point['cpu_s']:.1f} s)" for point in each["points"]
        )
        head = f"{each['gpus']} GPUs, {each['workload']}, {last['window_jobs']} jobs"
        rows += [
            f"{head}, converged after {last['cpu_s']:.1f} s of processor at a gap of {gap}",
            f"  of the limit of {figures['limit_s']:g} s: {points}; largest fall {each['largest_fall']:.2%}",
            f"  the next planning: {', '.join(_said(each['warm'][name]) for name in ('quick', 'whole'))}",
        ]
    wanted = ", ".join(f"at least {part:.0%} after {share:.0%}" for share, part in WANTED.items())
    return "\n".join([*rows, f"wanted: {wanted}, never falling"])


def _said(one: dict[str, Any]) -> str:
    gap = "not proven" if one["gap"] is None else f"{one['gap']:.4f}"
    return f"{one['of_converged']:.1%} within {one['limit_s']:g} s ({one['cpu_s']:.2f} s, gap {gap})"
