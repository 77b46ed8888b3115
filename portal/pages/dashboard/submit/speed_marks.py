"""Draws one panel of the predicted throughput as SVG: its columns are those of the table beneath it."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from django.utils.html import format_html, format_html_join

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.utils.safestring import SafeString

HIGH, FOOT, HEAD = 112, 6, 14
"""Pixels: the whole picture, and the free space beneath and above the marks."""


class Mark(NamedTuple):
    """A speed, and plus or minus which share of it."""

    speed: float
    error: float
    measured: bool
    offered: bool


def picture(
    marks: Sequence[Mark | None], linear: Sequence[float], tinted: Sequence[bool], top: float, label: str
) -> SafeString:
    """Draw a mark a column, the line through them and the dashed one of no loss. `top`: the largest speed of all panels.

    A full mark is measured, a hollow one is not, a cross is not offered. `tinted`: columns that the job accepts.
    """
    middle = [100 * (place + 0.5) / len(marks) for place in range(len(marks))]
    there = [(x, mark) for x, mark in zip(middle, marks, strict=True) if mark is not None]
    ground = format_html_join(
        "",
        '<rect class="b-speed-accepted" x="{}%" width="{}%" height="100%"></rect>',
        ((f"{100 * place / len(marks):.2f}", f"{100 / len(marks):.2f}") for place, on in enumerate(tinted) if on),
    )
    ideal = _line("linear", [(x, _y(value, top)) for x, value in zip(middle, linear, strict=True)][: len(there)])
    known = _line("line", [(x, _y(mark.speed, top)) for x, mark in there])
    drawn = format_html_join("", "{}", ((_draw(x, mark, top),) for x, mark in there))
    return format_html(
        '<svg class="b-speed" width="100%" height="{}" role="img" aria-label="{}">{}'
        '<line class="b-speed-base" x1="0" x2="100%" y1="{}" y2="{}"></line>{}{}{}</svg>',
        HIGH,
        label,
        ground,
        HIGH - FOOT,
        HIGH - FOOT,
        ideal,
        known,
        drawn,
    )


def _y(speed: float, top: float) -> float:
    return HIGH - FOOT - (HIGH - FOOT - HEAD) * speed / top


def _line(kind: str, points: Sequence[tuple[float, float]]) -> SafeString:
    return format_html_join(
        "",
        '<line class="b-speed-{}" x1="{}%" y1="{}" x2="{}%" y2="{}"></line>',
        ((kind, f"{x1:.2f}", f"{y1:.1f}", f"{x2:.2f}", f"{y2:.1f}") for (x1, y1), (x2, y2) in pairwise(points)),
    )


def _draw(x: float, mark: Mark, top: float) -> SafeString:
    at, y = f"{x:.2f}", _y(mark.speed, top)
    if not mark.offered:
        return format_html(
            '<text class="b-speed-out" x="{}%" y="{}" text-anchor="middle">\u00d7</text>', at, f"{y + 5:.1f}"
        )
    low, high = (f"{_y(mark.speed * (1 + sign * mark.error), top):.1f}" for sign in (-1, 1))
    kind = "measured" if mark.measured else "expected"
    return format_html(
        '<line class="b-speed-line" x1="{}%" x2="{}%" y1="{}" y2="{}"></line>'
        '<circle class="b-speed-{}" cx="{}%" cy="{}" r="4"></circle>',
        at,
        at,
        low,
        high,
        kind,
        at,
        f"{y:.1f}",
    )
