"""The table of a sweep: a column for each parameter and metric that is shown, sorted by any of them, failed tasks first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.pages.dashboard.jobs.array.kept import PAGE_ROWS, kept, size_of
from portal.pages.dashboard.jobs.array.sweep import value_of, words_of
from portal.pages.dashboard.jobs.metrics import is_lower_better, value_words
from portal.work.sweeps.selectors import in_order, told_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from portal.pages.dashboard.jobs.array.sweep import Sweep
    from portal.work.jobs.models import Job
    from portal.work.sweeps.models import TaskMetric


def table_make(sweep: Sweep) -> dict[str, Any]:
    """Fill the heads of the columns, and the menu that chooses them."""
    return {
        "best": sweep.best.task.array_index if sweep.best else None,
        "heads": [_head(sweep, key) for key in sweep.shown],
        "task": head_of(sweep, "Task", "task", "-task"),
        "ran": head_of(sweep, "ran", "-ran", "ran"),
        "choices": _choices(sweep),
        "value": sweep.query.value,
        "values_url": sweep.query.url(value="last" if sweep.query.value == "best" else "best"),
    }


def _head(sweep: Sweep, key: str) -> dict[str, Any]:
    kind, _, name = key.partition(":")
    label = "steps" if kind == "steps" else name
    falls = kind == "m" and not is_lower_better(name)
    first, second = (f"-{key}", key) if falls else (key, f"-{key}")
    return head_of(sweep, label, first, second)


def head_of(sweep: Sweep, label: str, first: str, second: str) -> dict[str, Any]:
    """Return a column's head. `first`, `second`: the orders that a press and the next one ask for."""
    now = sweep.sort
    arrow = {first: "up" if not first.startswith("-") else "down", second: "down" if first[:1] != "-" else "up"}.get(
        now
    )
    return {"label": label, "url": sweep.query.url(sort=second if now == first else first, page=None), "arrow": arrow}


def cells_of(sweep: Sweep, tasks: Sequence[Job]) -> list[list[str]]:
    """Return each task's cells under `heads_of`. Two queries."""
    metrics = {key.partition(":")[2] for key in sweep.shown if key[:2] != "p:"}
    told = told_of(tasks, sorted(metrics))
    return [[_cell(sweep, key, *told[task.pk]) for key in sweep.shown] for task in tasks]


def _cell(sweep: Sweep, key: str, parameters: dict[str, Any], metrics: dict[str, TaskMetric]) -> str:
    kind, _, name = key.partition(":")
    if kind == "p":
        return words_of(parameters[name]) if name in parameters else ""
    row = metrics.get(name)
    if row is None:
        return ""
    return words_of(int(row.step)) if kind == "steps" else value_words(value_of(row, best=sweep.query.value == "best"))


def sorted_page(sweep: Sweep, first: int) -> tuple[list[Job], int]:
    """Return a page's tasks in the sweep's order, failed ones first, and how many there are."""
    job, query = sweep.array, sweep.query
    kind, _, name = sweep.sort.removeprefix("-").partition(":")
    tasks = in_order(
        job.tasks.select_related("tenant", "owner"),
        sweep.sort,
        best=query.value == "best",
        lower=kind != "m" or is_lower_better(name),
    )
    if query.state:
        return list(tasks.filter(kept(job, query.state))[first : first + PAGE_ROWS]), size_of(job, query.state)
    failed = size_of(job, "fail")
    found = list(tasks.filter(kept(job, "fail"))[first : first + PAGE_ROWS])
    if len(found) < PAGE_ROWS:
        start = max(0, first - failed)
        found += tasks.exclude(kept(job, "fail"))[start : start + PAGE_ROWS - len(found)]
    return found, job.array_made


def _choices(sweep: Sweep) -> list[dict[str, Any]]:
    """Return each column with the address that shows or hides it."""
    shown = sweep.shown
    return [
        {
            "label": key.partition(":")[2],
            "selected": key in shown,
            "url": sweep.query.url(
                show=tuple(each for each in shown if each != key) if key in shown else (*shown, key)
            ),
        }
        for key in sweep.every
        if not key.startswith("steps")
    ]
