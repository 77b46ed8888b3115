"""The page Sharing, for operators: shared GPUs, last admissions, slowdowns, and the acting policy beside its shadow."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.urls import reverse
from django.utils import timezone

from portal.pages.dashboard.parts import lines
from portal.pages.dashboard.parts.formatting import number
from portal.pages.dashboard.sharing.proposals import proposals_context
from portal.pages.dashboard.sharing.rows import SharedNow, cells, decision_row, pairs_on, verdict
from portal.planning.estimation.neighbours import matrices
from portal.planning.rounds.planning.sharing import policy_why
from portal.planning.rounds.read.series import range_of
from portal.planning.rounds.settings.knobs import knobs_current
from portal.planning.sharing.keeping import decisions_told, names_of
from portal.planning.sharing.selectors import (
    RANGES,
    answers_late,
    comparison,
    decisions_of,
    out_of_memory,
    pair_last,
    use_course,
    worse_of_two,
)

if TYPE_CHECKING:
    from datetime import datetime

    from portal.planning.sharing.selectors import Pair

ROWS = 25
FILTERS = (("", "All"), ("refused", "Refused"), ("differ", "Differ"))
LABELS = {"24h": "24 h", "7d": "7 d", "30d": "30 d"}


@dataclass
class Asked:
    """The reader's choice."""

    range_text: str | None = None
    only_text: str | None = None

    def __post_init__(self) -> None:
        self.range, length = range_of(self.range_text, RANGES)
        self.only = self.only_text if self.only_text in dict(FILTERS) else ""
        self.now = timezone.now()
        self.since = self.now - length

    @cached_property
    def pair(self) -> Pair | None:
        return pair_last()

    def url(self, **changes: str) -> str:
        wanted = {"range": self.range, "only": self.only, **changes}
        query = "&".join(f"{name}={value}" for name, value in wanted.items() if value and value != "24h")
        return reverse("sharing") + (f"?{query}" if query else "")


def sharing_context(asked: Asked) -> dict[str, Any]:
    knobs = knobs_current()
    return {
        "acting": knobs["sharing_policy"],
        "shadow": knobs["sharing_shadow"],
        "learned_why": policy_why() if "dqn" in (knobs["sharing_policy"], knobs["sharing_shadow"]) else "",
        "ranges": [
            {"label": LABELS[name], "selected": name == asked.range, "url": asked.url(range=name)} for name in RANGES
        ],
        "query": asked.url().removeprefix(reverse("sharing")),
        "limit": None if knobs["sharing_slowdown"] is None else 1 + knobs["sharing_slowdown"],
        **now_context(asked, knobs["sharing_slowdown"]),
        **compared_context(asked),
        **matrix_context(knobs["sharing_slowdown"]),
        **proposals_context(),
    }


def now_context(asked: Asked, limit: float | None) -> dict[str, Any]:
    """The tiles, and the shared GPUs with those on them."""
    now = SharedNow.read()
    names = names_of(each.allocation.attempt.job for there in now.holders.values() for each in there)
    slowdowns = worse_of_two(set(names.values()))
    pairs = [pair for gpu in now.gpus for pair in pairs_on(gpu, now.holders.get(gpu.pk, ()), names)]
    worst = [slowdowns[pair] for pair in pairs if pair in slowdowns]
    return {
        **cells(now, slowdowns, names),
        "tiles": _tiles(now, worst, limit, asked.since, LABELS[asked.range]),
        "has_shared": bool(now.gpus),
    }


def _tiles(
    now: SharedNow, worst: list[float], limit: float | None, since: datetime, label: str
) -> list[dict[str, Any]]:
    use, granted = now.use(), now.granted
    mean = sum(worst) / len(worst) if worst else None
    bound = f"; limit {1 + limit:.2f}" if limit is not None else ""
    slowed = f"worst {_shown(max(worst), 2)}{bound}" if worst else "no pair was measured"
    return [
        _tile(
            "gpus", "GPUs in shared mode", len(now.gpus), f"{now.taken} with jobs, {len(now.gpus) - now.taken} without"
        ),
        _tile("jobs", "Jobs on them", now.jobs, f"{now.jobs / now.taken:.1f} a GPU" if now.taken else "none now"),
        _tile("granted", "Compute granted", _shown(granted, 0), "of GPUs with jobs", "%"),
        _tile("use", "Use of shared GPUs", _shown(use, 1), "of GPUs with jobs, now", "%"),
        _tile("slowdown", "Mean slowdown", _shown(mean, 2), slowed),
        _late(since, label),
        _tile("memory", "Out of memory", out_of_memory(since=since), f"by a decision, in {label}", "jobs"),
    ]


