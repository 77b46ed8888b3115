"""A job's curves as plain values: `{"series": {name: [steps, values]}, "times": {name: Unix s of each}, "notes"}`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.work.previews.curves.files import points_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from portal.work.previews.curves.points import Points
    from portal.work.previews.source import Source

FIRST_NAMES = ("loss", "acc", "reward", "top", "lr")


def curves_told(sources: Sequence[Source]) -> dict[str, Any]:
    points = points_of(sources)
    series, times = {}, {}
    for name in sorted(points.curves, key=_rank):
        steps, values = points.curves[name].thinned()
        series[name] = [steps, [None if value is None else float(f"{value:.6g}") for value in values]]
        known = [points.curves[name].times.get(step) for step in steps]
        if None not in known:
            times[name] = known
    return {"series": series, "times": times, "notes": _notes(points)}


def _rank(name: str) -> tuple[int, str]:
    """Put what people look at first before the rest."""
    lower = name.lower()
    return next((place for place, word in enumerate(FIRST_NAMES) if word in lower), len(FIRST_NAMES)), name


def _notes(points: Points) -> list[str]:
    notes = []
    if points.others:
        notes.append(f"{len(points.others)} more names are not drawn.")
    if points.not_finite:
        notes.append(f"{points.not_finite} values were not finite (NaN or infinite): gaps.")
    if points.damaged:
        notes.append(f"{points.damaged} lines or records could not be read.")
    if points.thinned:
        notes.append("The files are long: not every point was read.")
    return notes
