"""Adding a part's records to the tables' rows, through the pure `tables`, `mixture` and `iteration` (Hops 3.2-3.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from portal.planning.estimation.models import JobProfile, Signature, ThroughputCell
from portal.planning.estimation.selectors import profile_of
from portal.work.jobs.models import Allocation
from scheduler.estimator import iteration, mixture
from scheduler.model import speeds
from scheduler.model.speeds import Cell

Record = dict[str, Any]
"""workers.protocol.wire.Iterations"""


@dataclass(frozen=True, slots=True)
class Run:
    """The part that records come from, as the tables see it."""

    part: Allocation
    signature: Signature
    gpus: int
    nodes: int
    leads: bool  # the lowest rank speaks for the attempt and for the type
    beside: int | None = None  # the type of its GPUs, where it is not the one that the node goes by

    @property
    def gpu_type_id(self) -> int | None:
        return (self.beside or self.part.node.gpu_type_id) if self.gpus else None


def type_beside(part: Allocation) -> int | None:
    """Return the type of a part's GPUs where it is not the one that its node goes by. One query."""
    return part.gpu_allocations.exclude(gpu__gpu_type=None).values_list("gpu__gpu_type_id", flat=True).first()


DATA, FORWARD, BACKWARD, UPDATE, COMMUNICATION, WAIT, TOTAL = range(7)
"""Columns of a record's rows."""
WAITED = 5
"""The weight of the waiting statistics of a part."""
ITERATIONS_KEPT = 64
"""For recognising the pattern."""

Row = list[float | None]


def cells_add(run: Run, *, rates: Sequence[float]) -> None:
    """Per-GPU throughputs into the cell of the node, or of its bay, and for the leading part into the type's (Hops 3.3)."""
    if not rates:
        return
    where: list[dict[str, Any]] = [{"node": run.part.node, "bay": run.beside or 0}]
    if run.leads:
        where.append({"gpu_type_id": run.gpu_type_id})
    size = {"gpus": run.gpus, "nodes": run.nodes if run.nodes > 1 else None}
    for resource in where:
        row, _ = ThroughputCell.objects.get_or_create(signature=run.signature, **resource, **size)
        cell = Cell(row.count, row.mean, row.squares)
        for rate in rates:
            cell = cell.add(rate)
        row.count, row.mean, row.squares = cell.count, cell.mean, cell.squares
        row.save(update_fields=["count", "mean", "squares"])


def profile_absorb(run: Run, records: Sequence[Record]) -> None:
    """Data and wait times from every run; the time modules and the pattern from runs on one GPU (section 2)."""
    rows = [row for record in records for row in record["rows"]]
    if not rows:
        return
    profile, _ = JobProfile.objects.get_or_create(signature=run.signature, gpu_type_id=run.gpu_type_id)
    told = (record["parameters"] for record in reversed(records) if record["parameters"])
    profile.parameters = next(told, profile.parameters or run.part.attempt.job.parameters or 0)
    rows_take(profile, rows, batch=records[-1]["batch"], gpus=run.gpus)
    profile.save()


def rows_take(profile: JobProfile, rows: Sequence[Row], *, batch: int, gpus: int) -> None:
    """Take a run's rows into the profile, which is not saved."""
    _data_times(profile, rows, gpus=gpus)
    # Of several GPUs only those in which nothing depends on how many take part: T_d + T_f.
    infers = (row for row in rows if gpus == 1 or not (row[BACKWARD] or row[UPDATE] or row[COMMUNICATION]))
    modules = [row for row in infers if row[FORWARD] is not None]
    if modules:
        _time_modules(profile, modules, batch=batch)
        _pattern(profile, modules)
    if gpus > 1 and profile.modules and profile.batch == batch:
        _exchanges(profile, rows)


def _data_times(profile: JobProfile, rows: Sequence[Row], *, gpus: int) -> None:
    timed = [(data, None if gpus == 1 else row[WAIT]) for row in rows if (data := row[DATA]) is not None]
    if not timed:
        return
    if waits := sum(wait is not None for _, wait in timed):
        before_that = sum(part[WAITED] for part in profile.data_parts) if profile.wait_gpus else 0.0
        profile.wait_gpus += (gpus - profile.wait_gpus) * waits / (before_that + waits)
    before = speeds.Loading(
        profile.data_count,
        tuple(speeds.Part(*part) for part in profile.data_parts),
        tuple((data, wait) for data, wait in profile.recent_data),
    )
    after = mixture.absorb(before, [data for data, _ in timed], [wait for _, wait in timed])
    profile.data_count = after.count
    profile.data_parts = [list(part.statistics) for part in after.parts]
    profile.recent_data = [list(each) for each in after.recent]


def _time_modules(profile: JobProfile, rows: Sequence[Row], *, batch: int) -> None:
    """Running means. Another batch size is another amount of work, so its times start afresh."""
    if profile.batch != batch:
        profile.batch, profile.modules, profile.recent_iterations = batch, 0, []
    for row in rows:
        profile.modules += 1
        for name, column in (("forward_s", FORWARD), ("backward_s", BACKWARD), ("update_s", UPDATE)):
            mean = getattr(profile, name) if profile.modules > 1 else 0.0
            setattr(profile, name, mean + ((row[column] or 0.0) - mean) / profile.modules)


def _pattern(profile: JobProfile, rows: Sequence[Row]) -> None:
    whole = [row for row in rows if row[DATA] is not None and row[TOTAL] is not None]
    profile.recent_iterations = [*profile.recent_iterations, *whole][-ITERATIONS_KEPT:]
    seen = [_iteration(row) for row in profile.recent_iterations]
    found = iteration.recognise(seen)
    profile.pattern = found.value if found is not None else profile.pattern
    sigma = iteration.spread_s([each.forward_s + each.backward_s + each.update_s for each in seen])
    profile.rest_sigma_s = sigma if sigma is not None else profile.rest_sigma_s


def _exchanges(profile: JobProfile, rows: Sequence[Row]) -> None:
    """How much of its communication makes the job's steps longer. A row without a time for waiting cannot tell."""
    told = [row for row in rows if None not in (row[DATA], row[COMMUNICATION], row[WAIT], row[TOTAL])]
    exposed_s, exchange_s = iteration.exposed(profile_of(profile), map(_iteration, told))
    profile.exposed_s += exposed_s
    profile.exchange_s += exchange_s


def _iteration(row: Row) -> iteration.Iteration:
    data, forward, backward, update, communication, wait, total = (each or 0.0 for each in row)
    return iteration.Iteration(data, forward, backward, update, total, wait, communication)
