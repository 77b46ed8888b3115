"""Small figures drawn as SVG with attributes only, since the content policy forbids inline styles.

Widths are percentages of the element, so a mark follows its column; colours are classes of the stylesheet.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

if TYPE_CHECKING:
    from portal.planning.rounds.read.forecasts import Start

SPARK_WIDTH, SPARK_HEIGHT = 300, 32
TIMELINE_BASE, TIMELINE_UNIT = 46, 42  # y of the axis, height of the tallest bar, in px
LOW_BAR = 16  # height of a stretch without GPUs of its own, in px
ROOM_PERCENT = 5  # a bar narrower than this has no words
PHONE_PERCENT = 18  # of a bar whose words a phone has room for
CHARACTER_PERCENT = 0.9  # of the timeline's width, for a caption's letter where the card is narrowest on a wide screen
NARROW = " b-span-narrow"  # words left out on a narrow screen
ON_GPUS = {"running", "starting"}
GAP = 0.6  # between two amounts on one track, in per cent of its width
FULL = 99.99  # per cent: a mark that ends here fills the track to its end
HATCH = SafeString(
    '<defs><pattern id="b-hatch" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="7" height="7" class="b-hatch-ground"></rect><path d="M0 0V7" class="b-hatch-line"></path>'
    "</pattern></defs>"
)


def sparkline(spark: dict[str, Any] | None, label: str) -> SafeString:
    """A line from 0 to `high` over a pale area. Values that are None leave a gap."""
    if not spark:
        return SafeString("")
    values, high = spark["values"], max(spark["high"], 1e-9)
    step = SPARK_WIDTH / max(1, len(values) - 1)
    line, area, before = "", "", None
    for place, value in enumerate([*values, None]):
        x = step * place
        y = None if value is None else SPARK_HEIGHT - 1 - (SPARK_HEIGHT - 3) * min(1.0, max(0.0, value / high))
        if y is not None:
            line += f"{'M' if before is None else 'L'}{x:.1f} {y:.1f}"
            area += f"M{x:.1f} {SPARK_HEIGHT}V{y:.1f}" if before is None else f"L{x:.1f} {y:.1f}"
        elif before is not None:
            area += f"V{SPARK_HEIGHT}Z"
        before = y
    return format_html(
        '<svg class="b-spark b-spark-{}" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<path class="b-spark-area" d="{}"></path><path class="b-spark-line" d="{}"></path></svg>',
        spark["tone"],
        SPARK_WIDTH,
        SPARK_HEIGHT,
        label,
        area,
        line,
    )


def _part(value: float | None, total: float) -> float:
    return 0.0 if not value or total <= 0 else min(100.0, max(0.0, 100 * value / total))


def bar(
    value: float | None, total: float, label: str, *, tick: float | None = None, tone: str = "neutral"
) -> SafeString:
    """How much of `total`; `tick` marks a threshold or quota on it."""
    mark = ""
    if tick is not None:
        mark = format_html(
            '<rect class="b-bar-tick" x="{}%" y="0" width="2" height="100%"></rect>', f"{_part(tick, total):.2f}"
        )
    return format_html(
        '<svg class="b-bar b-bar-{}" role="img" aria-label="{}"><rect class="b-bar-track" width="100%"></rect>'
        '<rect class="b-bar-fill" width="{}%"></rect>{}</svg>',
        tone,
        label,
        f"{_part(value, total):.2f}",
        mark,
    )


def stacked(parts: Sequence[tuple[str, float]], total: float | None, label: str) -> SafeString:
    """Several amounts end to end on one track; the rest of `total` stays track."""
    whole = total or sum(amount for _, amount in parts) or 1
    rows, at = [], 0.0
    for token, amount in parts:
        width = _part(amount, whole)
        gap = 0.0 if at + width >= FULL else GAP
        if width:
            rows.append((token, f"{at:.2f}", f"{max(width - gap, GAP):.2f}"))
        at += width
    rects = format_html_join("", '<rect class="b-fill-{}" x="{}%" width="{}%"></rect>', rows)
    return format_html(
        '<svg class="b-bar b-bar-stacked" role="img" aria-label="{}">'
        '<rect class="b-bar-track" width="100%"></rect>{}</svg>',
        label,
        rects,
    )


def _seconds(iso: str) -> float:
    at = datetime.fromisoformat(iso)
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def timeline(context: dict[str, Any]) -> SafeString:
    """Bars over time: height = GPUs, hatched = waiting. Its margins equal those of the plots below (52 and 20 px)."""
    axis = _Axis(context)
    return format_html(
        '<svg class="b-timeline" width="100%" height="66" role="img" aria-label="Timeline of the job">{}{}{}'
        '<line class="b-timeline-axis" x1="0" x2="100%" y1="{}" y2="{}"></line></svg>',
        HATCH,
        format_html_join("", "{}", ((_span(span, axis),) for span in context["spans"])),
        _now(context, axis),
        TIMELINE_BASE,
        TIMELINE_BASE,
    )


class _Axis:
    """From times to percentages of the timeline's width."""

    def __init__(self, context: dict[str, Any]) -> None:
        self.start, self.end = _seconds(context["start"]), _seconds(context["end"])
        self.now = context["now"] or context["end"]
        self.tallest = max([1, *(span["gpus"] for span in context["spans"])])

    def at(self, iso: str | None) -> float:
        return _part(_seconds(iso or self.now) - self.start, self.end - self.start)


