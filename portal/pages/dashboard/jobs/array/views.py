"""An array's plot of all tasks, and its tasks as CSV."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.http import JsonResponse

from portal.foundation.api.streams import Streamed, csv_lines
from portal.foundation.errors import NotFound
from portal.pages.dashboard.jobs.array.query import TaskQuery
from portal.pages.dashboard.jobs.array.sweep import sweep_figure, sweep_of
from portal.work.jobs.listing import job_find
from portal.work.sweeps.selectors import columns_of, told_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.http import HttpRequest
    from django.http.response import HttpResponseBase

    from portal.work.jobs.models import Job

CHUNK = 500


def _array(request: HttpRequest, number: str) -> Job:
    job = job_find(user=request.user, number=number)
    if not job.array_size:
        raise NotFound("array")
    return job


def array_figure(request: HttpRequest, number: str) -> JsonResponse:
    sweep = sweep_of(_array(request, number), TaskQuery.of(request.GET))
    if sweep is None:
        raise NotFound("metric")
    return JsonResponse(sweep_figure(sweep))


def array_csv(request: HttpRequest, number: str) -> HttpResponseBase:
    """Export every task that exists with all its parameters and metrics, as a stream."""
    array = _array(request, number)
    response = Streamed(csv_lines(_rows(array)), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="berth-{array.number}-tasks.csv"'
    return response


def _rows(array: Job) -> Iterator[list[object]]:
    columns = columns_of(array)
    heads = [f"{name} {value}" for name in columns.metrics for value in ("last", "lowest", "highest", "step")]
    yield ["task", "state", "exit_code", "ran_s", *columns.parameters, *heads]
    for first in range(0, array.array_made, CHUNK):
        tasks = list(array.tasks.filter(array_index__gte=first, array_index__lt=first + CHUNK).order_by("array_index"))
        told = told_of(tasks, columns.metrics)
        for task in tasks:
            parameters, metrics = told[task.pk]
            figures: list[Any] = []
            for name in columns.metrics:
                row = metrics.get(name)
                figures += [row.last, row.low, row.high, row.step] if row else [""] * 4
            own = [parameters.get(name, "") for name in columns.parameters]
            yield [
                task.array_index,
                task.state,
                "" if task.exit_code is None else task.exit_code,
                task.ran_s,
                *own,
                *figures,
            ]
