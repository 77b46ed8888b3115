"""Windows of public traces as jobs of eight tenants on nodes of 8 GPUs, for experiments about lengths."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from scheduler.estimator.record import Ran
    from scheduler.simulator.world.truth import TracedJob, World

GPUS_A_NODE, LOAD, TENANTS = 8, 0.9, 8
NOTHING, HALF, ALL, EXACT = "nothing", "half", "all", "exact"
"""Whose lengths are declared: nobody's; those of every second tenant or of each, within a factor of two; all, as they are."""


@dataclass(frozen=True, slots=True)
class Window:
    """Jobs `first` to `first + count` of a file below the data folder, by their arrival."""

    name: str
    file: str
    first: int
    count: int
    cluster: str = ""  # of Philly's virtual clusters

    def first_jobs(self, count: int) -> Window:
        return replace(self, count=count)


WINDOWS = (
    Window("itp 01", "itp/cluster01.csv", 0, 500),
    Window("itp 02", "itp/cluster02.csv", 0, 500),
    Window("itp 02 late", "itp/cluster02.csv", 4400, 500),
    Window("itp 05", "itp/cluster05.csv", 0, 500),
    Window("itp 05 late", "itp/cluster05.csv", 2000, 500),
    Window("itp 10", "itp/cluster10.csv", 0, 259),
    Window("philly a", "philly/philly_jobs.csv", 0, 500, "0e4a51"),
    Window("philly b", "philly/philly_jobs.csv", 0, 500, "ee9e8c"),
)


@dataclass(frozen=True, slots=True)
class Row:
    arrival_s: float
    duration_s: float
    gpus: int


def rows_of(folder: Path, window: Window) -> list[Row]:
    """Return the window's jobs by arrival, the first at 0."""
    from scheduler.simulator.traces.source import seconds_of

    with (folder / window.file).open(encoding="utf-8") as lines:
        found = []
        for each in csv.DictReader(lines):
            if "submission_time" in each:
                found.append(Row(float(each["submission_time"]), float(each["duration"]), int(each["num_gpu"])))
            elif each["cluster"] == window.cluster:
                found.append(Row(seconds_of(each["timestamp"]) or 0.0, float(each["duration"]), int(each["num_gpus"])))
    found = [each for each in found if each.duration_s > 0 and each.gpus > 0]
    found.sort(key=lambda each: (each.arrival_s, each.duration_s, each.gpus))
    found = found[window.first : window.first + window.count]
    return [replace(each, arrival_s=each.arrival_s - found[0].arrival_s) for each in found]


def sizes(gpus: int, form: str) -> tuple[int, ...]:
    """Return the sizes that a job accepts which ran on `gpus`."""
    return tuple(sorted({max(1, gpus // 2), gpus, 2 * gpus})) if form == "elastic" else (gpus,)


def prepared(folder: Path, window: Window, form: str, told: str, seed: int) -> tuple[Sequence[TracedJob], World]:
    """Return the window's jobs and the cluster. Tenants, and how true a declared length is, are drawn by `seed`."""
    from scheduler.model import Job, Node, Tenant
    from scheduler.simulator.world.laws import law_of
    from scheduler.simulator.world.truth import TracedJob, World

    rows, rng = rows_of(folder, window), np.random.default_rng(seed)
    tenants = drawn_tenants(len(rows), rng)
    factors = np.exp2(rng.uniform(-1, 1, len(rows))) if told != EXACT else np.ones(len(rows))
    jobs = []
    for number, (row, tenant, factor) in enumerate(zip(rows, tenants, factors.tolist(), strict=True), start=1):
        tells = told in (ALL, EXACT) or (told == HALF and tenant % 2 == 0)
        job = Job(
            id=number,
            tenant=tenant,
            requirement=sizes(row.gpus, form),
            submitted_s=row.arrival_s,
            expected_duration_s=row.duration_s * factor if tells else None,
            movable=form != "rigid",
        )
        jobs.append(TracedJob(job, row.duration_s, law_of(row.gpus, None, {}, elastic=form == "elastic")))
    work, span_s = sum(row.gpus * row.duration_s for row in rows), max(rows[-1].arrival_s, 1.0)
    count = math.ceil(max(work / (LOAD * span_s), *(row.gpus for row in rows)) / GPUS_A_NODE)
    nodes = [
        Node(each, f"n{each}", "gpu", GPUS_A_NODE, cores_total=96, memory_total_mib=1_048_576)
        for each in range(1, count + 1)
    ]
    return jobs, World(nodes, tenants=[Tenant(each, 1.0) for each in range(1, TENANTS + 1)])


def drawn_tenants(count: int, rng: np.random.Generator) -> list[int]:
    chances = 1.0 / np.arange(1, TENANTS + 1)
    return (rng.choice(TENANTS, count, p=chances / chances.sum()) + 1).tolist()


def runs_of(folder: Path, window: Window) -> list[Ran]:
    """Return all runs of the file from the window's first job on, in the order of their ends, as they were in the trace."""
    from scheduler.estimator.record import Ran

    rows = rows_of(folder, replace(window, count=1 << 20))
    tenants = drawn_tenants(len(rows), np.random.default_rng(1))
    ended = sorted(zip(rows, tenants, strict=True), key=lambda each: each[0].arrival_s + each[0].duration_s)
    return [Ran(row.duration_s, None, tenant, tenant, None, None, row.gpus) for row, tenant in ended]
