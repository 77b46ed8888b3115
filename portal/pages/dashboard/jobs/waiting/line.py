"""The line of time as SVG with attributes only: waited, GPUs gathered, ends in the way, start range, clock times."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

if TYPE_CHECKING:
    from collections.abc import Sequence

HEIGHT, BASE, TOP, STRIP = 148, 124, 44, 12
"""Heights in px: the drawing, its axis, the line of needs, and the strip on the axis."""
LEAST_RANGE = 2.4
"""Per cent of the width that a start range takes at least."""
AFTER = 0.12
LABEL_ROOM = (9.0, 88.0)
"""Per cent between which labels have their middle, so that they do not leave the drawing."""
RANGE_ROOM = (17.0, 83.0)
DATED_ROOM = (14.0, 86.0)
"""The same for the start range, and for times with their day: they are wider."""
STEPS_S = (60, 120, 300, 600, 900, 1800, 3600, 7200, 10800)
DATED_STEPS_S = (21600, 43200, 86400, 172800, 604800, 1209600, 2419200)
"""Seconds between two clock times on the axis: without their day, and with it."""
MOST_TICKS, MOST_DATED = 6, 3
"""How many clock times have room on a phone."""


@dataclass(frozen=True)
class Axis:
    """From Unix seconds to per cent of the width."""

    start_s: float
    end_s: float

    def at(self, at_s: float) -> float:
        return min(100.0, max(0.0, 100.0 * (at_s - self.start_s) / max(1e-6, self.end_s - self.start_s)))


def axis_make(*, submitted_s: float, now_s: float, last_s: float) -> Axis:
    """Return the axis from submission to shortly after what comes last; a long wait is cut, so that what comes has room."""
    ahead_s = max(60.0, last_s - now_s)
    start_s = max(submitted_s, now_s - 1.5 * ahead_s)
    return Axis(start_s, now_s + ahead_s + AFTER * (now_s + ahead_s - start_s))


@dataclass(frozen=True)
class Way:
    """`steps`: (when, GPUs free from then on), the first one now."""

    need: int
    steps: Sequence[tuple[float, int]]


def line_make(
    axis: Axis,
    *,
    now_s: float,
    submitted_s: float,
    way: Way | None,
    start: tuple[float, float] | None,
    ends: bool = True,
) -> SafeString:
    """`ends`: whether the start range has an end; without one it is drawn for some hours."""
    until_s = start[0] if start else axis.end_s
    parts = [
        _band("b-way-waited", axis, max(submitted_s, axis.start_s), now_s),
        _band("b-way-to-wait", axis, now_s, until_s),
        _stairs(axis, way, until_s) if way else SafeString(""),
        _start(axis, start, ends=ends) if start else SafeString(""),
        _now(axis, now_s),
    ]
    return format_html(
        '<svg class="b-way-line" width="100%" height="{}" role="img" aria-label="{}">{}'
        '<line class="b-timeline-axis" x1="0" x2="100%" y1="{}" y2="{}"></line>{}{}</svg>',
        HEIGHT,
        "Line of time: waited, what comes free, start range",
        format_html_join("", "{}", ((part,) for part in parts)),
        BASE,
        BASE,
        _ticks(axis),
        _rings(axis, way) if way else "",
    )


def ticks_of(axis: Axis) -> tuple[list[int], bool]:
    """Return round times on the axis in Unix seconds, and whether a long axis shows their day."""
    width_s = axis.end_s - axis.start_s
    step = next((each for each in STEPS_S if width_s <= each * MOST_TICKS), None)
    dated = step is None
    if step is None:
        most = DATED_STEPS_S[-1] * math.ceil(width_s / DATED_STEPS_S[-1] / MOST_DATED)
        step = next((each for each in DATED_STEPS_S if width_s <= each * MOST_DATED), most)
    first = math.ceil(axis.start_s / step) * step
    times = range(first, math.floor(axis.end_s) + 1, step)
    return [at for at in times if not dated or DATED_ROOM[0] <= axis.at(at) <= DATED_ROOM[1]], dated


def _ticks(axis: Axis) -> SafeString:
    times, dated = ticks_of(axis)
    return format_html_join(
        "",
        '<line class="b-timeline-axis" x1="{0}%" x2="{0}%" y1="{1}" y2="{2}"></line>'
        '<text class="b-way-tick" x="{0}%" y="{3}" text-anchor="middle">{4}</text>',
        (
            (f"{axis.at(at):.2f}", BASE, BASE + 5, BASE + 19, _clock(at, "clock" if dated else "bare-clock"))
            for at in times
        ),
    )


def _clock(at_s: float, form: str = "bare-clock") -> SafeString:
    """A clock time in UTC, until base.js prints it in the reader's zone; `bare-clock` is without its day."""
    at = datetime.fromtimestamp(at_s, UTC)
    return format_html('<tspan data-format="{}" data-at="{}">{}</tspan>', form, at.isoformat(), at.strftime("%H:%M"))


