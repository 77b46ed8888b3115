"""An array's tasks side by side: the best one, one plot of all, and columns of parameters and metrics."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.urls import reverse

from portal.foundation.errors import NotFound
from portal.pages.dashboard.jobs.metrics import is_lower_better, ordered, value_words
from portal.pages.dashboard.parts import lines
from portal.pages.dashboard.parts.formatting import number
from portal.work.jobs.states import LIVE, RETRIED
from portal.work.sweeps.selectors import Columns, best_of, columns_of, drawn_of, told_of

if TYPE_CHECKING:
    from portal.pages.dashboard.jobs.array.query import TaskQuery
    from portal.work.jobs.models import Job
    from portal.work.sweeps.models import TaskMetric

SHOWN_PARAMETERS, SHOWN_METRICS = 4, 2
MOST_LINES = 200
LOG_FROM = 50.0
"""A parameter's axis is logarithmic where its largest value is this many times its least."""
UNSORTED_FROM = 10_000
"""An array with more tasks is not sorted: its pages would cost too much."""


@dataclass(frozen=True)
class Sweep:
    """The columns of an array, and those that its address chose."""

    array: Job
    query: TaskQuery
    columns: Columns

    @property
    def metric(self) -> str:
        names = self.columns.metrics
        return self.query.metric if self.query.metric in names else next(iter(ordered(names)), "")

    @property
    def lower(self) -> bool:
        return is_lower_better(self.metric)

    @property
    def sort(self) -> str:
        """The order: the address's, else the best of the metric first."""
        if self.query.sort or not self.metric or self.query.first is not None:
            return self.query.sort
        return f"m:{self.metric}" if self.lower else f"-m:{self.metric}"

    @cached_property
    def best(self) -> TaskMetric | None:
        """Read the metric of the best task; None where no task has it."""
        return best_of(self.array, self.metric, lower=self.lower) if self.metric else None

    @property
    def shown(self) -> list[str]:
        """The columns in the table, by their keys."""
        if self.query.show:
            return [key for key in self.every if key in self.query.show]
        metrics = [f"m:{name}" for name in sorted(self.columns.metrics, key=ordered(self.columns.metrics).index)]
        first = [f"m:{self.metric}"] if self.metric else []
        others = [key for key in metrics if key not in first][: SHOWN_METRICS - 1]
        parameters = [f"p:{name}" for name in self.columns.parameters[:SHOWN_PARAMETERS]]
        return [*parameters, *first, *others, *([f"steps:{self.metric}"] if self.metric else [])]

    @property
    def every(self) -> list[str]:
        steps = [f"steps:{self.metric}"] if self.metric else []
        return [*(f"p:{n}" for n in self.columns.parameters), *(f"m:{n}" for n in self.columns.metrics), *steps]


def sweep_of(array: Job, query: TaskQuery) -> Sweep | None:
    """Return the values that its tasks wrote; None: there are none, or too many tasks to sort."""
    columns = columns_of(array) if (array.array_size or 0) <= UNSORTED_FROM else Columns((), (), 0)
    return Sweep(array, query, columns) if columns.metrics or columns.parameters else None


# ---- above the table -----------------------------------------------------------------------------------------------


def sweep_make(sweep: Sweep) -> dict[str, Any]:
    """Fill the plot's card and the best task's."""
    query = sweep.query
    numeric = sweep.columns.parameters[:SHOWN_PARAMETERS]
    against = query.against if query.against in sweep.columns.parameters else ""
    figure = reverse("array-figure", args=[sweep.array.number])
    return {
        "metric": sweep.metric,
        "metrics": [
            {"label": name, "url": query.url(metric=name, sort="", page=None), "selected": name == sweep.metric}
            for name in ordered(sweep.columns.metrics)
        ],
        "views": [
            {"label": "Curves", "url": query.url(against=""), "selected": not against},
            *(
                {"label": f"Against {name}", "url": query.url(against=name), "selected": name == against}
                for name in numeric
            ),
        ],
        "plots": [
            {
                "title": sweep.metric,
                "note": f"by {against or 'step'}",
                "url": f"{figure}{query.url(metric=sweep.metric, against=against, sort='', page=None, show=())}",
                "topics": "",
                "height_px": 260,
            }
            | ({"refresh_s": 10} if sweep.array.state in LIVE else {})
        ]
        if sweep.metric
        else [],
        "best": _best(sweep),
        "read": sweep.columns.read,
    }


def _best(sweep: Sweep) -> dict[str, Any] | None:
    found = sweep.best
    if found is None:
        return None
    task = found.task
    parameters = task.reading.parameters
    others = told_of([task], sweep.columns.metrics)[task.pk][1]
    array = sweep.array.number
    return {
        "index": task.array_index,
        "url": reverse("job-detail", args=[f"{array}_{task.array_index}"]),
        "again_url": f"{reverse('job-submit')}?from={array}&task={task.array_index}" if parameters else "",
        "value": value_words(found.last),
        "facts": [
            *((name, words_of(parameters[name])) for name in sweep.columns.parameters if name in parameters),
            *((name, value_words(row.last)) for name, row in others.items() if name != sweep.metric),
        ][: SHOWN_PARAMETERS + SHOWN_METRICS],
        "is_running": task.state in LIVE,
    }


def words_of(value: Any) -> str:
    """0.0003 -> "0.0003", 3e-05 -> "3e-05", 65536 -> "65 536", True -> "yes", "adam" -> "adam"."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return number(value) if abs(value) < 10**9 else f"{value:.3g}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def value_of(row: TaskMetric, *, best: bool) -> float:
    if not best:
        return float(row.last)
    return float(row.low if is_lower_better(row.name) else row.high)


# ---- the plot ------------------------------------------------------------------------------------------------------


def sweep_figure(sweep: Sweep) -> dict[str, Any]:
    """Draw all tasks: grey, the best in accent, running green with a dot, failed red with a cross. Raises NotFound."""
    if sweep.query.metric not in sweep.columns.metrics:
        raise NotFound("metric")
    rows = drawn_of(sweep.array, sweep.metric, most=MOST_LINES, lower=sweep.lower)
    against = sweep.query.against
    made = [_line(sweep, row, best=place == 0) for place, row in reversed(list(enumerate(rows)))]
    drawn = [each for each in made if each is not None]
    x: dict[str, Any] = {"kind": "step"}
    if against:
        places = [each["x"][0] for each in drawn]
        x = {"kind": "value", "log": bool(places) and min(places) > 0 and max(places) >= LOG_FROM * min(places)}
    return {"x": x, "y": {"log": False}, "lines": drawn, "right_px": 64}


def _line(sweep: Sweep, row: TaskMetric, *, best: bool) -> dict[str, Any] | None:
    index = f"task {row.task.array_index}"
    is_failed, is_live = row.task.state in RETRIED, row.task.state in LIVE
    best = best and not is_failed
    token = "plot-1" if best else "fail" if is_failed else "run" if is_live else "grey-5"
    more = {"task": row.task.array_index, "mark": "cross" if is_failed else "dot" if best or is_live else ""}
    look: lines.Look = "line" if best or is_failed or is_live else "pale"
    if not sweep.query.against:
        return lines.line(index, token, *row.points, look=look, end=index if best else False) | more
    value = row.task.reading.parameters.get(sweep.query.against)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    one = lines.line(index, token, [float(value)], [value_of(row, best=sweep.query.value == "best")], look="line")
    return one | more | {"mark": "cross" if is_failed else "dot", "end": index if best else False}
