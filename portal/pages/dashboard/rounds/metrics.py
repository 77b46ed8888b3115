"""The page of figures over time: the overview's figures for an hour, a day and a week, and round by round."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.urls import reverse
from django.utils import timezone

from portal.foundation.errors import NotFound
from portal.pages.dashboard.parts import figures
from portal.pages.dashboard.parts.formatting import number
from portal.planning.rounds.read.series import RANGES, course_since, range_of, rounds_merged, rounds_read
from portal.planning.rounds.record.metrics import RAQLR_HOURS, hold_s
from portal.planning.rounds.settings.knobs import knobs_current

if TYPE_CHECKING:
    from collections.abc import Sequence

    from portal.pages.dashboard.parts.context import LegendKind, PlotContext
    from portal.planning.rounds.read.series import Stretch

ROUNDS_SHOWN = 20
BARS = 60
LABELS = {"1h": "1 h", "24h": "24 h", "7d": "7 days"}
ACTIVE = (
    ("GPU active", "plot-1", "gpu_active_rate", 100.0),
    ("CPU active", "plot-3", "cpu_active_rate", 100.0),
    ("GPU utilisation", "plot-2", "utilisation", 1.0),
    ("CPU utilisation", "plot-4", "cpu_utilisation", 1.0),
)
QUEUE = (("eligible jobs waiting", "plot-1", "queue_length", 1.0),)
RATIOS = (
    *(
        (f"RAQLR, h = {hours} h", token, f"raqlr_{hours}h", 1.0)
        for hours, token in zip(RAQLR_HOURS, ("plot-1", "plot-3", "plot-4"), strict=True)
    ),
    ("live, waiting", "plot-2", "live_lr_mean", 1.0),
)
COLUMNS = (
    ("gpu_active_rate", 100, 1),
    ("cpu_active_rate", 100, 1),
    ("utilisation", 1, 1),
    ("queue_length", 1, 1),
    ("fragments_cores", 1, 1),
    ("fragments_scattered", 1, 1),
    ("fragments_kept", 1, 1),
    ("fragment_rate", 100, 2),
    ("raqlr_6h", 1, 2),
    ("live_lr_mean", 1, 2),
    ("live_lr_max", 1, 2),
)
"""The table's figures, in the order of its head: name, factor, decimals."""
KEPT_NARROW = frozenset({"gpu_active_rate", "fragments_cores", "fragments_scattered"})
LINES = {"active": ACTIVE, "queue": QUEUE, "latency-ratio": RATIOS}


@dataclass
class Span:
    """A range of time that ends now, and its figures, each part read once."""

    text: str | None

    def __post_init__(self) -> None:
        self.name, length = range_of(self.text)
        self.now = timezone.now()
        self.since = self.now - length

    @cached_property
    def every(self) -> list[Stretch]:
        return rounds_read(since=self.since, now=self.now)

    @cached_property
    def rounds(self) -> list[Stretch]:
        return rounds_merged(self.every, since=self.since, now=self.now)

    @cached_property
    def bars(self) -> list[Stretch]:
        """The rounds, merged until each bar is wide enough to be seen."""
        return rounds_merged(self.every, since=self.since, now=self.now, most=BARS)

    @cached_property
    def course(self) -> list[Stretch]:
        hold = hold_s(tick_s=knobs_current()["tick_s"])
        return course_since(since=self.since, now=self.now, hold_s=hold, rounds=self.rounds)


def metrics_context(span: Span) -> dict[str, Any]:
    return {
        "ranges": [
            {
                "value": name,
                "label": LABELS[name],
                "selected": name == span.name,
                "url": reverse("rounds-metrics") + _query(name),
            }
            for name in RANGES
        ],
        "range_label": LABELS[span.name],
        "plots": [_plot(name, span.name) for name in PLOTS],
        **table_context(span),
    }


def table_context(span: Span) -> dict[str, Any]:
    """Return the table's part: the last rounds of the range, the present one first."""
    rows = [_row(each) for each in reversed(span.rounds[-ROUNDS_SHOWN:])]
    return {"rounds": rows, "query": _query(span.name), "form": "date" if span.name == "7d" else "clock"}


def _query(name: str) -> str:
    return "" if name == next(iter(RANGES)) else f"?range={name}"


def _plot(name: str, range_name: str) -> PlotContext:
    title, note, kind, items = PLOTS[name]
    return {
        "name": name,
        "title": title,
        "note": note,
        "url": reverse("rounds-figure", args=[name]) + _query(range_name),
        "legend": [{"label": label, "token": token, "kind": kind} for label, token in items],
        "topics": "planning" if range_name == "1h" else "round",
    }


PLOTS: dict[str, tuple[str, str, LegendKind, list[tuple[str, str]]]] = {
    "active": ("Active rates and utilisation", "%", "line", [each[:2] for each in ACTIVE]),
    "queue": ("Queue", "eligible jobs that wait", "line", []),
    "latency-ratio": ("Latency ratio", "waiting time over run time", "line", [each[:2] for each in RATIOS]),
    "fragments": (
        "Fragments per round",
        "idle GPUs that waiting jobs could not use, mean over the round by time",
        "block",
        [("no cores", "plot-2"), ("scattered", "plot-4"), ("kept for a job", "plot-3"), ("most at a time", "text-2")],
    ),
}


def metrics_figure(name: str, span: Span) -> figures.Figure:
    """Return a figure as JSON for plots.js. Raises NotFound for an unknown name."""
    start, end = span.since.isoformat(), span.now.isoformat()
    if name == "fragments":
        most = [each.figures.get("fragments_most") for each in span.bars]
        return figures.fragments([_bar(each) for each in span.bars], most=most, start=start, end=end, digits=1)
    if name not in LINES:
        raise NotFound("figure")
    lines = [(label, token, _rows(span.course, key, times)) for label, token, key, times in LINES[name]]
    high = 100.0 if name == "active" else None
    return figures.course(lines, start=start, end=end, high=high, digits=2 if name == "latency-ratio" else 0)


def _rows(course: Sequence[Stretch], key: str, times: float) -> list[figures.Row]:
    """Return each figure at the beginning of its stretch, and the last one also at its end, so that the line reaches it."""
    ends = [(each.start, each.figures.get(key)) for each in course]
    if course:
        ends.append((course[-1].until, course[-1].figures.get(key)))
    return [(at.isoformat(), None if value is None else value * times) for at, value in ends]


def _bar(each: Stretch) -> tuple[str, *tuple[float | None, ...]]:
    """Return a bar in the middle of its stretch of time."""
    middle = each.start + (each.until - each.start) / 2
    amounts = (each.figures.get(f"fragments_{kind}") for kind in ("cores", "scattered", "kept"))
    return middle.isoformat(), *(None if amount is None else round(amount, 3) for amount in amounts)


def _row(each: Stretch) -> dict[str, Any]:
    return {
        "number": str(each.number) if each.rounds == 1 else f"{each.number}\u2013{each.number + each.rounds - 1}",
        "at": each.start.isoformat(),
        "length_s": (each.until - each.start).total_seconds(),
        "cells": [
            {
                "text": None if (value := each.figures.get(name)) is None else number(times * value, digits),
                "kept": name in KEPT_NARROW,  # on a narrow screen too
            }
            for name, times, digits in COLUMNS
        ],
    }
