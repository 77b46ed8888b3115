"""Seeded clusters and queues to measure a planning on (`./berth bench planning`): three workloads, one recipe.

Cluster: nodes of 8 GPUs, five GPU types in equal parts, by the seed's order. 30 % of the GPUs are held by running jobs
of 1, 2, 4 or 8 GPUs that arrived at random nodes. Queue, each draw independent:
- requirement: R_1 is 1, 2, 3, 4, 6, 8 or 16 (28, 22, 10, 18, 8, 10, 4 %), R_max = R_1 times 1, 2 or 4 (30, 40, 30 %)
  and at most 16, the range cut into at most four equally spaced sizes, as a tenant's range would be (section 1);
- placement sensitivity rho: uniform in 1-2, so two in five jobs are below sigma = 1.4 and may be spread over nodes;
- per-GPU throughput on a type: the type's speed times a lognormal factor (sigma 0.25) of the job and type, times
  r^-e with e uniform in 0.05-0.3; spread over nodes it is divided by rho;
- types: seven jobs in ten take any, the others two or three of the five;
- waiting time exponential (mean 2 h), age lognormal (median 1 h, sigma 1); eight tenants of unequal demand.
`gpu-only`: 64 cores a node, each job asks 4 a GPU, so cores never bind. `cores`: a node has 28, 32, 40, 48, 56 or 64
cores, a job (queued or running) asks 1-10 a GPU, so they do. `mixed`: the same queue on nodes of all sizes and six types
(`research.workloads.mixed`). Memory is ample in all.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from research.workloads import mixed
from scheduler.estimator.estimator import Estimator
from scheduler.estimator.layers import EntityLayer, Estimate
from scheduler.estimator.measured import by_node, signature
from scheduler.model import Job, Node
from scheduler.model.speeds import Cell, CellKey, Knowledge

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.random import Generator

WORKLOADS = ("gpu-only", "cores", "mixed")
GPU_SPEEDS: Mapping[str, float] = {"a": 1.0, "b": 1.3, "c": 1.7, "d": 2.2, "e": 2.8}
GPUS_PER_NODE = 8
BUSY = 0.3
TENANTS = 8
NODE_CORES, JOB_CORES = (28, 32, 40, 48, 56, 64), (1, 10)
FIRST_SIZES, FIRST_ODDS = (1, 2, 3, 4, 6, 8, 16), (0.28, 0.22, 0.10, 0.18, 0.08, 0.10, 0.04)
MOST_GPUS, MOST_SIZES = 16, 4
MEMORY_MIB = 1 << 20
OWN_RATIOS = (0.5, 0.7, 0.8, 1.25, 1.5, 2.0)


def _up_to(odds: Sequence[float]) -> list[float]:
    """The odds of each and all before it, as `Generator.choice` sums them: one number of the generator says which it is."""
    sums = np.cumsum(odds)
    found: list[float] = (sums / sums[-1]).tolist()
    return found


FIRST_UP_TO, TIMES, TIMES_UP_TO = _up_to(FIRST_ODDS), (1, 2, 4), _up_to((0.3, 0.4, 0.3))


@dataclass(frozen=True, slots=True)
class Drawn:
    """A layer with the drawn truth: speed per job and type, scaling exponent and sensitivity per job."""

    speeds: Mapping[tuple[int, str], float]
    exponents: Mapping[int, float]
    sensitivities: Mapping[int, float]

    def per_gpu(self, job: Job, node: Node, gpus: int, nodes: int) -> Estimate:
        value = self.speeds[job.id, node.gpu_type or ""] * float(gpus ** -self.exponents[job.id])
        return Estimate(value / (self.sensitivities[job.id] if nodes > 1 else 1.0), "type", in_samples=True)

    def sensitivity(self, job: Job) -> float:
        return self.sensitivities[job.id]


@dataclass(frozen=True, slots=True)
class Instance:
    """A cluster, a queue and what is known of the jobs' speed."""

    nodes: tuple[Node, ...]
    jobs: tuple[Job, ...]
    estimator: Estimator


