"""The overview and its fragments, each made of only what it shows."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.urls import reverse

from portal.dashboard import figures
from portal.dashboard.overview_nodes import node_contexts
from portal.dashboard.overview_problems import problem_sentences
from portal.dashboard.overview_queue import idle_notice, next_context, tenant_shares
from portal.dashboard.overview_tiles import fragments_of, tile_contexts
from portal.dashboard.rounds_page import solve_ms
from portal.dashboard.templatetags.berth import number
from portal.errors import BerthError, NotFound
from portal.rounds.bars import fragment_bars
from portal.rounds.history import points_since, raqlr_course
from portal.rounds.metrics import hold_s

if TYPE_CHECKING:
    from collections.abc import Callable

    from portal.dashboard.context import Choice, PlotContext
    from portal.dashboard.overview_context import NextPlanning, OverviewContext, RoundsContext
    from portal.dashboard.snapshot import Snapshot
    from portal.rounds.models import Planning

HORIZONS_H = (1, 6, 24)
PLOT_POINTS, BARS = 180, 36


def horizon(text: str | None) -> int:
    """Return h of `?h=`. Raises BerthError for anything but the choices that the page offers."""
    if not text:
        return HORIZONS_H[0]
    if text not in {str(hours) for hours in HORIZONS_H}:
        raise BerthError("invalid", f"h is {' or '.join(map(str, HORIZONS_H))}, in hours.", field="h")
    return int(text)


def overview_context(snapshot: Snapshot) -> OverviewContext:
    shown = f"{snapshot.hours:g} h"
    nodes = node_contexts(snapshot)
    cells = (cell for node in nodes for group in node["groups"] for cell in group["cells"])
    return {
        "subtitle": subtitle(snapshot),
        "horizons": horizons(int(snapshot.hours)),
        "horizon_label": shown,
        "query": query(int(snapshot.hours)),
        "show_memory": any(cell["memory_percent"] is not None for cell in cells),
        "nodes": nodes,
        **fragment_context("tiles", snapshot),
        **fragment_context("head", snapshot),
        **fragment_context("notice", snapshot),
        **fragment_context("problems", snapshot),
        **fragment_context("next", snapshot),
        **fragment_context("tenants", snapshot),
        **fragment_context("rounds", snapshot),
        "plots": plot_contexts(snapshot),
    }  # type: ignore[typeddict-item]


def fragment_context(name: str, snapshot: Snapshot) -> dict[str, Any]:
    """Return what the template `dashboard/_<name>.html` needs. Raises NotFound for an unknown name."""
    if name not in FRAGMENTS:
        raise NotFound("fragment")
    key, made_by = FRAGMENTS[name]
    return {key: made_by(snapshot)}


def subtitle(snapshot: Snapshot) -> str:
    nodes, gpus = len(snapshot.nodes), snapshot.gpus_total
    words = [f"{nodes} node{'s' if nodes != 1 else ''}", f"{gpus} GPU{'s' if gpus != 1 else ''}"]
    return ", ".join((["demo"] if settings.DEMO else []) + words)


def query(hours: int) -> str:
    return "" if hours == HORIZONS_H[0] else f"?h={hours}"


def horizons(chosen: int) -> list[Choice]:
    return [
        {
            "value": str(hours),
            "label": f"h = {hours} h" if hours == chosen else f"{hours} h",
            "selected": hours == chosen,
            "url": reverse("overview") + query(hours),
        }
        for hours in HORIZONS_H
    ]


def next_planning(snapshot: Snapshot) -> NextPlanning | None:
    """Return the countdown to the next tick; None before the first planning. A nudge may plan sooner."""
    last = snapshot.last_plannings[0] if snapshot.last_plannings else None
    if last is None:
        return None
    tick_s = snapshot.knobs["tick_s"]
    at = last.started_at + timedelta(seconds=tick_s)
    return {"number": last.number + 1, "next_at": at.isoformat(), "period_s": tick_s}


def rounds_context(last_first: list[Planning]) -> RoundsContext | None:
    if not last_first:
        return None
    newest = last_first[0]
    gaps = [gap for row in last_first if (gap := row.solver.get("gap")) is not None]
    note = f"the last {len(last_first)}" + (f", all solved to gap {max(gaps):.4g}" if gaps else "")
    return {
        "columns": [
            {
                "number": row.number,
                "url": reverse("planning-detail", args=[row.number]),
                "placed": row.placed,
                "fragments": fragments_of(row.metrics),
                "solve_ms": solve_ms(row),
                "current": row is newest,
            }
            for row in reversed(last_first)
        ],
        "summary": _summary(newest),
        "note": note,
    }


def _summary(planning: Planning) -> str:
    jobs = planning.window_jobs
    parts = [f"window {jobs} job{'s' if jobs != 1 else ''}"]
    if candidates := planning.solver.get("candidates"):
        parts.append(f"{number(candidates)} candidate{'s' if candidates != 1 else ''}")
    parts.append(f"{number(1000 * (planning.load_s + planning.plan_s + planning.apply_s))} ms")
    parts.append(f"{planning.placed} placed" if planning.placed else "nothing placed")
    return f"Planning {planning.number}: {', '.join(parts)}"


def plot_contexts(snapshot: Snapshot) -> list[PlotContext]:
    if not snapshot.last_plannings:
        return []
    note, suffix = f"{snapshot.hours:g} h", query(int(snapshot.hours))
    return [
        {
            "name": "latency-ratio",
            "title": "Latency ratio",
            "note": note,
            "url": reverse("figure", args=["latency-ratio"]) + suffix,
            "legend": [
                {"label": f"RAQLR, h = {snapshot.knobs['raqlr_hours']:g} h", "token": "plot-1", "kind": "line"},
                {"label": "live, waiting", "token": "plot-2", "kind": "line"},
            ],
        },
        fragments_plot(int(snapshot.hours)),
    ]


def fragments_plot(hours: int) -> PlotContext:
    return {
        "name": "fragments",
        "title": "Fragments",
        "note": f"idle GPUs that waiting jobs could not use, means by time, {hours} h",
        "url": reverse("figure", args=["fragments"]) + query(hours),
        "legend": [
            {"label": "no cores", "token": "plot-2", "kind": "block"},
            {"label": "scattered", "token": "plot-4", "kind": "block"},
            {"label": "most at a time", "token": "text-2", "kind": "line"},
        ],
    }


def figure(name: str, snapshot: Snapshot) -> figures.Figure:
    """Return a figure of the last h hours as JSON for plots.js. Raises NotFound for an unknown name."""
    if name not in {"latency-ratio", "fragments"}:
        raise NotFound("figure")
    if name == "fragments":
        return _fragments_figure(snapshot)
    points = points_since(since=snapshot.since, most=PLOT_POINTS)
    start, end = (points[0].at if points else snapshot.since).isoformat(), snapshot.now.isoformat()
    rows = [(point.at.isoformat(), point.metrics) for point in points]
    course = raqlr_course(hours=snapshot.knobs["raqlr_hours"], at=[point.at for point in points])
    raqlr = [(at, value) for (at, _), (value, _) in zip(rows, course, strict=True)]
    live = [(at, metrics.get("live_lr_mean")) for at, metrics in rows]
    return figures.latency_ratio(raqlr, live, start=start, end=end)


def _fragments_figure(snapshot: Snapshot) -> figures.Figure:
    hold = hold_s(tick_s=snapshot.knobs["tick_s"])
    bars = fragment_bars(hours=snapshot.hours, now=snapshot.now, count=BARS, hold_s=hold)
    rows = [(bar.at.isoformat(), bar.cores, bar.scattered) for bar in bars]
    start, end = snapshot.since.isoformat(), snapshot.now.isoformat()
    return figures.fragments(rows, most=[bar.most for bar in bars], start=start, end=end, digits=1)


FRAGMENTS: dict[str, tuple[str, Callable[[Snapshot], Any]]] = {
    "head": ("next_planning", next_planning),
    "tiles": ("tiles", tile_contexts),
    "notice": ("notice", idle_notice),
    "problems": ("problems", problem_sentences),
    "nodes": ("nodes", node_contexts),
    "next": ("next", next_context),
    "tenants": ("tenants", tenant_shares),
    "rounds": ("rounds", lambda snapshot: rounds_context(snapshot.last_plannings)),
}
