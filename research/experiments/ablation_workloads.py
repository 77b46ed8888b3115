"""What the rules of `berth` are tried on: four workloads, each as its jobs and cluster for a seed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from research.experiments import sia
from research.experiments.hops import gpus_512
from research.experiments.hops.setting import Setting

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from research.experiments.base import Options
    from scheduler.simulator.world.truth import TracedJob, World

    Prepare = Callable[[int], tuple[Sequence[TracedJob], World]]

DAY_S = 86_400.0
WEEK_FROM = "2017-10-21 00:00:00"
PHILLY_SERVERS = ((39, 8, 64), (53, 2, 16))
"""A sixth of Philly's servers (count, GPUs, cores), 418 GPUs: on all servers no job waits (docs/evidence/simulator-speed.md)."""
SIA_QUICK_JOBS = 60
PHILLY_QUICK_DAYS, MIX_QUICK_HOURS = 0.25, 3.0
HOPS_QUICK = Setting(gpus=64, jobs=40, per_hour=12.5)


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    prepare: Prepare
    seeds: bool
    """Whether anything is drawn by the seed."""


def workloads(options: Options) -> list[Workload]:
    """Return all four workloads; without `--data` those that need no data. Quick: a small part of each."""
    quick = options.quick
    found = [
        Workload("hops-512 quick", partial(Setting.prepare, HOPS_QUICK if quick else gpus_512.QUICK), seeds=True),
        Workload("three tenants", partial(mixed, MIX_QUICK_HOURS if quick else 24.0), seeds=True),
    ]
    if options.data is None:
        return found
    folder, philly = options.folder("sia"), options.folder("philly") / "philly_jobs.csv"
    sia_jobs = partial(sia.prepared, folder, folder / sia.TRACE, sia.ADAPTIVE, SIA_QUICK_JOBS if quick else None)
    return [
        Workload("rate_50", sia_jobs, seeds=False),
        *found,
        Workload("philly, a week", partial(philly_week, philly, PHILLY_QUICK_DAYS if quick else 7.0), seeds=False),
    ]


def mixed(hours: float, seed: int) -> tuple[Sequence[TracedJob], World]:
    """Return the jobs of three tenants for this many hours."""
    import numpy as np

    from research.simulator.generators.tenants_mix import generate

    return generate(np.random.default_rng(seed), hours=hours)


def philly_week(file: Path, days: float, seed: int) -> tuple[Sequence[TracedJob], World]:
    """Return this many days of the trace, from `WEEK_FROM` on, on a sixth of its servers. Nothing is drawn at random."""
    from scheduler.model import Node
    from scheduler.simulator.traces.philly import FORMAT
    from scheduler.simulator.traces.source import Source, seconds_of
    from scheduler.simulator.world.truth import World

    began_s = seconds_of(WEEK_FROM) or 0.0
    with file.open(encoding="utf-8") as lines:
        every = list(FORMAT.read(Source(file.name, lines), {}))
    taken = [
        replace(each, job=replace(each.job, submitted_s=each.job.submitted_s - began_s))
        for each in every
        if began_s <= each.job.submitted_s < began_s + days * DAY_S
    ]
    shapes = [(gpus, cores) for count, gpus, cores in PHILLY_SERVERS for _ in range(count)]
    nodes = [
        Node(number, f"p{number:02d}", "p100", gpus, cores_total=cores, memory_total_mib=64 * 1024 * gpus)
        for number, (gpus, cores) in enumerate(shapes, start=1)
    ]
    return sorted(taken, key=lambda each: (each.job.submitted_s, each.job.id)), World(nodes, tick_s=60.0)
