"""Alibaba's openb trace (USENIX ATC '23): pods of an AI platform, many of which ask for a part of a GPU.

The simulator's scheduler hands out whole GPUs. So a part of a GPU takes a whole one, or such pods are left out (`parts`).
Pods that never started are left out, because their run time is not known.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from scheduler.model import Job
from scheduler.simulator.traces.source import MOST_GPUS, Choices, Column, Format, Row, Source, rows
from scheduler.simulator.world.truth import Steady, TracedJob

MILLI = 1000
"""Thousandths in a GPU, and in a core."""

POD_COLUMNS = (
    Column("name", "", "the pod's name"),
    Column("cpu_milli", "1/1000 core", "cores asked for"),
    Column("memory_mib", "MiB", "memory asked for"),
    Column("num_gpu", "GPUs", "0, 1, 2, 4 or 8; several are taken whole"),
    Column("gpu_milli", "1/1000 GPU", "asked of each GPU: 1-1000; below 1000 for one GPU only; 0 without GPUs"),
)
GPU_SPEC = Column("gpu_spec", "", "allowed GPU models, with | between them; empty, or no such column: any")
TIME_COLUMNS = (
    Column("creation_time", "s", "arrival, since the beginning of the trace"),
    Column("scheduled_time", "s", "start; empty = it never started"),
    Column("deletion_time", "s", "end"),
)
OPTIONS = {
    "tenants": "how many tenants the pods are dealt out to, in turn; default 4",
    "parts": "whole (default): a part of a GPU takes a whole one; none: pods that ask for a part are left out",
}


@dataclass(frozen=True, slots=True)
class Demand:
    """A job's demand on one node; equal demands are one class of the workload.

    `gpus` GPUs with `gpu_milli` thousandths of each: below 1000 only for a single GPU; no GPU: both 0. `models`: allowed
    GPU types, empty = any. Raises ValueError for anything else.
    """

    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_milli: int
    models: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if min(self.cpu_milli, self.memory_mib, self.gpus, self.gpu_milli) < 0:
            raise ValueError("a demand must not be negative")
        if (self.gpus == 0) != (self.gpu_milli == 0) or self.gpu_milli > MILLI:
            raise ValueError(f"{self.gpus} GPUs of {self.gpu_milli} thousandths each: give 1-1000 a GPU, or neither")
        if self.gpus > 1 and self.gpu_milli != MILLI:
            raise ValueError(f"{self.gpus} GPUs are taken whole: 1000 thousandths each, not {self.gpu_milli}")

    @property
    def milli(self) -> int:
        """Thousandths of GPU in all."""
        return self.gpus * self.gpu_milli

    @property
    def shares(self) -> bool:
        return 0 < self.gpu_milli < MILLI


def read(source: Source, options: Mapping[str, str]) -> Iterator[TracedJob]:
    """The pods that ran, as jobs of known length; numbered from 1 in the file's order, those left out counted too."""
    choices = Choices(source.name, options, OPTIONS)
    tenants, whole = choices.whole("tenants", 4), choices.word("parts", "whole", "none") == "whole"
    columns = [each.name for each in (*POD_COLUMNS, *TIME_COLUMNS)]
    for number, row in enumerate(rows(source.name, source.lines, columns), start=1):
        demand = read_demand(row)
        if row.values["scheduled_time"].strip() and (whole or not demand.shares):
            yield _job(row, number, demand, (number - 1) % tenants + 1)


def read_demand(row: Row) -> Demand:
    models = frozenset(filter(None, row.values.get(GPU_SPEC.name, "").strip().split("|")))
    cpu_milli, memory_mib, gpus, gpu_milli = (row.whole(each.name, least=0) for each in POD_COLUMNS[1:])
    if gpus > MOST_GPUS:
        raise row.wrong("num_gpu", f"{gpus} is more than {MOST_GPUS}")
    try:
        return Demand(cpu_milli, memory_mib, gpus, gpu_milli, models)
    except ValueError as error:
        raise row.wrong("gpu_milli", str(error)) from error


def _job(row: Row, number: int, demand: Demand, tenant: int) -> TracedJob:
    created, started, ended = (row.number(each.name) for each in TIME_COLUMNS)
    if started < created:
        raise row.wrong("scheduled_time", f"{started:g} is before its creation at {created:g}")
    if ended <= started:
        raise row.wrong("deletion_time", f"{ended:g} is not after its start at {started:g}")
    job = Job(
        id=number,
        tenant=tenant,
        requirement=(demand.gpus,),
        submitted_s=created,
        gpu_types=demand.models,
        cores=max(1, math.ceil(demand.cpu_milli / MILLI / max(1, demand.gpus))),
        memory_mib=demand.memory_mib,
    )
    return TracedJob(job, ended - started, Steady(), name=row.text("name"))


FORMAT = Format(
    "openb",
    "Alibaba's openb pods: one a line, with what it asks for and, for a simulation, when it came, started and ended",
    (*POD_COLUMNS, GPU_SPEC, *TIME_COLUMNS),
    read,
    options=OPTIONS,
)
