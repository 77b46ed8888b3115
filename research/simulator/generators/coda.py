"""CODA's cluster and its month of jobs (CODA III-A, IV, VI), drawn: statistics as published, the rest in `coda_constants`.

                          the paper                                  here
    nodes, GPUs           about 80 servers of several GPUs, 400       60 of 4 and 20 of 8
    cores                 two sockets of 14 each                      28 a node
    jobs of a month       75 000 CPU, 25 000 GPU                      the same a day: 2 500 and 833; `days`
    tenants               20, of whom ids 15 to 20 only CPU jobs      the same; one research lab submits half the GPU jobs
    CPU load              diurnal, bursty                             arrivals a sine of the day, peak in the afternoon
    cores asked           GPU jobs: 76.1 % 1-2, 15.3 % over 10        the same, per GPU; over ten by one-GPU jobs alone
    run times             GPU jobs: 68.5 % over 1 h, 39.6 % over 2 h  the same, at the cores that were asked
    models                Table I; most are NLP and speech            cv 20 %, nlp 40 %, speech 40 %
    optimum cores         Fig. 5, without figures in the text         what Table II's steps mean (`MODELS`)
    memory traffic        0.5 % of CPU jobs use much of it            the same, 150 GB/s each where a node has 120
    sizes of GPU jobs     1 or 2, and 4 or more GPUs                  `SIZES`
    submissions           tenants submit similar jobs (V-B.1)         part of the GPU jobs in batches of similar ones

Unpublished constants were calibrated with FIFO only (`./berth experiment coda --calibrate`) and then kept:
docs/evidence/coda.md. Every job may be stopped and continue elsewhere, as in CODA (V-C: containers). Memory is always enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from research.simulator.generators import coda_constants as paper
from research.simulator.generators.coda_constants import FREE, MODELS, Free
from scheduler.model import Job, Node, Tenant
from scheduler.simulator.world.truth import Hints, Spot, Steady, TracedJob, World
from scheduler.simulator.world.tuning import CoreBound

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import NDArray

    Reals = NDArray[np.float64]
    Counts = NDArray[np.int64]

__all__ = ["FREE", "Free", "Trainings", "cpu_jobs", "generate", "trainings", "world"]

DAY_S, HOUR_S = 86_400.0, 3_600.0
CPU_LAW = Steady()
LAWS = tuple(CoreBound(model.optimum, model.sensitivity) for model in MODELS)


def world(*, tunes_cores: bool = False, relieves_memory: bool = False) -> World:
    """The cluster: 80 nodes, 400 GPUs of one type, 2 240 cores. `tunes_cores`: CODA's adaptive allocation is on;
    `relieves_memory`: its contention eliminator.
    """
    sizes = [gpus for count, gpus in paper.NODES for _ in range(count)]
    nodes = [
        Node(
            id=number,
            name=f"n{number:02d}",
            gpu_type=paper.GPU_TYPE,
            gpus_total=gpus,
            cores_total=paper.CORES,
            memory_total_mib=paper.MEMORY_MIB,
            storage_domain="shared",
        )
        for number, gpus in enumerate(sizes, start=1)
    ]
    tenants = [Tenant(number) for number in range(1, paper.TENANTS + 1)]
    bandwidth = {node.id: paper.BANDWIDTH_GBS for node in nodes}
    return World(nodes, tenants, bandwidth_gbs=bandwidth, tunes_cores=tunes_cores, relieves_memory=relieves_memory)


@dataclass(frozen=True, slots=True)
class Trainings:
    """GPU jobs as columns, an entry a job: arrival (s), tenant, model (of `MODELS`), GPUs, cores a GPU, run time (s)."""

    at_s: Reals
    tenant: Counts
    model: Counts
    gpus: Counts
    asked: Counts
    run_s: Reals


@dataclass(frozen=True, slots=True)
class CpuJobs:
    """CPU jobs as columns: arrival (s), tenant, cores in all, run time (s), memory traffic (GB/s)."""

    at_s: Reals
    tenant: Counts
    cores: Counts
    run_s: Reals
    traffic_gbs: Reals


def generate(
    rng: Generator, *, days: float = 30.0, free: Free = FREE, load: float = 1.0, heavy: float = paper.HEAVY_TRAFFIC
) -> list[TracedJob]:
    """The jobs of so many days, by arrival. Every GPU job's cores are hard, as its tenant asked them.

    A world that tunes cores asks for others instead. `load`: times the published number of GPU jobs;
    `heavy`: the part of the CPU jobs that use much of the memory bandwidth. All else that is drawn is the same for any.
    """
    gpu, cpu = trainings(rng, days, free, load), cpu_jobs(rng, days, free, heavy)
    drawn = [
        *((at_s, _training(gpu, n)) for n, at_s in enumerate(gpu.at_s.tolist())),
        *((at_s, _cpu_job(cpu, n)) for n, at_s in enumerate(cpu.at_s.tolist())),
    ]
    drawn.sort(key=lambda each: each[0])
    return [
        TracedJob(Job(id=number, submitted_s=at_s, movable=True, **job), **traced)
        for number, (at_s, (job, traced)) in enumerate(drawn, start=1)
    ]


def trainings(rng: Generator, days: float, free: Free, load: float = 1.0) -> Trainings:
    """GPU jobs, submitted one by one, or in batches of jobs that differ in their run times alone."""
    mean = 1.0 + free.batched * (free.batch - 1.0)
    at_s = _arrivals(rng, days, load * paper.GPU_JOBS_A_DAY / mean, 0.0)
    count = len(at_s)
    others = rng.integers(2, paper.TRAINING_TENANTS + 1, count)
    tenant = np.where(rng.random(count) < paper.LAB_SHARE, paper.LAB, others)
    model = rng.choice(len(MODELS), count, p=[each.share for each in MODELS])
    gpus = rng.choice(paper.SIZES, count, p=paper.SIZE_SHARES)
    asked = _asked(rng, gpus)
    jobs = np.where(rng.random(count) < free.batched, rng.geometric(1.0 / free.batch, count), 1)
    at_s, tenant, model, gpus, asked = (np.repeat(each, jobs) for each in (at_s, tenant, model, gpus, asked))
    return Trainings(at_s, tenant, model, gpus, asked, _run_s(rng, len(at_s), free))


def _asked(rng: Generator, gpus: Counts) -> Counts:
    """Cores per GPU, so that the published parts of the jobs ask for few and for many."""
    count, single = len(gpus), gpus == 1
    alone = paper.SIZE_SHARES[0]
    few = np.where(single, (paper.FEW - (1.0 - alone) * paper.FEW_OF_LARGER) / alone, paper.FEW_OF_LARGER)
    many = np.where(single, paper.MANY / alone, 0.0)
    draw = rng.random(count)
    between = rng.integers(3, np.minimum(10, paper.CORES // gpus) + 1)
    little = rng.choice(paper.FEW_CORES, count, p=paper.FEW_SHARES)
    much = rng.choice(paper.MANY_CORES, count, p=paper.MANY_SHARES)
    return np.where(draw < few, little, np.where(draw < few + many, much, between))


def _run_s(rng: Generator, count: int, free: Free) -> Reals:
    """Log-uniform within the published classes, a Pareto tail beyond two hours."""
    draw, within = rng.random(count), rng.random(count)
    tail_s = np.minimum(paper.LONGEST_S, 2 * HOUR_S * np.maximum(draw / paper.OVER_2H, 1e-9) ** (-1.0 / free.tail))
    short_s = paper.SHORTEST_S * (HOUR_S / paper.SHORTEST_S) ** within
    return np.where(draw < paper.OVER_2H, tail_s, np.where(draw < paper.OVER_1H, HOUR_S * 2.0**within, short_s))


def cpu_jobs(rng: Generator, days: float, free: Free, heavy: float = paper.HEAVY_TRAFFIC) -> CpuJobs:
    """CPU jobs of all tenants, this part of them with much memory traffic."""
    at_s = _arrivals(rng, days, paper.CPU_JOBS_A_DAY, free.swing)
    count = len(at_s)
    run_s = free.cpu_median_h * HOUR_S * np.exp(rng.normal(0.0, free.cpu_sigma, count))
    return CpuJobs(
        at_s,
        rng.integers(1, paper.TENANTS + 1, count),
        rng.choice(paper.CPU_CORES, count, p=paper.CPU_SHARES),
        run_s.clip(paper.CPU_SHORTEST_S, paper.CPU_LONGEST_S),
        np.where(rng.random(count) < heavy, paper.HEAVY_GBS, 0.0),
    )


def _arrivals(rng: Generator, days: float, a_day: float, swing: float) -> Reals:
    """A Poisson process whose rate swings by so much of its mean over the day, by thinning."""
    at_s = np.sort(rng.random(rng.poisson(days * a_day * (1.0 + swing))) * days * DAY_S)
    rate = 1.0 + swing * np.cos(2 * np.pi * (at_s / HOUR_S - paper.PEAK_HOUR) / 24.0)
    return at_s[rng.random(len(at_s)) * (1.0 + swing) < rate]


def _training(drawn: Trainings, n: int) -> tuple[dict[str, Any], dict[str, Any]]:
    model, law = MODELS[drawn.model[n]], LAWS[drawn.model[n]]
    gpus, asked = int(drawn.gpus[n]), int(drawn.asked[n])
    pace = law.rate([Spot(0, paper.GPU_TYPE, gpus, asked * gpus)])
    job = {
        "tenant": int(drawn.tenant[n]),
        "requirement": (gpus,),
        "cores": asked,
        "least_cores": asked,
        "memory_mib": 8 * 1024 * gpus,
        "category": model.category,
        "model_label": model.name,
    }
    hints = Hints(model_parameters=model.parameters)
    return job, {"work": float(drawn.run_s[n]) * pace, "law": law, "name": model.name, "hints": hints}


def _cpu_job(drawn: CpuJobs, n: int) -> tuple[dict[str, Any], dict[str, Any]]:
    cores = int(drawn.cores[n])
    job = {
        "tenant": int(drawn.tenant[n]),
        "requirement": (0,),
        "cores": cores,
        "memory_mib": 1024 * cores,
        "category": "cpu",
    }
    traffic = float(drawn.traffic_gbs[n])
    return job, {"work": float(drawn.run_s[n]), "law": CPU_LAW, "name": "cpu", "bandwidth_gbs": traffic}