def _late(since: datetime, label: str) -> dict[str, Any]:
    target = knobs_current()["slo_ms"]
    found = answers_late(since=since)
    share = None if found is None else number(100 * found[1] / found[0], 2)
    note = f"of {number(found[0])} in {label}" if found else "no server told of queries"
    return _tile("late", f"Answers over {target:g} ms", share, note, "%")


def _tile(name: str, label: str, figure: object, note: str, unit: str = "") -> dict[str, Any]:
    known = figure is not None
    return {
        "name": name,
        "label": label,
        "figure": figure if known else "no data",
        "unit": unit if known else "",
        "denominator": note,
    }


def _shown(value: float | None, digits: int) -> str | None:
    return None if value is None else number(value, digits)


def compared_context(asked: Asked) -> dict[str, Any]:
    """The last admissions, and both policies side by side."""
    pair = asked.pair
    filters = [{"label": label, "selected": name == asked.only, "url": asked.url(only=name)} for name, label in FILTERS]
    if pair is None:
        return {"compared": None, "rows": [], "filters": filters, "plots": []}
    told = comparison(pair, since=asked.since)
    rows = decisions_of(pair, since=asked.since, only=asked.only).select_related("planning")[:ROWS]
    return {
        "compared": told,
        "pair": pair,
        "verdict": verdict(told, knobs_current()["sharing_slowdown"]),
        "rows": [decision_row(row) for row in decisions_told(list(rows))],
        "filters": filters,
        "plots": [_plot(asked, pair)],
    }


def _plot(asked: Asked, pair: Pair) -> dict[str, Any]:
    return {
        "name": "use",
        "title": "Use gained against exclusive",
        "note": "%, of GPUs with jobs; expected by what their jobs used before",
        "url": reverse("sharing-figure") + asked.url(only="").removeprefix(reverse("sharing")),
        "height_px": 176,
        "topics": "sharing",
    }


def use_figure(asked: Asked) -> lines.Drawing:
    """Return the course of expected use; without lines while nothing was compared."""
    span = (asked.since.timestamp(), asked.now.timestamp())
    percent = {"low": 0, "high": 100, "ticks": [0, 50, 100], "unit": "%", "digits": 0}
    if asked.pair is None:
        return lines.over_time([], span, percent)
    course = use_course(asked.pair, since=asked.since)
    at = [each["at"].timestamp() for each in course]
    kinds = (
        (asked.pair.acting, "plot-1", "acting", "use"),
        (asked.pair.shadow, "plot-4", "shadow", "use"),
        ("alone", "text-2", "acting", "alone"),
    )
    drawn = [
        lines.line(label, token, at, [each[side].get(name) for each in course], end=label)
        for label, token, side, name in kinds
    ]
    return lines.over_time(drawn, span, percent, right_px=90)


def matrix_context(limit: float | None) -> dict[str, Any]:
    """The pairs that slow each other: time beside the other over time without it."""
    found = matrices()
    most = 1.0 + limit if limit is not None else float("inf")
    return {
        "matrices": [
            {
                "gpu_type": each.gpu_type,
                "names": each.names,
                "left_out": each.left_out,
                "rows": [
                    (name, [None if cell is None else _slow(cell.share, cell.count, most) for cell in row])
                    for name, row in each.rows
                ],
            }
            for each in found
        ]
    }


def _slow(share: float, count: int, most: float) -> dict[str, Any]:
    slowdown = 1.0 / share if share > 0 else float("inf")
    fill = min(4, int((slowdown - 1.0 + 1e-9) / 0.05))
    return {
        "text": f"{slowdown:.2f}",
        "count": count,
        "fill": f"short-{fill}" if fill > 0 else "",
        "over": slowdown > most,
    }
