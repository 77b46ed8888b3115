"""Small drawings of the overview, as SVG with attributes only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils.html import format_html, format_html_join

if TYPE_CHECKING:
    from datetime import datetime

    from django.utils.safestring import SafeString

    from portal.planning.rounds.read.forecasts import Start

HOURS = 3
"""How far the short line of a waiting job reaches."""
LEAST = 1.4
"""Per cent of the line that a range takes at least."""


def start_line(start: Start, now: datetime) -> SafeString:
    """The next hours from now: waiting until the range, and the range as a block; ticks at full hours."""

    def at(moment: datetime | None) -> float:
        if moment is None:
            return 100.0
        return min(100.0, max(0.0, 100.0 * (moment - now).total_seconds() / (3600.0 * HOURS)))

    left = min(at(start.earliest_at), 100.0 - LEAST)
    ticks = format_html_join(
        "",
        '<rect class="b-home-tick" x="{}%" y="2" width="1" height="8"></rect>',
        ((f"{100.0 * hour / HOURS:.2f}",) for hour in range(1, HOURS)),
    )
    return format_html(
        '<svg class="b-home-line" width="100%" height="12" aria-hidden="true">'
        '<line class="b-home-ahead" x1="0" x2="100%" y1="6" y2="6"></line>{}'
        '<rect class="b-home-wait" x="0" y="5" width="{}%" height="2"></rect>'
        '<rect class="b-way-start" x="{}%" y="1" width="{}%" height="10" rx="2"></rect></svg>',
        ticks,
        f"{left:.2f}",
        f"{left:.2f}",
        f"{max(LEAST, at(start.latest_at) - left):.2f}",
    )


def whose_bar(parts: list[tuple[str, float]], total: float, label: str, *, tick: float | None = None) -> SafeString:
    """Amounts by whose they are, end to end on one track; `tick` marks what the tenant is entitled to."""
    rows, at = [], 0.0
    for name, amount in parts:
        width = min(100.0 - at, max(0.0, 100.0 * amount / total)) if total > 0 else 0.0
        if width > 0:
            rows.append((name, f"{at:.2f}", f"{width:.2f}"))
        at += width
    rects = format_html_join("", '<rect class="b-whose-fill-{}" x="{}%" width="{}%" height="8"></rect>', rows)
    mark = ""
    if tick is not None:
        mark = format_html('<rect class="b-bar-tick" x="{}%" y="0" width="2" height="8"></rect>', f"{100.0 * tick:.2f}")
    return format_html(
        '<svg class="b-home-whose" width="100%" height="8" role="img" aria-label="{}">'
        '<rect class="b-bar-track" width="100%" height="8"></rect>{}{}</svg>',
        label,
        rects,
        mark,
    )
