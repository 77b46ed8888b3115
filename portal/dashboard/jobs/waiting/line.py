"""The line of time as SVG with attributes only: waited, GPUs gathered, ends in the way, and the start range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

if TYPE_CHECKING:
    from collections.abc import Sequence

HEIGHT, BASE, TOP, STRIP = 148, 124, 44, 12
"""px: of the drawing, of its axis, of the line of what is needed, and of the strip on the axis."""
LEAST_RANGE = 2.4
"""Per cent of the width that a start range takes at least."""
AFTER = 0.12
LABEL_ROOM = (9.0, 88.0)
"""Per cent between which labels have their middle, so that they do not leave the drawing."""


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
    axis: Axis, *, now_s: float, submitted_s: float, way: Way | None, start: tuple[float, float] | None
) -> SafeString:
    until_s = start[0] if start else axis.end_s
    parts = [
        _band("b-way-waited", axis, max(submitted_s, axis.start_s), now_s),
        _band("b-way-to-wait", axis, now_s, until_s),
        _stairs(axis, way, until_s) if way else SafeString(""),
        _start(axis, start) if start else SafeString(""),
        _now(axis, now_s),
    ]
    return format_html(
        '<svg class="b-way-line" width="100%" height="{}" role="img" aria-label="{}">{}'
        '<line class="b-timeline-axis" x1="0" x2="100%" y1="{}" y2="{}"></line>{}</svg>',
        HEIGHT,
        "Line of time: waited, what comes free, start range",
        format_html_join("", "{}", ((part,) for part in parts)),
        BASE,
        BASE,
        _rings(axis, way) if way else "",
    )


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
    """One step of equal height a GPU; what is free now is solid, what is predicted dashed."""
    unit = (BASE - STRIP - TOP) / way.need
    rows = []
    ends = [at_s for at_s, _ in way.steps[1:]] + [max(until_s, way.steps[-1][0])]
    for place, ((from_s, free), to_s) in enumerate(zip(way.steps, ends, strict=True)):
        left, right, height = axis.at(from_s), axis.at(to_s), unit * min(free, way.need)
        if free and right > left:
            name = "b-way-now" if place == 0 else "b-way-then"
            rows.append((name, f"{left:.2f}", f"{BASE - STRIP - height:.1f}", f"{right - left:.2f}", f"{height:.1f}"))
    steps = format_html_join("", '<rect class="{}" x="{}%" y="{}" width="{}%" height="{}"></rect>', rows)
    return format_html(
        '{}<line class="b-way-need" x1="0" x2="100%" y1="{}" y2="{}"></line>'
        '<text class="b-span-caption" x="0" y="{}">needs {} GPU{} on one node</text>',
        steps,
        TOP,
        TOP,
        TOP - 5,
        way.need,
        "" if way.need == 1 else "s",
    )


def _start(axis: Axis, start: tuple[float, float]) -> SafeString:
    left = axis.at(start[0])
    width = max(LEAST_RANGE, axis.at(start[1]) - left)
    run = left + width
    return format_html(
        '<rect class="b-way-run" x="{}%" y="{}" width="{}%" height="{}"></rect>'
        '<rect class="b-way-start" x="{}%" y="{}" width="{}%" height="{}"></rect>',
        f"{run:.2f}",
        TOP,
        f"{max(0.0, 100.0 - run):.2f}",
        BASE - TOP,
        f"{left:.2f}",
        TOP - 14,
        f"{width:.2f}",
        BASE - TOP + 14,
    )


def _now(axis: Axis, now_s: float) -> SafeString:
    x = axis.at(now_s)
    return format_html(
        '<line class="b-way-present" x1="{}%" x2="{}%" y1="18" y2="{}"></line>'
        '<text class="b-way-word" x="{}%" y="12" text-anchor="middle">now</text>',
        f"{x:.2f}",
        f"{x:.2f}",
        BASE,
        f"{min(LABEL_ROOM[1], max(LABEL_ROOM[0] / 3, x)):.2f}",
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
