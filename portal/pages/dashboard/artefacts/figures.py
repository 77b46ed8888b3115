"""One curve as a Plotly figure, over steps or over time. Pure; the colours are names of design tokens as in `parts.figures`."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

SCALES = ("linear", "log")
AXES = ("step", "time")
SMOOTHINGS = ("0", "0.6", "0.9")


def curve_figure(
    name: str,
    steps: Sequence[float],
    values: Sequence[float | None],
    *,
    times: Sequence[float] | None = None,
    scale: str = "linear",
    smooth: float = 0.0,
) -> dict[str, Any]:
    """Return the curve; smoothed, with the raw values pale behind it. A logarithmic scale leaves out values up to 0.

    `times` (Unix s): when each point was written; the curve is drawn over these then.
    """
    logarithmic = scale == "log"
    drawn = [value if value is not None and (value > 0 or not logarithmic) else None for value in values]
    smoothed = smoothed_of(drawn, smooth) if smooth else drawn
    places = steps if times is None else [datetime.fromtimestamp(at, UTC).isoformat() for at in times]
    lines = [_line(name, places, drawn, "plot-1/0.3")] if smooth else []
    lines.append(_line(name, places, smoothed, "plot-1"))
    axis: dict[str, Any] = {"type": "linear", "tickformatstops": [], "hoverformat": ",d", "tickformat": "~s"}
    return {
        "data": lines,
        "layout": {
            "xaxis": axis if times is None else {"type": "date"},
            "yaxis": {"type": "log"} if logarithmic else {},
            "annotations": _last(places, smoothed, logarithmic=logarithmic),
            "meta": {"right_px": 60},
        },
    }


def smoothed_of(values: Sequence[float | None], weight: float) -> list[float | None]:
    """Return the running mean with exponentially falling weights, without a bias to the first value; gaps stay gaps."""
    last, held = 0.0, 0.0
    found: list[float | None] = []
    for value in values:
        if value is None:
            found.append(None)
            continue
        last, held = weight * last + (1 - weight) * value, weight * held + 1 - weight
        found.append(last / held)
    return found


def _line(name: str, steps: Sequence[float | str], values: Sequence[float | None], token: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(steps) < 3 else "lines",
        "name": escape(name),
        "x": list(steps),
        "y": list(values),
        "line": {"color": token, "width": 1.8},
        "connectgaps": False,
        "showlegend": False,
    }


def _last(steps: Sequence[float | str], values: Sequence[float | None], *, logarithmic: bool) -> list[dict[str, Any]]:
    known = [(step, value) for step, value in zip(steps, values, strict=True) if value is not None]
    if not known:
        return []
    step, value = known[-1]
    place = math.log10(value) if logarithmic else value
    shown = {"text": f"{value:.4g}", "xanchor": "left", "xshift": 6, "showarrow": False, "font": {"color": "text"}}
    return [{"x": step, "y": place, **shown}]
