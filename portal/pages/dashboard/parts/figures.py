"""Rows -> Plotly figures, as plain dicts ready for JSON. Pure.

Colours are names of design tokens ("plot-1", "line", "plot-1/0.15" with an opacity); static/js/plots.js resolves them
from the stylesheet and does so again when the theme is switched. Times are ISO 8601 UTC; the browser moves them to the
reader's zone. Everything a figure shares with the others (fonts, margins, grid) is in plots.js, not here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

Figure = dict[str, Any]
Row = tuple[str, float | None]


def _line(rows: Sequence[tuple[str, float | None]], token: str, name: str, *, dashed: bool = False) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": [at for at, _ in rows],
        "y": [value for _, value in rows],
        "line": {"color": token, "width": 1.3 if dashed else 1.8, "dash": "4px,3px" if dashed else "solid"},
        "connectgaps": False,
    }


def _end_label(rows: Sequence[Row], digits: int) -> list[Figure]:
    """The last value beside the line's end: there is no legend box."""
    known = [(at, value) for at, value in rows if value is not None]
    if not known:
        return []
    at, value = known[-1]
    return [
        {
            "x": at,
            "y": value,
            "text": f"{value:.{digits}f}",
            "xanchor": "left",
            "xshift": 6,
            "showarrow": False,
            "font": {"color": "text"},
        }
    ]


def _time_axis(start: str | None, end: str | None) -> Figure:
    axis: Figure = {"type": "date"}
    if start and end:
        axis["range"] = [start, end]
    return axis


def latency_ratio(
    raqlr: Sequence[Row], live: Sequence[Row], *, start: str | None = None, end: str | None = None
) -> Figure:
    """RAQLR and the live LR of those waiting, over time, on one scale from 0.

    Rows are (ISO time, ratio or None); None (nothing ended) leaves a gap, it is not 0.
    """
    return {
        "data": [_line(raqlr, "plot-1", "RAQLR"), _line(live, "plot-2", "live, waiting")],
        "layout": {
            "xaxis": _time_axis(start, end),
            "yaxis": {"rangemode": "tozero"},
            "annotations": _end_label(raqlr, 2) + _end_label(live, 2),
            "meta": {"right_px": 44},
        },
    }


def course(
    lines: Sequence[tuple[str, str, Sequence[Row]]], *, start: str, end: str, high: float | None = None, digits: int = 0
) -> Figure:
    """Some figures over time on one scale from 0 (to `high`): (name, token, rows of (ISO time, value or None)).

    None (nothing measured, nothing ended) leaves a gap, it is not 0.
    """
    yaxis: Figure = {"rangemode": "tozero"} if high is None else {"range": [0, high * 1.04]}
    labels = [label for _, _, rows in lines for label in _end_label(rows, digits)]
    return {
        "data": [_line(rows, token, name) for name, token, rows in lines],
        "layout": {
            "xaxis": _time_axis(start, end),
            "yaxis": yaxis,
            "annotations": _apart(labels),
            "meta": {"right_px": 44},
        },
    }


def _apart(labels: list[Figure]) -> list[Figure]:
    """Keep the first of end labels that would overlap. The hover text has all of them."""
    top = max((label["y"] for label in labels), default=0.0)
    kept: list[Figure] = []
    for label in labels:
        if all(abs(label["y"] - other["y"]) > 0.09 * top for other in kept):
            kept.append(label)
    return kept


def fragments(
    rows: Sequence[tuple[str, *tuple[float | None, ...]]],
    *,
    most: Sequence[float | None] = (),
    start: str | None = None,
    end: str | None = None,
    digits: int = 0,
) -> Figure:
    """Idle GPUs no waiting job could use: (ISO time, short of cores, scattered, kept), stacked bars of means.

    `most`: a dash over each bar, for the most of all kinds at one time.
    """
    at = [row[0] for row in rows]
    kinds = [("no cores", "plot-2", 1), ("scattered", "plot-4", 2), ("kept for a job", "plot-3", 3)]
    return {
        "data": [
            {"type": "bar", "name": name, "x": at, "y": [row[place] for row in rows], "marker": {"color": token}}
            for name, token, place in kinds
        ]
        + ([_dashes(at, most)] if most else []),
        "layout": {
            "barmode": "stack",
            "bargap": 0.25,
            "xaxis": _time_axis(start, end),
            "yaxis": {"rangemode": "tozero", "tickformat": "~g"},
            "annotations": _end_label(_totals(rows), digits),
            "meta": {"right_px": 44},
        },
    }


def _totals(rows: Sequence[tuple[str, *tuple[float | None, ...]]]) -> list[Row]:
    known = [row for row in rows if any(each is not None for each in row[1:])]
    return [(row[0], float(sum(each or 0 for each in row[1:]))) for row in known]


def _dashes(at: Sequence[str], values: Sequence[float | None]) -> Figure:
    marker = {"symbol": "line-ew", "size": 7, "line": {"width": 2, "color": "text-2"}}
    return {"type": "scatter", "mode": "markers", "name": "most at a time", "x": at, "y": [*values], "marker": marker}
