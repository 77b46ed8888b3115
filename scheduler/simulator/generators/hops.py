"""Hops' workload and clusters (SoCC '24, 4.2 and 4.3), drawn: statistics as published, the rest in `hops_constants`.

                        the paper                               here
    jobs, arrivals      500, Poisson, 100 an hour; 25 in 2.5 h  the same; `jobs`, `per_hour`
    models              Table 2                                 its rows, then their data sets, then models, equally likely
    size classes        S 0-1, M 1-10, L 10-50, XL > 50 GPU h   the same, by `Choices`; shares: 5, 8, 8 and 1 of 22
    requirement sets    up to 8 sizes of 1 to 16 GPUs           1 to 8 of them, equally likely, drawn from those of 1 to 16 with
                                                                which the job takes `shortest_h` to `longest_h`
    512 GPUs            64 servers of 8, five kinds             the same; three GPU types, RTX3090 in three kinds of server
    64 GPUs             10 servers, four kinds                  the same
    iteration           eq. 1-5, two normals of data times      the same is the truth, up to `MODEL_ERROR` a cell
    profiling           10-50 iterations, under a minute        30, from which the scheduler fits; known after 60 s
    entities            speeds differ by server and place       a factor of the kind of server, and one of the node
    users               not given                               one tenant

A job's work is its class hours on one GTX 1080 Ti times `Choices.class_hour`. Jobs of one model share their truth and, by their
label, their measurements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from scheduler.estimator.mixture import absorb
from scheduler.model import Job, Node, Tenant
from scheduler.model.speeds import Link, Loading, Part, Profile
from scheduler.simulator.generators import hops_models as free
from scheduler.simulator.generators.hops_models import FROZEN_64, FROZEN_512, ROWS, TASKS, Choices, Task
from scheduler.simulator.world.laws import Training
from scheduler.simulator.world.truth import TracedJob, World

TENANT = 1
LARGEST, MOST_SIZES = 16, 8
GPU_TYPES = ("gtx1080ti", "titanxp", "rtx3090")
REFERENCE = "gtx1080ti"


POOR = "w780-3090"
"""The kind of server whose speed is a choice."""


@dataclass(frozen=True, slots=True)
class Server:
    """A kind of server: GPU type and count, cores, memory, and which entity speed it has."""

    gpu_type: str
    gpus: int
    cores: int
    memory_gib: int
    speed: str


PHYSICAL = (
    (2, Server("gtx1080ti", 8, 24, 192, "w780")),
    (4, Server("titanxp", 8, 24, 192, "w780")),
    (2, Server("rtx3090", 4, 24, 192, POOR)),
    (2, Server("rtx3090", 4, 32, 384, "yk8100-8g")),
)
"""4.2: 64 GPUs in 10 servers."""

OF_EIGHT = (
    (2, Server("gtx1080ti", 8, 24, 192, "w780")),
    (2, Server("titanxp", 8, 24, 192, "w780")),
    (2, Server("rtx3090", 8, 24, 192, POOR)),
    (1, Server("rtx3090", 8, 32, 384, "yk8100-8g")),
    (1, Server("rtx3090", 8, 52, 384, "yk8100-10g")),
)
"""4.3: of each eight servers with 64 GPUs; the paper's 512 GPUs are eight of these."""


def generate(
    rng: Generator, *, jobs: int = 500, per_hour: float = 100.0, choices: Choices = FROZEN_512
) -> list[TracedJob]:
    """The workload, by arrival. `per_hour`: mean arrivals; `choices`: the values that the paper leaves open."""
    laws = {task: _truth(task, rng, link_of(choices)) for task in TASKS}
    found = {
        task: {name: _observe(profile, rng) for name, profile in law.profiles.items()} for task, law in laws.items()
    }
    arrivals_s = rng.exponential(3600.0 / per_hour, jobs).cumsum()
    drawn: list[TracedJob] = []
    for number, at_s in enumerate(arrivals_s, start=1):
        row = ROWS[int(rng.integers(len(ROWS)))]
        tasks = row[int(rng.integers(len(row)))]
        task = tasks[int(rng.integers(len(tasks)))]
        (low, high), share = choices.class_hours[task.size], float(rng.random())
        hours = low + (high - low) * share if choices.even_hours else low * (high / low) ** share
        samples = hours * choices.class_hour * 3600.0 * laws[task].per_gpu(REFERENCE, 1, 1)
        job = Job(
            number,
            TENANT,
            _draw_requirement(hours, choices, rng),
            submitted_s=float(at_s),
            category=task.model.category,
            model_label=task.name,
            total_samples=samples,
            movable=True,
        )
        drawn.append(
            TracedJob(job, samples, laws[task], name=f"{task.name}-{number}", reports=True, profiles=found[task])
        )
    return drawn


def choices_of(*, physical: bool) -> Choices:
    """The frozen ones: of the physical cluster's workload, or of the simulated ones'."""
    return FROZEN_64 if physical else FROZEN_512


