"""The figures of several tasks: each task's parameters, and of each metric its last, lowest and highest value."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from portal.work.previews.curves.files import points_of, rank
from portal.work.previews.shown import NAME_CHARS, Source, cut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from portal.work.previews.curves.points import Curve

PARAMETERS = "params.json"
PARAMETERS_BYTES = 16 * 1024
MOST_PARAMETERS, MOST_METRICS, POINTS = 32, 16, 80
TEXT_CHARS = 60


def sweep_told(sources: Sequence[Source]) -> dict[str, Any]:
    """Return `{"tasks": {task: {"parameters", "metrics"}}}`; the first part of a file's name is its task."""
    files: dict[str, list[Source]] = {}
    for source in sources:
        task, _, name = source.name.partition("/")
        files.setdefault(task, []).append(Source(name, source.size, source.read, source.left))
    return {"tasks": {task: _task(own) for task, own in files.items()}}


def _task(files: Sequence[Source]) -> dict[str, Any]:
    parameters: dict[str, Any] = {}
    curves = []
    for each in files:
        if each.name.rpartition("/")[2] == PARAMETERS:
            parameters = _parameters(each)
        else:
            curves.append(each)
    found = points_of(curves).curves
    told = {name: _metric(found[name]) for name in sorted(found, key=rank)[:MOST_METRICS]}
    return {"parameters": parameters, "metrics": {name: values for name, values in told.items() if values}}


def _metric(curve: Curve) -> dict[str, Any] | None:
    known = [(step, value) for step, value in zip(curve.steps, curve.values, strict=True) if value is not None]
    if not known:
        return None
    values = [value for _, value in known]
    steps, thinned = curve.thinned(POINTS)
    points = [[_short(step) for step in steps], [None if value is None else _short(value) for value in thinned]]
    return {
        "last": values[-1],
        "low": min(values),
        "high": max(values),
        "step": known[-1][0],
        "points": points,
    }


def _short(value: float) -> float:
    return float(f"{value:.6g}")


def _parameters(source: Source) -> dict[str, Any]:
    """Return the names and plain values of an object, those one level deeper as `outer/inner`; none where it is no JSON."""
    if source.size > PARAMETERS_BYTES:
        return {}
    try:
        given = json.loads(source.at(0, source.size))
    except (ValueError, RecursionError):
        return {}
    found: dict[str, Any] = {}
    for name, value in given.items() if isinstance(given, dict) else ():
        inner = (
            {f"{name}/{deeper}": each for deeper, each in value.items()} if isinstance(value, dict) else {name: value}
        )
        found |= {cut(key, NAME_CHARS): _plain(each) for key, each in inner.items() if key and _is_plain(each)}
        if len(found) >= MOST_PARAMETERS:
            break
    return dict(list(found.items())[:MOST_PARAMETERS])


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | bool) or (
        isinstance(value, int | float) and abs(value) < 1e300 and math.isfinite(value)
    )


def _plain(value: Any) -> Any:
    return cut(value, TEXT_CHARS) if isinstance(value, str) else value