def _band(name: str, axis: Axis, from_s: float, to_s: float) -> SafeString:
    left, right = axis.at(from_s), axis.at(to_s)
    if right <= left:
        return SafeString("")
    return format_html(
        '<rect class="{}" x="{}%" y="{}" width="{}%" height="{}"></rect>',
        name,
        f"{left:.2f}",
        BASE - STRIP,
        f"{right - left:.2f}",
        STRIP,
    )


def _stairs(axis: Axis, way: Way, until_s: float) -> SafeString:
    """One step of equal height for each GPU; GPUs that are free now are solid, predicted ones dashed."""
    unit = (BASE - STRIP - TOP) / way.need
    rows = []
    ends = [at_s for at_s, _ in way.steps[1:]] + [max(until_s, way.steps[-1][0])]
    for place, ((from_s, free), to_s) in enumerate(zip(way.steps, ends, strict=True)):
        left, right, height = axis.at(from_s), axis.at(to_s), unit * min(free, way.need)
        if free and right > left:
            name = "b-way-now" if place == 0 else "b-way-then"
            rows.append((name, f"{left:.2f}", f"{BASE - STRIP - height:.1f}", f"{right - left:.2f}", f"{height:.1f}"))
    steps = format_html_join("", '<rect class="{}" x="{}%" y="{}" width="{}%" height="{}"></rect>', rows)
    return format_html('{}<line class="b-way-need" x1="0" x2="100%" y1="{}" y2="{}"></line>', steps, TOP, TOP)


def _start(axis: Axis, start: tuple[float, float], *, ends: bool) -> SafeString:
    left = axis.at(start[0])
    width = max(LEAST_RANGE, axis.at(start[1]) - left)
    run = left + width
    middle = min(RANGE_ROOM[1], max(RANGE_ROOM[0], left + width / 2))
    return format_html(
        '<rect class="b-way-run" x="{}%" y="{}" width="{}%" height="{}"></rect>'
        '<rect class="b-way-start" x="{}%" y="{}" width="{}%" height="{}"></rect>'
        '<text class="b-way-word" x="{}%" y="{}" text-anchor="middle">starts {}\u2013{}</text>',
        f"{run:.2f}",
        TOP,
        f"{max(0.0, 100.0 - run):.2f}",
        BASE - TOP,
        f"{left:.2f}",
        TOP - 14,
        f"{width:.2f}",
        BASE - TOP + 14,
        f"{middle:.2f}",
        TOP - 18,
        _clock(start[0]),
        _clock(start[1]) if ends else "later",
    )


def _now(axis: Axis, now_s: float) -> SafeString:
    x = axis.at(now_s)
    return format_html(
        '<line class="b-way-present" x1="{}%" x2="{}%" y1="18" y2="{}"></line>'
        '<text class="b-way-word" x="{}%" y="12" text-anchor="middle">now {}</text>',
        f"{x:.2f}",
        f"{x:.2f}",
        BASE,
        f"{min(LABEL_ROOM[1], max(LABEL_ROOM[0], x)):.2f}",
        _clock(now_s),
    )


def _rings(axis: Axis, way: Way) -> SafeString:
    return format_html_join(
        "",
        '<circle class="b-way-ring" cx="{}%" cy="{}" r="5"></circle>',
        ((f"{axis.at(at_s):.2f}", BASE) for at_s, _ in way.steps[1:]),
    )


def range_mark(axis: Axis, start: tuple[float, float], *, now: bool) -> SafeString:
    """A range as a bar on the same axis."""
    left = axis.at(start[0])
    return format_html(
        '<svg class="b-way-range" width="100%" height="8" aria-hidden="true">'
        '<rect class="{}" x="{}%" width="{}%" height="8"></rect></svg>',
        "b-way-start" if now else "b-way-said",
        f"{left:.2f}",
        f"{max(LEAST_RANGE / 2, axis.at(start[1]) - left):.2f}",
    )


def steps_of(gathering: dict[str, Any], now_s: float) -> Way:
    """Return the staircase of a node: idle now, and after each end."""
    steps = [(now_s, gathering["idle"]), *((max(now_s, end["at"]), end["free"]) for end in gathering["ends"])]
    return Way(gathering["need"], steps)
