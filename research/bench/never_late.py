"""Does any planning outlive its time limit? (algorithms.md section 6: never nothing, never late)

Plannings of seeded instances, whole calls of `scheduler.planning.plan.plan` under a real clock: random clusters and queues,
many equal jobs, near-ties, 512 GPUs with 700 candidates; quotas, scarce cores and memory; limits from 0.5 s,
the least allowed, to 2 s. One is late when it takes over 1.1 times its limit. Each plan is checked node by node against
its snapshot.

`long`: so many plannings of 100 000 jobs, as many memory sizes among them, on 8 000 GPUs under the default limit, each once
more on a core that gives it a quarter of its time, and a sixth (a clock of processor seconds that runs so many times as fast).
"""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

from portal.planning.rounds.planning.run import collector_paused
from scheduler.model import ClusterState, Job, Node, Plan, Tenant
from scheduler.parameters import Parameters
from scheduler.planning.plan import plan

LATE = 1.1
LIMITS_S = (0.5, 0.5, 1.0, 2.0)
POLICIES = ("berth", "berth", "hops", "coda")
LONG_JOBS, LONG_NODES, STARVED = 100_000, 1_000, (4.0, 6.0)
KINDS = ("random", "equal", "near-ties", "large")
TYPES = {"a": 1.0, "b": 1.3, "c": 2.2}
SIZES = ((1,), (2,), (1, 2), (1, 2, 4), (4,), (2, 4, 8), (8,), (3, 5), (4, 8, 16), (0,))


@dataclass(frozen=True, slots=True)
class Instance:
    """A snapshot and the knobs it is planned with."""

    kind: str
    state: ClusterState
    parameters: Parameters


def instance_of(seed: int, number: int) -> Instance:
    """The instance of that number: its own generator, so that a single one can be made again."""
    rng = np.random.default_rng([seed, number])
    kind = KINDS[number % len(KINDS)]
    nodes = _nodes(64 if kind == "large" else int(rng.integers(1, 60)), rng)
    count = 700 if kind in {"large", "equal"} else int(rng.integers(1, 500))
    jobs = _jobs(kind, count, rng)
    tenants = [
        Tenant(number, gpu_quota=int(rng.integers(4, 200)), core_quota=int(rng.integers(8, 900)))
        for number in range(1, 6)
        if rng.random() < 0.4
    ]
    knobs = {
        "policy": str(rng.choice(POLICIES)),
        "time_limit_s": float(rng.choice(LIMITS_S)),
        "placement": "greedy" if rng.random() < 0.1 else "ilp",
    }
    state = ClusterState(nodes, jobs, tenants=tenants, gpu_speeds=TYPES)
    return Instance(kind, state, Parameters.from_mapping(knobs))


