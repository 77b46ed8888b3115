"""How fast the simulator goes: seeded jobs on a seeded cluster, and ten times as many, so that the cost of an event shows.

The jobs are like Philly's: most ask for one GPU, run times are log-normal with a long tail, arrivals are Poisson at a
given load of the cluster; or a trace file is replayed. `cpu_s` is the processor time of the whole simulation on one core;
an event is an arrival, an end or a planning.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from portal.pages.laboratory.errors import SimulationError
from portal.pages.laboratory.sources.clusters import cluster_read
from portal.pages.laboratory.sources.traces import TraceFile
from research.bench.errors import BenchError
from scheduler.model import Job, Node
from scheduler.simulator.engine import simulate
from scheduler.simulator.rivals import parameters_for
from scheduler.simulator.world.truth import Steady, TracedJob, World

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

GPUS_PER_NODE, CORES_PER_NODE, MEMORY_MIB = 8, 64, 512 * 1024
SIZES, SHARES = (1, 2, 4, 8), (0.93, 0.025, 0.025, 0.02)
MEDIAN_S, SPREAD, LONGEST_S = 1100.0, 2.0, 2 * 86_400.0
TENANTS = 15
GROWTH = 10


def jobs_draw(*, jobs: int, gpus: int, load: float, seed: int) -> list[TracedJob]:
    """Seeded jobs that keep so many GPUs busy to that part on average."""
    rng = np.random.default_rng(seed)
    sizes = rng.choice(SIZES, size=jobs, p=SHARES)
    lengths_s = np.minimum(rng.lognormal(np.log(MEDIAN_S), SPREAD, size=jobs), LONGEST_S)
    tenants = rng.integers(1, TENANTS + 1, size=jobs)
    gaps_s = rng.exponential(float((sizes * lengths_s).mean()) / (gpus * load), size=jobs)
    arrivals_s = np.cumsum(gaps_s)
    law = Steady()
    return [
        TracedJob(
            Job(number + 1, int(tenants[number]), (int(sizes[number]),), submitted_s=float(arrivals_s[number])),
            float(lengths_s[number]),
            law,
        )
        for number in range(jobs)
    ]


def world_of(gpus: int) -> World:
    """Nodes of 8 GPUs."""
    nodes = [
        Node(
            number,
            f"node-{number}",
            gpu_type="gpu",
            gpus_total=GPUS_PER_NODE,
            cores_total=CORES_PER_NODE,
            memory_total_mib=MEMORY_MIB,
        )
        for number in range(1, gpus // GPUS_PER_NODE + 1)
    ]
    return World(nodes)


def simulation_measure(*, jobs: int, gpus: int, load: float, policy: str, seed: int) -> dict[str, Any]:
    """The figures of so many jobs and of ten times as many; `growth`: the latter's cost an event over the former's."""
    if jobs < 1 or gpus < GPUS_PER_NODE:
        raise BenchError(f"--jobs must be at least 1 and --gpus at least {GPUS_PER_NODE}.")
    if not 0 < load <= 2:
        raise BenchError("--load must be above 0 and at most 2.")
    world = world_of(gpus)
    _run(jobs_draw(jobs=50, gpus=gpus, load=load, seed=seed), world, policy, seed)  # loads and warms up
    runs = [
        _run(jobs_draw(jobs=count, gpus=gpus, load=load, seed=seed), world, policy, seed)
        for count in (jobs, GROWTH * jobs)
    ]
    growth = runs[1]["cpu_us_per_event"] / runs[0]["cpu_us_per_event"]
    return {"policy": policy, "gpus": gpus, "load": load, "seed": seed, "runs": runs, "growth": round(growth, 3)}


def trace_measure(
    *, trace: Path, form: str, cluster: Path, policy: str, seed: int, until_days: float | None
) -> dict[str, Any]:
    """The figures of a trace file on a described cluster."""
    try:
        described = cluster_read(cluster)
        jobs, _ = TraceFile(trace, form).read(described)
    except (SimulationError, ValueError) as error:
        raise BenchError(str(error)) from error
    run = _run(jobs, described.world, policy, seed, until_s=None if until_days is None else until_days * 86_400)
    return {"policy": policy, "trace": trace.name, "seed": seed, "runs": [run]}


def _run(
    jobs: Sequence[TracedJob], world: World, policy: str, seed: int, until_s: float | None = None
) -> dict[str, Any]:
    began_s = time.process_time()
    made = simulate(jobs, world, parameters_for(policy), seed=seed, clock=time.process_time, until_s=until_s)
    cpu_s = time.process_time() - began_s
    arrived = sum(each.submitted_s <= made.ended_s for each in made.jobs)
    events = arrived + sum(each.ended_s is not None for each in made.jobs) + len(made.plannings)
    return {
        "jobs": arrived,
        "plannings": len(made.plannings),
        "events": events,
        "queue_most": max((each.queue_gpu_jobs + each.queue_cpu_jobs for each in made.plannings), default=0),
        "virtual_days": round(made.ended_s / 86_400, 3),
        "cpu_s": round(cpu_s, 3),
        "cpu_us_per_event": round(1e6 * cpu_s / max(1, events), 2),
        "times_real_time": round(made.ended_s / max(cpu_s, 1e-9)),
    }


def simulation_report(figures: dict[str, Any], *, as_json: bool) -> str:
    if as_json:
        return json.dumps(figures)
    lines = [f"{figures['policy']} on {figures.get('trace') or str(figures['gpus']) + ' GPUs'}"]
    lines += [
        f"{run['jobs']} jobs, {run['plannings']} plannings, {run['virtual_days']:g} days, at most {run['queue_most']} waiting: "
        f"{run['cpu_s']:g} s of processor time, {run['cpu_us_per_event']:g} us an event, {run['times_real_time']} times real time"
        for run in figures["runs"]
    ]
    if "growth" in figures:
        lines.append(f"an event of ten times as many jobs costs {figures['growth']:g} times as much")
    return "\n".join(lines)