def world(rng: Generator, *, gpus: int = 512, physical: bool = False, choices: Choices | None = None) -> World:
    """The simulated cluster at that size, a multiple of 64 GPUs, or the paper's physical one of 64."""
    servers = PHYSICAL if physical else tuple((count * gpus // 64, kind) for count, kind in OF_EIGHT)
    chosen = choices or choices_of(physical=physical)
    factors = {**free.ENTITY_SPEED, POOR: chosen.poor_server}
    nodes: list[Node] = []
    speeds: dict[int, float] = {}
    for count, kind in servers:
        for _ in range(count):
            node = _node(len(nodes) + 1, kind)
            nodes.append(node)
            speeds[node.id] = factors[kind.speed] * float(rng.lognormal(0.0, free.ENTITY_SPREAD))
    return World(
        nodes,
        (Tenant(TENANT),),
        links=dict.fromkeys(GPU_TYPES, link_of(chosen)),
        speeds=speeds,
        restart_s=free.RESTART_S,
        profiling_s=free.PROFILING_S,
        noise=free.SPEED_NOISE,
    )


def _node(number: int, kind: Server) -> Node:
    memory_mib = kind.memory_gib * 1024
    return Node(
        number,
        f"{kind.speed}-{number:03d}",
        kind.gpu_type,
        kind.gpus,
        tuple(range(kind.gpus)),
        kind.cores,
        tuple(range(kind.cores)),
        memory_mib,
        memory_mib,
    )


def link_of(choices: Choices) -> Link:
    """Parameters per second that a process moves, within a node and between nodes."""
    within, between = (each * 1e9 / free.BYTES_PER_PARAMETER for each in (choices.within_gbs, choices.between_gbs))
    return Link(within, between)


def _draw_requirement(hours: float, choices: Choices, rng: Generator) -> tuple[int, ...]:
    """Sizes at which the job, by its class hours, takes as long as its user has patience for, and as is worth the GPUs."""
    least = min(LARGEST, math.ceil(hours / choices.longest_h))
    most = max(least, min(LARGEST, math.floor(hours / choices.shortest_h)))
    count = min(int(rng.integers(1, MOST_SIZES + 1)), most + 1 - least)
    sizes = np.arange(least, most + 1)
    weights = sizes.astype(float) ** -choices.small_sizes
    return tuple(sorted(int(size) for size in rng.choice(sizes, count, replace=False, p=weights / weights.sum())))


def _truth(task: Task, rng: Generator, link: Link) -> Training:
    errors = rng.lognormal(0.0, free.MODEL_ERROR, (len(GPU_TYPES), 2, LARGEST + 1))
    errors[:, 0, :2] = 1.0  # on one GPU the profile is what was measured
    cells = {
        name: (tuple(map(float, aggregated)), tuple(map(float, distributed)))
        for name, (aggregated, distributed) in zip(GPU_TYPES, errors, strict=True)
    }
    return Training({name: _profile(task, name) for name in GPU_TYPES}, dict.fromkeys(GPU_TYPES, link), cells)


def _profile(task: Task, gpu_type: str) -> Profile:
    """The true time modules. A data time is as long on every type: loading is the server's work."""
    flops = task.batch_size * task.model.forward_gflop * task.data.compute * 1e9
    forward_s = flops / (free.TERAFLOPS[task.model.kind][gpu_type] * 1e12)
    hit, miss = (each * task.batch_size for each in (task.data.hit_s, task.data.miss_s))
    parts = [_part(1.0 - task.data.misses, hit), *([_part(task.data.misses, miss)] if task.data.misses else [])]
    return Profile(
        forward_s,
        forward_s * free.BACKWARD_OVER_FORWARD,
        task.model.parameters / free.UPDATE_PARAMETERS_PER_S[task.model.optimiser],
        task.batch_size,
        task.model.parameters,
        task.model.pattern,
        Loading(parts=tuple(parts)),
    )


def _part(probability: float, data_s: float) -> Part:
    """A normal component of the data times, with its waiting times, in the sufficient statistics that `Loading` keeps."""
    p, wait_s, squares = probability, data_s * free.WAIT_OF_DATA, 1.0 + free.DATA_SPREAD**2
    return Part(p, p * data_s, p * squares * data_s**2, p * wait_s, p * squares * wait_s**2, p)


def _observe(true: Profile, rng: Generator) -> Profile:
    """The result of a profiling run: noisy modules, and data times as few iterations show them."""
    forward, backward, update = 1.0 + free.PROFILE_NOISE * rng.standard_normal(3)
    return Profile(
        true.forward_s * float(forward),
        true.backward_s * float(backward),
        true.update_s * float(update),
        true.batch_size,
        true.parameters,
        true.pattern,
        absorb(Loading(), data_times(true.loading, free.PROFILED_ITERATIONS, rng)),
    )


def data_times(loading: Loading, count: int, rng: Generator) -> Sequence[float]:
    """Seconds of `count` loads: hits and misses as they come (eq. 3)."""
    which = rng.choice(len(loading.parts), count, p=loading.probabilities)
    mean_s, sigma_s = np.array([(part.data_s, part.data_sigma_s) for part in loading.parts]).T
    times_s: list[float] = np.maximum(0.0, rng.normal(mean_s[which], sigma_s[which])).tolist()
    return times_s