def _nodes(count: int, rng: Generator) -> tuple[Node, ...]:
    made = []
    for number in range(1, count + 1):
        gpus, cores, memory_mib = 8, int(rng.choice((28, 32, 48, 64))), int(rng.choice((64_000, 256_000)))
        idle, idle_cores = int(rng.integers(0, gpus + 1)), int(rng.integers(1, cores + 1))
        made.append(
            Node(
                id=number,
                name=f"n{number}",
                gpu_type=str(rng.choice(list(TYPES))),
                gpus_total=gpus,
                idle_gpus=tuple(range(idle)),
                cores_total=cores,
                idle_cores=tuple(range(idle_cores)),
                memory_total_mib=memory_mib,
                idle_memory_mib=int(rng.integers(memory_mib // 4, memory_mib + 1)),
                speed=float(rng.choice((1.0, 1.0, 0.9))),
                single_account=bool(rng.random() < 0.05),
                trusts_tenants=False,
            )
        )
    return tuple(made)


def _jobs(kind: str, count: int, rng: Generator) -> tuple[Job, ...]:
    """`equal`: one shape and wait for all; `near-ties`: waits apart by less than any gap; else drawn one by one."""
    shape = _job(0, rng)
    made = []
    for number in range(1, count + 1):
        drawn = shape if kind == "equal" else _job(number, rng)
        near = 3600.0 + 1e-4 * (number % 7)
        waited = {"equal": 3600.0, "near-ties": near}.get(kind, drawn.wait_s)
        made.append(replace(drawn, id=number, submitted_s=float(number), tenant=1 + number % 5, wait_s=waited))
    return tuple(made)


def _job(number: int, rng: Generator) -> Job:
    requirement = SIZES[int(rng.integers(len(SIZES)))] if number else SIZES[int(rng.integers(len(SIZES) - 1))]
    return Job(
        id=number,
        tenant=1,
        requirement=requirement,
        gpu_types=frozenset() if rng.random() < 0.7 else frozenset({str(rng.choice(list(TYPES)))}),
        cores=int(rng.integers(1, 10)),
        memory_mib=int(rng.integers(1, 64_000)),
        wait_s=float(rng.exponential(7200)),
        age_s=float(3600 * np.exp(rng.normal())),
        movable=bool(rng.random() < 0.5),
    )


def violations(made: Plan, state: ClusterState) -> list[str]:
    """What of the snapshot the plan hands out twice or has not got; [] for a feasible plan."""
    nodes, jobs = {node.id: node for node in state.nodes}, {job.id: job for job in state.jobs}
    used: Counter[tuple[str, int, int]] = Counter()
    memory: Counter[int] = Counter()
    wrong = [
        f"job {job} is placed twice" for job, times in Counter(p.job for p in made.placements).items() if times > 1
    ]
    for placement in made.placements:
        if placement.gpus not in jobs[placement.job].requirement:
            wrong.append(f"job {placement.job} gets {placement.gpus} GPUs")
        for piece in placement.pieces:
            used.update(("gpu", piece.node, index) for index in piece.gpus)
            used.update(("core", piece.node, index) for index in piece.cores)
            memory[piece.node] += piece.memory_mib
    idle = {("gpu", node.id, index) for node in state.nodes for index in node.idle_gpus}
    idle |= {("core", node.id, index) for node in state.nodes for index in node.idle_cores}
    wrong += [f"{what} is handed out {times} times" for what, times in used.items() if times > 1 or what not in idle]
    wrong += [f"node {number} lacks memory" for number, mib in memory.items() if mib > nodes[number].idle_memory_mib]
    return wrong


def long_measure(number: int, seed: int, *, jobs: int = LONG_JOBS, nodes: int = LONG_NODES) -> list[dict[str, Any]]:
    """One queue of so many jobs, planned on a core of its own and on starved ones."""
    rng = np.random.default_rng([seed, number, jobs])
    state = ClusterState(_nodes(nodes, rng), _jobs("random", jobs, rng), gpu_speeds=TYPES)
    parameters = Parameters()
    found = []
    for slowness in (1.0, *STARVED):
        with collector_paused():
            began_s = time.process_time()
            made = plan(
                state,
                0.0,
                parameters,
                np.random.default_rng(1),
                partial(_stretched_s, slowness),
            )
            taken_s = slowness * (time.process_time() - began_s)
        found.append(
            {
                "slowness": slowness,
                "ratio": taken_s / parameters.limit_s,
                "placed": len(made.placements),
                "gpus_idle": made.metrics.gpus_idle,
                "infeasible": bool(violations(made, state)),
            }
        )
    return found


def _stretched_s(slowness: float) -> float:
    """Return the processor's seconds, stretched as if it were so much slower."""
    return slowness * time.process_time()


def never_late_measure(*, instances: int, seed: int, long: int = 0) -> dict[str, Any]:
    """The sweep's figures; `slowest` describes the planning with the worst ratio of time taken to limit."""
    _load_solver()
    figures: dict[str, Any] = {"instances": instances, "seed": seed, "late": 0, "late_cpu": 0}
    figures |= {
        "worst_ratio": 0.0,
        "worst_cpu_ratio": 0.0,
        "infeasible": 0,
        "without_gap": 0,
        "unseen": 0,
        "slowest": {},
    }
    for number in range(instances):
        instance = instance_of(seed, number)
        _count(figures, number, instance, *_run(instance))
    figures["long"] = [each for number in range(long) for each in long_measure(number, seed)]
    return figures


def _count(figures: dict[str, Any], number: int, instance: Instance, made: Plan, wall_s: float, cpu_s: float) -> None:
    """Add one planning to the figures."""
    limit_s = instance.parameters.limit_s
    figures["late"] += wall_s > LATE * limit_s
    figures["late_cpu"] += cpu_s > LATE * limit_s
    figures["worst_cpu_ratio"] = max(figures["worst_cpu_ratio"], cpu_s / limit_s)
    figures["infeasible"] += bool(violations(made, instance.state))
    figures["without_gap"] += made.solver.objective is not None and made.solver.gap is None
    figures["unseen"] += made.solver.unseen > 0
    if wall_s / limit_s > figures["worst_ratio"]:
        figures["worst_ratio"] = wall_s / limit_s
        figures["slowest"] = {
            "instance": number,
            "kind": instance.kind,
            "policy": made.policy,
            "formulation": made.solver.formulation,
            "limit_s": limit_s,
            "wall_s": wall_s,
            "cpu_s": cpu_s,
        }


def _load_solver() -> None:
    """One small planning that is solved: what the first one loads is no part of the others."""
    whole = tuple(range(8))
    nodes = [Node(1, "n1", "a", 8, whole, 8, whole, 1, 1)]
    jobs = [Job(number, 1, (1, 2)) for number in range(1, 6)]
    _run(Instance("random", ClusterState(nodes, jobs), Parameters()))


def _run(instance: Instance) -> tuple[Plan, float, float]:
    """The plan, and the wall and processor seconds that it took."""
    rng = np.random.default_rng(1)
    with collector_paused():  # as the service plans
        began_s, began_cpu_s = time.monotonic(), time.process_time()
        made = plan(instance.state, 0.0, instance.parameters, rng, time.monotonic)
        return made, time.monotonic() - began_s, time.process_time() - began_cpu_s


def _core(slowness: float) -> str:
    return "a core of its own" if slowness == 1.0 else f"a core that gives it one part of {slowness:g}"


def never_late_report(figures: dict[str, Any], *, as_json: bool) -> str:
    if as_json:
        return json.dumps(figures)
    slowest = figures["slowest"]
    rows = [
        f"{LONG_JOBS} jobs, {_core(each['slowness'])}: {each['ratio']:.2f} of the limit, {each['placed']} placed, "
        f"{each['gpus_idle']} GPUs left idle"
        for each in figures["long"]
    ]
    head = (
        f"{figures['instances']} plannings: {figures['late']} late, the slowest at {figures['worst_ratio']:.2f} of its "
        f"limit of {slowest['limit_s']:g} s ({slowest['kind']}, {slowest['policy']}, {slowest['formulation']}); "
        f"{figures['late_cpu']} late in processor time; {figures['infeasible']} infeasible, "
        f"{figures['without_gap']} without a proven gap, {figures['unseen']} whose gap leaves out jobs that time ended before"
    )
    return "\n".join([head, *rows])