def _now(context: dict[str, Any], axis: _Axis) -> SafeString:
    if not context["now"]:
        return SafeString("")
    x = f"{axis.at(context['now']):.2f}%"
    return format_html(
        '<line class="b-timeline-now" x1="{}" x2="{}" y1="3" y2="{}"></line>'
        '<text class="b-span-caption" x="{}" y="0" text-anchor="middle">now</text>',
        x,
        x,
        TIMELINE_BASE,
        x,
    )


def _span(span: dict[str, Any], axis: _Axis) -> SafeString:
    left, right = axis.at(span["from_at"]), axis.at(span["to_at"])
    width = max(right - left, 0.3)
    height = max(LOW_BAR, TIMELINE_UNIT * span["gpus"] / axis.tallest) if span["kind"] in ON_GPUS else LOW_BAR
    top = TIMELINE_BASE - height
    words = ""
    if width > ROOM_PERCENT:  # a narrower bar has no room for words; its title says them
        words = _span_words(span, left=left, width=width, y=top + height / 2 + 4)
    return format_html(
        '<g><title>{}</title><rect class="b-span-{}" x="{}%" y="{}" width="{}%" height="{}"></rect>{}</g>',
        ", ".join(filter(None, (span["label"], span["caption"]))),
        span["kind"],
        f"{left:.2f}",
        f"{top:.1f}",
        f"{width:.2f}",
        f"{height:.1f}",
        words,
    )


def _span_words(span: dict[str, Any], *, left: float, width: float, y: float) -> SafeString:
    """The label in the bar, and the caption below it where it does not run into the next bar's."""
    narrow, caption = width < PHONE_PERCENT, span["caption"] or ""
    return format_html(
        '<text class="b-span-label b-span-label-{}{}" x="{}%" y="{}" text-anchor="middle">{}</text>'
        '<text class="b-span-caption{}" x="{}%" y="{}">{}</text>',
        span["kind"],
        NARROW if narrow else "",
        f"{left + width / 2:.2f}",
        f"{y:.1f}",
        span["label"],
        NARROW if narrow else "",
        f"{left:.2f}",
        TIMELINE_BASE + 16,
        caption if len(caption) * CHARACTER_PERCENT <= width else "",
    )


LINE_HOURS = 3
"""How far the short line of a waiting job reaches."""
LEAST_LINE = 1.4
"""Per cent of the line that a range takes at least."""


def start_line(start: Start, now: datetime) -> SafeString:
    """The next hours from now: waiting until the range, and the range as a block; ticks at full hours."""

    def at(moment: datetime | None) -> float:
        if moment is None:
            return 100.0
        return min(100.0, max(0.0, 100.0 * (moment - now).total_seconds() / (3600.0 * LINE_HOURS)))

    left = min(at(start.earliest_at), 100.0 - LEAST_LINE)
    ticks = format_html_join(
        "",
        '<rect class="b-home-tick" x="{}%" y="2" width="1" height="8"></rect>',
        ((f"{100.0 * hour / LINE_HOURS:.2f}",) for hour in range(1, LINE_HOURS)),
    )
    return format_html(
        '<svg class="b-home-line" width="100%" height="12" aria-hidden="true">'
        '<line class="b-home-ahead" x1="0" x2="100%" y1="6" y2="6"></line>{}'
        '<rect class="b-home-wait" x="0" y="5" width="{}%" height="2"></rect>'
        '<rect class="b-way-start" x="{}%" y="1" width="{}%" height="10" rx="2"></rect></svg>',
        ticks,
        f"{left:.2f}",
        f"{left:.2f}",
        f"{max(LEAST_LINE, at(start.latest_at) - left):.2f}",
    )
