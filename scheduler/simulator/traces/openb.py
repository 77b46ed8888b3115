"""Alibaba's openb trace (USENIX ATC '23): pods of an AI platform, many of which ask for a part of a GPU, and its nodes.

Two readers: `pods` and `hosts` for the packing protocol (`research.simulator.packing`), which needs no times, and `read` for
a simulation, which does. The simulator's scheduler hands out whole GPUs, so there a part of a GPU takes a whole one, or
such pods are left out (`parts`). Pods that never started are left out, because their run time is not known.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from scheduler.model import Job
from scheduler.placement.parts.pool import MILLI, Demand, Host
from scheduler.simulator.traces.choices import Choices
from scheduler.simulator.traces.csvrows import rows
from scheduler.simulator.traces.source import MOST_GPUS, Column, Format
from scheduler.simulator.world.truth import Steady, TracedJob

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from scheduler.simulator.traces.csvrows import Row
    from scheduler.simulator.traces.source import Source

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
NODE_COLUMNS = (
    Column("sn", "", "the node's name"),
    Column("cpu_milli", "1/1000 core", "its cores"),
    Column("memory_mib", "MiB", "its memory"),
    Column("gpu", "GPUs", "how many it has"),
    Column("model", "", "their model; may be empty for 0 GPUs"),
)
OPTIONS = {
    "tenants": "how many tenants the pods are dealt out to, in turn; default 4",
    "parts": "whole (default): a part of a GPU takes a whole one; none: pods that ask for a part are left out",
}


def pods(source: Source) -> Iterator[Demand]:
    """What the pods ask for, in the file's order."""
    return (_demand(row) for row in rows(source.name, source.lines, [each.name for each in POD_COLUMNS]))


def hosts(file: str, lines: Iterable[str]) -> Iterator[Host]:
    """The nodes, in the file's order."""
    for row in rows(file, lines, [each.name for each in NODE_COLUMNS]):
        gpus = row.whole("gpu", least=0)
        model = row.text("model") if gpus else row.values["model"].strip()
        yield Host(row.text("sn"), row.whole("cpu_milli", least=0), row.whole("memory_mib", least=0), gpus, model)


def read(source: Source, options: Mapping[str, str]) -> Iterator[TracedJob]:
    """The pods that ran, as jobs of known length; numbered from 1 in the file's order, those left out counted too."""
    choices = Choices(source.name, options, OPTIONS)
    tenants, whole = choices.whole("tenants", 4), choices.word("parts", "whole", "none") == "whole"
    columns = [each.name for each in (*POD_COLUMNS, *TIME_COLUMNS)]
    for number, row in enumerate(rows(source.name, source.lines, columns), start=1):
        demand = _demand(row)
        if row.values["scheduled_time"].strip() and (whole or not demand.shares):
            yield _job(row, number, demand, (number - 1) % tenants + 1)


def _demand(row: Row) -> Demand:
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
