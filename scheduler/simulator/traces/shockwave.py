"""Traces of Gavel (OSDI '20) and Shockwave (NSDI '23): one job a line, tab separated, with a table of throughputs.

Gavel's lines have ten columns. Shockwave's have two more: the mode in which the batch size changes, and the run time. A job asks
for exactly as many GPUs as its scale factor, and can be stopped and resumed. The table tells its speed by job type, scale factor
and GPU type, so the table's job types are the labels under which the estimator learns speeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import count

from scheduler.model import Job
from scheduler.simulator.traces.batch_sizes import MODES, run_time
from scheduler.simulator.traces.source import (
    MOST_GPUS,
    Choices,
    Column,
    Format,
    Row,
    Source,
    TraceError,
    number_read,
    shown,
)
from scheduler.simulator.traces.throughputs import Measured, Table, read_table
from scheduler.simulator.world.truth import TracedJob

COLUMNS = (
    Column("job_type", "", "model and batch size, as the table of throughputs names it"),
    Column("command", "", "what it ran; not used"),
    Column("working_directory", "", "where it ran; not used"),
    Column("num_steps_arg", "", "the command's flag for the number of steps; not used"),
    Column("needs_data_dir", "0 or 1", "whether the command takes a data directory; not used"),
    Column("total_steps", "steps", "its work, at the batch size of its type"),
    Column("scale_factor", "GPUs", "what it asks for, no more and no fewer"),
    Column("mode", "", "static, gns or accordion: how its batch size changes; Shockwave's lines alone"),
    Column("priority_weight", "", "Gavel's weight of the job; above 0, not used: tenants carry the weights"),
    Column("slo", "times the run time", "deadline, below 0 = none; not used"),
    Column("duration", "s", "run time at its batch size, what the tenant declares; Shockwave's lines alone"),
    Column("arrival_time", "s", "since the beginning of the trace"),
)
_SHOCKWAVE = tuple(column.name for column in COLUMNS)
_GAVEL = tuple(name for name in _SHOCKWAVE if name not in ("mode", "duration"))

TABLES = ("throughputs.json", "tacc_throughputs.json", "simulation_throughputs.json", "solo_throughputs.csv")

OPTIONS = {
    "throughputs": f"the table's file; without it the first there is of {', '.join(TABLES)}",
    "tenants": "how many tenants the jobs are dealt out to, in turn; default 1",
    "cores": "CPU cores that each job wants per GPU; default 1",
    "batch_sizes": "fixed (default): every job keeps its batch size; dynamic: gns and accordion jobs change theirs",
    "reference": "the GPU type on which run times are reckoned; without it the one on which the job goes fastest",
    "round_s": "with dynamic batch sizes, the length of the rounds at whose ends they change, s; default 120",
}


def read(source: Source, options: Mapping[str, str]) -> Iterator[TracedJob]:
    """The trace's jobs, numbered from 1 in the file's order."""
    choices = Choices(source.name, options, OPTIONS)
    table = _table(source, options.get("throughputs"))
    tenants, cores, round_s = choices.whole("tenants", 1), choices.whole("cores", 1), choices.whole("round_s", 120)
    dynamic = options.get("batch_sizes", "fixed")
    if dynamic not in ("fixed", "dynamic"):
        raise TraceError(source.name, None, None, f"option batch_sizes: {dynamic!r} is neither fixed nor dynamic")
    reference = options.get("reference")
    if reference is not None and reference not in table.gpu_types:
        known = ", ".join(table.gpu_types)
        raise TraceError(source.name, None, None, f"option reference: {reference!r} is not in the table: {known}")
    deal = _Deal(table, tenants, cores, reference, float(round_s) if dynamic == "dynamic" else None)
    numbers = count(1)
    for number, text in enumerate(source.lines, start=1):
        if text.strip():
            yield _job(_line(source.name, number, text), next(numbers), deal)


def _table(source: Source, name: str | None) -> Table:
    for candidate in (name,) if name else TABLES:
        lines = source.companion(candidate)
        if lines is not None:
            return read_table(candidate, lines)
    wanted = name or " or ".join(TABLES)
    raise TraceError(source.name, None, None, f"its table of throughputs ({wanted}) is not in the folder given with it")


class _Line(Row):
    """A line whose fields may be empty, each checked when it is asked for."""

    def text(self, column: str) -> str:
        return self.values[column].strip()


def _line(file: str, number: int, text: str) -> _Line:
    values = text.rstrip("\r\n").split("\t")
    names = {len(_SHOCKWAVE): _SHOCKWAVE, len(_GAVEL): _GAVEL}.get(len(values))
    if names is None:
        detail = f"{len(values)} columns; Shockwave's lines have {len(_SHOCKWAVE)}, Gavel's {len(_GAVEL)}"
        raise TraceError(file, number, str(min(len(values), len(_SHOCKWAVE) + 1)), detail)
    return _Line(file, number, dict(zip(names, values, strict=True)))


@dataclass(frozen=True, slots=True)
class _Deal:
    """The options. `round_s`: None = every job keeps its batch size."""

    table: Table
    tenants: int
    cores: int
    reference: str | None
    round_s: float | None


def _job(line: _Line, number: int, deal: _Deal) -> TracedJob:
    table = deal.table
    job_type, scale, steps = line.text("job_type"), line.whole("scale_factor"), line.whole("total_steps")
    mode = _mode(line, scale)
    best = _reference(line, job_type, scale, deal)
    speed = table.solo(best, job_type, scale)
    steps_s = steps / speed
    if deal.round_s is not None:
        steps_s = run_time(job_type, mode, scale, steps, lambda kind: table.solo(best, kind, scale), deal.round_s)
    runs_on = table.runs_on(job_type, scale)
    declared = line.values.get("duration", str(max(1.0, steps / speed))).strip()
    job = Job(
        id=number,
        tenant=(number - 1) % deal.tenants + 1,
        requirement=(scale,),
        submitted_s=line.number("arrival_time"),
        gpu_types=frozenset() if runs_on == table.gpu_types else frozenset(runs_on),
        cores=deal.cores,
        model_label=f"{job_type} x{scale}",
        expected_duration_s=number_read(declared, partial(line.wrong, "duration"), least=1),
        total_samples=steps_s * speed,
        movable=True,
    )
    return TracedJob(job, steps_s * speed, Measured(table, job_type), name=f"{number}: {job_type}", reports=True)


def _mode(line: _Line, scale: int) -> str:
    """The row's mode; TraceError where the row could not run."""
    if scale > MOST_GPUS:
        raise line.wrong("scale_factor", f"{scale} is more than {MOST_GPUS}")
    mode = line.values.get("mode", "static").strip()
    if mode not in MODES:
        raise line.wrong("mode", f"{shown(mode)} is not one of {', '.join(MODES)}")
    if line.number("priority_weight") == 0:
        raise line.wrong("priority_weight", "a weight of 0 would never run")
    return mode


def _reference(line: _Line, job_type: str, scale: int, deal: _Deal) -> str:
    """The GPU type by whose speed steps are counted: the one that was asked for, else the fastest."""
    best = deal.table.fastest(job_type, scale)
    if best is None:
        raise line.wrong("job_type", f"{shown(job_type)} on {scale} GPUs is not in the table of throughputs")
    if deal.reference is not None and deal.table.solo(deal.reference, job_type, scale) > 0:
        return deal.reference
    return best


FORMAT = Format(
    "shockwave",
    "Gavel's and Shockwave's traces: one job a line, tab separated, with a table of throughputs",
    COLUMNS,
    read,
    companions="the table of throughputs: Shockwave's or Gavel's JSON, or CSV with the columns gpu_type, consolidated, "
    "job_type, scale_factor and steps_per_s",
    options=OPTIONS,
)
