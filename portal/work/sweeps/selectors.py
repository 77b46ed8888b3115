"""The figures of an array's tasks: which columns they have, the best task, the rows in any order, and points for a plot."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db.models import Count, F, FilteredRelation, Q
from django.db.models.fields.json import KeyTransform

from portal.work.jobs.states import RETRIED
from portal.work.sweeps.models import TaskMetric, TaskReading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.db.models import QuerySet
    from django.db.models.expressions import OrderBy

    from portal.work.jobs.models import Job

MOST_READ = 1000
MOST_COLUMNS = 64
"""Parameters, and metrics, of one array; those of the most tasks. Each task may have names of its own."""


@dataclass(frozen=True)
class Columns:
    """Names of the parameters that differ between tasks, and of the metrics, most tasks first. `read`: how many tasks."""

    parameters: tuple[str, ...]
    metrics: tuple[str, ...]
    read: int


def columns_of(array: Job) -> Columns:
    """Read the names of the tasks' parameters and metrics. Two queries."""
    told = list(TaskReading.objects.filter(array=array).values_list("parameters", flat=True)[:MOST_READ])
    names = Counter(name for each in told for name in each)
    common = [name for name, _ in names.most_common(MOST_COLUMNS)]
    differing = [name for name in names if name in common and len({repr(each.get(name)) for each in told}) > 1]
    metrics = TaskMetric.objects.filter(array=array).values("name").annotate(n=Count("pk")).order_by("-n", "name")
    return Columns(tuple(differing), tuple(row["name"] for row in metrics[:MOST_COLUMNS]), len(told))


def best_of(array: Job, metric: str, *, lower: bool) -> TaskMetric | None:
    """Return the metric of the best task by its last value, of those that did not fail; `lower`: the least is best."""
    rows = TaskMetric.objects.filter(array=array, name=metric).exclude(task__state__in=RETRIED)
    return rows.select_related("task__reading").order_by("last" if lower else "-last", "pk").first()


def in_order(tasks: QuerySet[Job], sort: str, *, best: bool = False, lower: bool = True) -> QuerySet[Job]:
    """Order tasks by "task", "ran", "p:PARAMETER", "m:METRIC" or "steps:METRIC", with "-" before it downwards.

    Those without a value come last. `best`: by a metric's best value, the least one where `lower`.
    """
    down, (kind, _, name) = sort.startswith("-"), sort.removeprefix("-").partition(":")
    if kind in {"m", "steps"}:
        tasks = tasks.annotate(told=FilteredRelation("metrics", condition=Q(metrics__name=name)))
    value: Any = {
        "task": F("array_index"),
        "ran": F("ran_s"),
        "p": KeyTransform(name, "reading__parameters"),
        "m": F(f"told__{('low' if lower else 'high') if best else 'last'}"),
        "steps": F("told__step"),
    }[kind]
    order: OrderBy = value.desc(nulls_last=True) if down else value.asc(nulls_last=True)
    return tasks.order_by(order, "array_index")


def told_of(tasks: Sequence[Job], metrics: Sequence[str]) -> dict[int, tuple[dict[str, Any], dict[str, TaskMetric]]]:
    """Return parameters and metrics by the tasks' keys. Two queries."""
    found: dict[int, tuple[dict[str, Any], dict[str, TaskMetric]]] = {task.pk: ({}, {}) for task in tasks}
    for task, parameters in TaskReading.objects.filter(task__in=tasks).values_list("task_id", "parameters"):
        found[task][0].update(parameters)
    for row in TaskMetric.objects.filter(task__in=tasks, name__in=metrics).defer("points"):
        found[row.task_id][1][row.name] = row
    return found


def drawn_of(array: Job, metric: str, *, most: int, lower: bool) -> list[TaskMetric]:
    """Return a metric's rows for a plot: the best task first; where there are too many, the best and failed ones."""
    rows = TaskMetric.objects.filter(array=array, name=metric).select_related("task__reading")
    failed = list(rows.filter(task__state__in=RETRIED).order_by("pk")[: most // 4])
    others = rows.exclude(task__state__in=RETRIED).order_by("last" if lower else "-last", "pk")
    return [*others[: most - len(failed)], *failed]
