"""Rows -> lines, steps and bands as plain dicts ready for JSON. Pure. `static/js/lines.js` draws them with uPlot.

Colours are names of design tokens ("plot-1", "fail"); the browser takes them from the stylesheet, in both themes. Times
are Unix seconds; the browser shows them in the reader's zone. None is a gap: nothing was measured, it is not 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

APART = 1e-3
Drawing = dict[str, Any]
Row = tuple[float, float | None]
Look = Literal["line", "steps", "area", "pale", "edge"]
"""How a line is drawn: `area` in steps over a pale area; `steps` dashed, for held resources;
`pale` behind its smoothed line; `edge` only bounds a band."""


def line(
    name: str,
    token: str,
    x: Sequence[float],
    y: Sequence[float | None],
    *,
    look: Look = "line",
    end: bool | str = False,
    logarithmic: bool = False,
) -> Drawing:
    """Return one line. `end`: the words beside its last value; True: the value itself.

    A logarithmic scale leaves out values up to 0. Places rise: a value and a gap at one place stand a little apart.
    """
    places: list[float] = []
    for at in x:
        places.append(at if not places or at > places[-1] else places[-1] + APART)
    values = [value if value is not None and (value > 0 or not logarithmic) else None for value in y]
    return {"name": name, "token": token, "x": places, "y": values, "look": look, "end": end}


def _of_rows(name: str, token: str, rows: Sequence[Row], *, look: Look = "line", end: bool | str = False) -> Drawing:
    return line(name, token, [at for at, _ in rows], [value for _, value in rows], look=look, end=end)


def over_time(lines: Sequence[Drawing], span: tuple[float, float], y: Drawing, **more: object) -> Drawing:
    """Return a drawing over a span of time. `y`: low, high, ticks, unit, digits, each where it is known."""
    return {"x": {"kind": "time", "range": [*span]}, "y": y, "lines": [*lines], **more}


def gpu_use(
    rows: Sequence[tuple[float, float | None, float | None, float | None]],
    span: tuple[float, float],
    now: float | None = None,
) -> Drawing:
    """Return a job's GPU use in %: (time, mean, lowest, highest of its GPUs). The band behind the mean is their range."""
    low, high = ([(row[0], row[place]) for row in rows] for place in (2, 3))
    lines = [
        _of_rows("lowest", "plot-1", low, look="edge"),
        _of_rows("highest", "plot-1", high, look="edge"),
        _of_rows("mean", "plot-1", [(row[0], row[1]) for row in rows], end=True),
    ]
    percent = {"low": 0, "high": 100, "ticks": [0, 50, 100], "unit": "%", "digits": 0}
    return over_time(lines, span, percent, now=now, bands=[{"low": 0, "high": 1, "token": "plot-1"}])


def cores(used: Sequence[Row], held: Sequence[Row], span: tuple[float, float], now: float | None = None) -> Drawing:
    """Return the CPU cores that a job used, and those that it holds in steps."""
    last = next((value for _, value in reversed(held) if value is not None), None)
    held_line = _of_rows("held", "text-2", held, look="steps", end=f"{last:g} held" if last is not None else False)
    return over_time([held_line, _of_rows("used", "plot-3", used, end=True)], span, {"low": 0, "digits": 1}, now=now)


def memory(
    used_gib: Sequence[Row], limit_gib: float | None, span: tuple[float, float], now: float | None = None
) -> Drawing:
    """Return a job's memory in GiB, and the limit above which it is ended."""
    y: Drawing = {"low": 0, "unit": "GiB", "digits": 1}
    more: Drawing = {}
    if limit_gib is not None:
        y |= {"high": 1.06 * limit_gib, "ticks": [0, limit_gib]}
        more["limit"] = {"y": limit_gib, "token": "fail"}
    return over_time([_of_rows("used", "plot-4", used_gib, end=True)], span, y, now=now, **more)


def node_use(rows: Sequence[Row], token: str, span: tuple[float, float], unit: str | None) -> Drawing:
    """Return one measure of a node over time; without a unit it is in %."""
    percent = {"low": 0, "high": 100, "ticks": [0, 50, 100], "unit": "%", "digits": 0}
    return over_time([_of_rows("use", token, rows, end=True)], span, {"low": 0, "unit": unit} if unit else percent)
