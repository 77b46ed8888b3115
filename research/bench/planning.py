"""How long the placement of one window takes, and how good it is: both formulations on a seeded cluster and queue.

One planning, one thread, in this process: the queue is ordered and its window filled first (not timed), then
configurations are made, solved and handed out, which is what `total_s` counts. `user_cpu_s` beside it is the
processor time of the same, which a loaded machine does not stretch.

Both formulations value a plan by the same G, so their objectives can be compared as they stand.
"""

from __future__ import annotations

import json
import resource
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from research.workloads.queues import WORKLOADS, instance_draw, with_own_speeds
from scheduler.fairness import window
from scheduler.fairness.lrf import age_of
from scheduler.fairness.priorities import PRIORITIES, Moment, order
from scheduler.model import ClusterState, RunHistory
from scheduler.parameters import Parameters
from scheduler.placement import located
from scheduler.placement.joint import place_aggregated
from scheduler.placement.ledger import Ledger
from scheduler.placement.located_stage import place_located
from scheduler.placement.objective import Objective
from scheduler.placement.outcome import DraftPlan
from scheduler.placement.work import Work

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from research.workloads.queues import Instance
    from scheduler.model import SolverFigures
    from scheduler.placement.outcome import Staged

FORMULATIONS: Mapping[str, Callable[..., Staged]] = {"located": place_located, "aggregated": place_aggregated}

LOCATED_GAP = 0.01
CORES_GAP, CORES_GAP_UP_TO_GPUS = 0.02, 1000
BOTH = "both"
REPEATS = 3


class PlanningBenchError(Exception):
    """The benchmark cannot run as asked; the sentence says why."""


def planning_measure(
    *,
    gpus: int,
    jobs: int,
    seed: int,
    formulation: str = BOTH,
    workload: str = "gpu-only",
    gap: float | None = None,
    located_gap: float = LOCATED_GAP,
    limit_s: float = 60.0,
) -> dict[str, Any]:
    """The figures of one instance, per formulation asked; `speedup` = located's total over aggregated's."""
    if gpus < 1 or jobs < 1:
        raise PlanningBenchError("--gpus and --jobs must be at least 1.")
    if not limit_s > 0:
        raise PlanningBenchError("--limit-s must be above 0.")
    instance = instance_draw(gpus=gpus, jobs=jobs, seed=seed, workload=workload)
    figures: dict[str, Any] = {"gpus": gpus, "jobs": jobs, "seed": seed, "workload": workload}
    _place(instance_draw(gpus=8, jobs=4, seed=1, workload=workload), "aggregated", 0.0, 5.0, seed)  # loads the solver
    gaps = {"located": located_gap, "aggregated": gap if gap is not None else _gap(gpus, workload)}
    for name in FORMULATIONS if formulation == BOTH else (formulation,):
        figures[name] = {"gpus": gpus, "jobs": jobs, **_place(instance, name, gaps[name], limit_s, seed)}
    if formulation == BOTH:
        figures["speedup"] = figures["located"]["total_s"] / max(figures["aggregated"]["total_s"], 1e-9)
    return figures


def own_speeds_measure(
    *, gpus: int, jobs: int, seed: int, workload: str, gap: float | None, limit_s: float, own_speeds: int
) -> dict[str, Any]:
    """The figures by class of one instance without and with this number of single nodes on which a job has a speed of its own.

    Both are planned in turn; `dearer` is the quotient of the medians of their processor times.
    """
    instance = instance_draw(gpus=gpus, jobs=jobs, seed=seed, workload=workload)
    instances = [with_own_speeds(instance, count, seed) for count in (0, own_speeds)]
    allowed = _gap(gpus, workload) if gap is None else gap
    _place(instance_draw(gpus=8, jobs=4, seed=1, workload=workload), "aggregated", 0.0, 5.0, seed)  # loads the solver
    runs = [[_place(each, "aggregated", allowed, limit_s, seed) for each in instances] for _ in range(REPEATS)]
    without, given = (float(np.median([each["user_cpu_s"] for each in own])) for own in zip(*runs, strict=True))
    figures: dict[str, Any] = {"gpus": gpus, "jobs": jobs, "seed": seed, "workload": workload, "own_speeds": own_speeds}
    for name, own in zip(("aggregated", "with_own"), runs[-1], strict=True):
        figures[name] = {"gpus": gpus, "jobs": jobs, **own}
    return figures | {"dearer": given / max(without, 1e-9)}


def _gap(gpus: int, workload: str) -> float:
    if workload == "cores":
        return CORES_GAP if gpus <= CORES_GAP_UP_TO_GPUS else Parameters().gap_for(gpus)
    return Parameters().gap_for(gpus)


def _place(instance: Instance, formulation: str, gap: float, limit_s: float, seed: int) -> dict[str, Any]:
    # The placement's own share of a planning is 4/5; the limit given here is the placement's.
    parameters = Parameters(gap=gap, time_limit_s=limit_s / 0.8)
    ledger = Ledger(instance.nodes, (), ())
    queue = order(instance.jobs, PRIORITIES["lrf"], Moment(0.0), lambda job: age_of(job, RunHistory(), tick_s=30.0))
    picked = window.fill(queue, ledger, 1.0).picked
    draft = DraftPlan(objective=Objective(weights=located.weights(picked, parameters.lambda_)))
    began_cpu_s, began_s = _user_cpu_s(), time.monotonic()
    deadline_s = began_s + parameters.limit_s
    rng = np.random.default_rng(seed)
    state = ClusterState(instance.nodes, instance.jobs)
    work = Work(queue, ledger, instance.estimator, parameters, rng, time.monotonic, deadline_s, state, 0.0)
    solver = FORMULATIONS[formulation](picked, work, draft).figures
    total_s, cpu_s = time.monotonic() - began_s, _user_cpu_s() - began_cpu_s
    taken = {"total_s": round(total_s, 4), "user_cpu_s": round(cpu_s, 4), "gap_allowed": gap}
    return {"window_jobs": len(picked), "placed_jobs": len(draft.chosen), **_solved(solver), **taken}


def _solved(solver: SolverFigures) -> dict[str, Any]:
    names = ("candidates", "variables", "constraints", "objective", "bound", "gap", "status", "incumbent")
    times_s = {name: round(getattr(solver, name), 4) for name in ("build_s", "solve_s")}
    return {name: getattr(solver, name) for name in names} | times_s


def _user_cpu_s() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


def planning_report(figures: dict[str, Any], *, as_json: bool) -> str:
    if as_json:
        return json.dumps(figures)
    rows = [f"{figures['gpus']} GPUs, {figures['jobs']} jobs, {figures['workload']}, seed {figures['seed']}"]
    for name in (*FORMULATIONS, "with_own"):
        if name not in figures:
            continue
        own = figures[name]
        gap = "not proven" if own["gap"] is None else f"{own['gap']:.5f}"
        rows.append(
            f"{name:11} {own['total_s']:.2f} s ({own['user_cpu_s']:.2f} s of processor) for {own['window_jobs']} jobs, "
            f"{own['variables']} variables, objective {own['objective']:.4f}, gap {gap}, {own['status']}"
        )
    if "dearer" in figures:
        rows.append(
            f"with {figures['own_speeds']} speeds of single servers {figures['dearer']:.3f} times the processor time"
        )
    if "speedup" in figures:
        rows.append(f"speedup {figures['speedup']:.1f}")
    return "\n".join(rows)


__all__ = [
    "BOTH",
    "FORMULATIONS",
    "LOCATED_GAP",
    "WORKLOADS",
    "PlanningBenchError",
    "own_speeds_measure",
    "planning_measure",
    "planning_report",
]
