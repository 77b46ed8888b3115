"""A small cluster of three tenants as the demo has it, for a longer time: rigid and elastic trainings, arrays, CPU jobs.

Nodes have 8, 4 or 2 GPUs, of three types. One tenant's jobs are elastic and movable. Another's are rigid but checkpointable. The
third submits arrays of one-GPU tasks that cannot be stopped, and now and then a large rigid job that needs whole nodes. Lengths
are lognormal. Nothing here was chosen by a policy's figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.model import Job, Node, Tenant
from scheduler.simulator.world.laws import Scaled
from scheduler.simulator.world.truth import Steady, TracedJob, World

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.random import Generator

    from scheduler.simulator.world.truth import Law

SERVERS = (("a100", 4, 8, 64), ("rtx", 4, 4, 32), ("l4", 2, 2, 32))
"""GPU type, servers, GPUs and cores of each: 52 GPUs."""
SPEEDS = {"a100": 1.6, "rtx": 1.0, "l4": 0.6}

ELASTIC = ((1, 2, 4), (2, 4, 8), (1, 2), (2, 4), (4, 8))
RIGID = (1, 2, 4, 8)
WIDE = (10, 12, 16)
"""Of the rigid jobs one in `WIDE_ONE_IN` needs more than a node."""
WIDE_ONE_IN = 12
MEDIAN_H, SIGMA = 0.4, 0.9
LOAD = 1.05
"""GPU-hours asked for over those of the cluster (of mean speed), while jobs arrive."""


def nodes() -> list[Node]:
    every = [(kind, gpus, cores) for kind, count, gpus, cores in SERVERS for _ in range(count)]
    return [
        Node(number, f"{kind}-{number:02d}", kind, gpus, cores_total=cores, memory_total_mib=262_144)
        for number, (kind, gpus, cores) in enumerate(every, start=1)
    ]


def generate(rng: Generator, *, hours: float) -> tuple[list[TracedJob], World]:
    """What three tenants submit in so many hours, by arrival, and the cluster."""
    every = nodes()
    power = sum(node.gpus_total * SPEEDS[node.gpu_type or ""] for node in every)
    jobs: list[TracedJob] = []
    asked = 0.0
    while asked < LOAD * power * hours:
        at_s = float(rng.uniform(0.0, hours * 3600.0))
        made = _SUBMITTERS[int(rng.integers(len(_SUBMITTERS)))](rng, len(jobs) + 1, at_s)
        asked += sum(each.job.requirement[0] ** 0.9 * each.work / 3600.0 for each in made if each.job.requirement[0])
        jobs += made
    world = World(
        every, tuple(Tenant(number) for number in (1, 2, 3)), gpu_speeds=SPEEDS, tick_s=30.0, restart_s=30.0, noise=0.02
    )
    return sorted(jobs, key=lambda each: (each.job.submitted_s, each.job.id)), world


def _seconds(rng: Generator) -> float:
    return float(MEDIAN_H * 3600.0 * rng.lognormal(0.0, SIGMA))


def _elastic(rng: Generator, number: int, at_s: float) -> list[TracedJob]:
    sizes = ELASTIC[int(rng.integers(len(ELASTIC)))]
    return [_training(rng, number, 1, sizes, at_s, movable=True)]


def _rigid(rng: Generator, number: int, at_s: float) -> list[TracedJob]:
    wide = int(rng.integers(WIDE_ONE_IN)) == 0
    choices = WIDE if wide else RIGID
    return [_training(rng, number, 2, (choices[int(rng.integers(len(choices)))],), at_s, movable=not wide)]


def _array(rng: Generator, number: int, at_s: float) -> list[TracedJob]:
    """A dozen tasks, and a CPU job that reads what they wrote."""
    seconds = _seconds(rng) / 2
    tasks = [_job(number + n, 3, (1,), at_s, seconds, _law(1), cores=4) for n in range(int(rng.integers(6, 19)))]
    return [*tasks, _job(number + len(tasks), 3, (0,), at_s, seconds / 2, Steady(), cores=2)]


_SUBMITTERS = (_elastic, _elastic, _rigid, _rigid, _array)


def _training(
    rng: Generator, number: int, tenant: int, sizes: Sequence[int], at_s: float, *, movable: bool
) -> TracedJob:
    return _job(number, tenant, tuple(sizes), at_s, _seconds(rng), _law(sizes[0]), cores=4, movable=movable)


def _law(gpus: int) -> Law:
    return Scaled(gpus, 1.0, SPEEDS)


def _job(
    number: int,
    tenant: int,
    sizes: tuple[int, ...],
    at_s: float,
    seconds: float,
    law: Law,
    *,
    cores: int,
    movable: bool = False,
) -> TracedJob:
    """`seconds`: at its smallest size on a GPU of speed 1; its tenant says so."""
    job = Job(
        number,
        tenant,
        sizes,
        submitted_s=at_s,
        category="cpu" if sizes == (0,) else "cv",
        cores=cores,
        expected_duration_s=seconds,
        movable=movable,
    )
    return TracedJob(job, seconds, law)
