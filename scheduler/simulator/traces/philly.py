"""Microsoft's Philly trace (ATC '19) in the form with one row a job: 15 virtual clusters, which are the tenants.

The rows are not sorted by time. A job asks for exactly its GPUs. The trace does not say what it needs of cores and memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from scheduler.model import Job
from scheduler.simulator.traces.source import (
    CORES,
    GPU_SPEEDS,
    MOST_GPUS,
    MOVABLE,
    Choices,
    Column,
    Format,
    Source,
    rows,
    seconds_of,
    shown,
)
from scheduler.simulator.world.laws import law_of
from scheduler.simulator.world.truth import TracedJob

COLUMNS = (
    Column("timestamp", "date", "arrival, as 2017-10-09 07:01:55"),
    Column("duration", "s", "how long it ran; above 0"),
    Column("num_gpus", "GPUs", "what it asks for, no more and no fewer; 0 = a CPU job"),
    Column("gpu_time", "GPU-seconds", "duration times GPUs; not used"),
    Column("cluster", "", "the virtual cluster: the tenant"),
)
OPTIONS = {
    "expected": "none (default): the scheduler expects of a job what earlier ones took; exact: tenants say the duration",
    "cores": CORES,
    "movable": MOVABLE,
    "gpu_speeds": GPU_SPEEDS,
}


def read(source: Source, options: Mapping[str, str]) -> Iterator[TracedJob]:
    """The trace's jobs, numbered from 1 in the file's order."""
    choices = Choices(source.name, options, OPTIONS)
    speeds, cores = choices.speeds(), choices.whole("cores", 1)
    movable, exact = choices.word("movable", "no", "yes") == "yes", choices.word("expected", "none", "exact") == "exact"
    for number, row in enumerate(rows(source.name, source.lines, [each.name for each in COLUMNS]), start=1):
        arrival_s = seconds_of(row.text("timestamp"))
        if arrival_s is None:
            raise row.wrong("timestamp", f"{shown(row.text('timestamp'))} is not a date like 2017-10-09 07:01:55")
        duration_s, gpus = row.number("duration", above=True), row.whole("num_gpus", least=0, most=MOST_GPUS)
        job = Job(
            id=number,
            tenant=source.tenant(row.text("cluster")),
            requirement=(gpus,),
            submitted_s=arrival_s,
            cores=cores,
            expected_duration_s=duration_s if exact else None,
            movable=movable,
        )
        yield TracedJob(job, duration_s, law_of(gpus, None, speeds, elastic=False))


FORMAT = Format("philly", "Microsoft's Philly trace, one row a job", COLUMNS, read, options=OPTIONS, dated=True)