def instance_draw(*, gpus: int, jobs: int, seed: int, workload: str) -> Instance:
    """The instance of these figures; `gpus` is rounded up to whole nodes. ValueError for an unknown workload."""
    if workload not in WORKLOADS:
        raise ValueError(f"workload is {workload!r}; it must be one of {', '.join(WORKLOADS)}")
    if gpus < 1 or jobs < 0:
        raise ValueError(f"gpus is {gpus} and jobs {jobs}; at least 1 and 0 are needed")
    rng = np.random.default_rng([seed, gpus, jobs, WORKLOADS.index(workload)])
    if workload == "mixed":
        nodes, speeds = mixed.mixed_nodes(gpus, rng), mixed.GPU_SPEEDS
    else:
        nodes, speeds = _nodes(-(-gpus // GPUS_PER_NODE), rng, scarce=workload == "cores"), GPU_SPEEDS
    queue = tuple(_job(number, rng, speeds, scarce=workload != "gpu-only") for number in range(1, jobs + 1))
    layer = Drawn(
        {
            (job.id, name): speed * float(factor)
            for job in queue
            for (name, speed), factor in zip(speeds.items(), np.exp(rng.normal(0.0, 0.25, len(speeds))), strict=True)
        },
        {job.id: float(each) for job, each in zip(queue, rng.uniform(0.05, 0.3, jobs), strict=True)},
        {job.id: float(each) for job, each in zip(queue, rng.uniform(1.0, 2.0, jobs), strict=True)},
    )
    return Instance(nodes, queue, Estimator((layer,)))


def with_own_speeds(instance: Instance, nodes: int, seed: int) -> Instance:
    """The instance with a speed of a job's own on this number of nodes, at most one a node: 0.5 to 2 times that of its class."""
    rng = np.random.default_rng([seed, nodes])
    cells: dict[CellKey, Cell] = {}
    for k in rng.permutation(len(instance.nodes))[:nodes].tolist():
        node = instance.nodes[k]
        job = instance.jobs[int(rng.integers(len(instance.jobs)))]
        if job.may_use(node.gpu_type):
            usual = instance.estimator.per_gpu(job, node, job.min_gpus, 1).per_gpu
            speed = usual * float(rng.choice(OWN_RATIOS))
            cells[CellKey(signature(job), node.id, gpus=job.min_gpus)] = Cell(3, speed)
    layer = EntityLayer(Knowledge(cells), by_node(cells))
    return Instance(instance.nodes, instance.jobs, Estimator((layer, *instance.estimator.layers)))


def _nodes(count: int, rng: Generator, *, scarce: bool) -> tuple[Node, ...]:
    types = rng.permutation([list(GPU_SPEEDS)[k % len(GPU_SPEEDS)] for k in range(count)])
    totals = rng.choice(NODE_CORES, count) if scarce else np.full(count, 64)
    gpus, cores = np.full(count, GPUS_PER_NODE), totals.copy()
    busy, wanted = 0, round(BUSY * count * GPUS_PER_NODE)
    while busy < wanted:
        size, per_gpu = min(int(rng.choice((1, 2, 4, 8))), wanted - busy), int(rng.integers(*JOB_CORES, endpoint=True))
        fitting = np.flatnonzero((gpus >= size) & (cores >= size))
        if not len(fitting):
            continue
        k = rng.choice(fitting)
        gpus[k] -= size
        cores[k] -= min(cores[k], size * (per_gpu if scarce else 4))
        busy += size
    return tuple(_node(k, str(types[k]), int(totals[k]), int(gpus[k]), int(cores[k])) for k in range(count))


def _node(k: int, gpu_type: str, cores_total: int, gpus: int, cores: int) -> Node:
    return Node(
        id=k + 1,
        name=f"n{k + 1}",
        gpu_type=gpu_type,
        gpus_total=GPUS_PER_NODE,
        idle_gpus=tuple(range(GPUS_PER_NODE - gpus, GPUS_PER_NODE)),
        cores_total=cores_total,
        idle_cores=tuple(range(cores_total - cores, cores_total)),
        memory_total_mib=MEMORY_MIB,
        idle_memory_mib=MEMORY_MIB,
    )


@cache
def _sizes(least: int, most: int) -> tuple[int, ...]:
    return tuple(map(int, np.unique(np.linspace(least, most, min(MOST_SIZES, most - least + 1)).round())))


def _job(number: int, rng: Generator, speeds: Mapping[str, float], *, scarce: bool) -> Job:
    least = FIRST_SIZES[bisect_right(FIRST_UP_TO, rng.random())]
    most = min(MOST_GPUS, least * TIMES[bisect_right(TIMES_UP_TO, rng.random())])
    types = frozenset[str]()
    if rng.random() >= 0.7:
        types = frozenset(map(str, rng.choice(list(speeds), int(rng.integers(2, 3, endpoint=True)), replace=False)))
    return Job(
        id=number,
        tenant=1 + int(TENANTS * rng.random() ** 2),
        requirement=_sizes(least, most),
        submitted_s=float(number),
        gpu_types=types,
        cores=int(rng.integers(*JOB_CORES, endpoint=True)) if scarce else 4,
        memory_mib=1024,
        wait_s=float(rng.exponential(7200)),
        age_s=float(3600 * np.exp(rng.normal())),
    )
