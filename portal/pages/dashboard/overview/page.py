"""The overview and its fragments. Each fragment reads only what it shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.template.loader import render_to_string
from django.urls import reverse

from portal.cluster.models import HEALTHS
from portal.foundation.errors import NotFound
from portal.operate.health.health import health
from portal.pages.dashboard.board.board import GROUPINGS, groupings
from portal.pages.dashboard.board.feed import HORIZONS_H
from portal.pages.dashboard.overview.nodes import node_contexts
from portal.pages.dashboard.overview.queue import idle_notice, next_context, tenant_shares
from portal.pages.dashboard.overview.tiles import tile_contexts
from portal.pages.dashboard.parts import figures
from portal.pages.dashboard.parts.formatting import count_of, number
from portal.pages.dashboard.parts.snapshot import Snapshot, shared_html
from portal.pages.dashboard.rounds.listing import fragments_of, solve_ms
from portal.planning.rounds.read.bars import fragment_bars
from portal.planning.rounds.read.history import points_since, raqlr_course
from portal.planning.rounds.record.metrics import hold_s

if TYPE_CHECKING:
    from collections.abc import Callable

    from portal.pages.dashboard.parts.context import Choice, PlotContext
    from portal.planning.rounds.models import Planning

PLOT_POINTS, BARS = 180, 36


def overview_context(snapshot: Snapshot) -> dict[str, Any]:
    """Return the page's frame, and in `html` its fragments as readers share them."""
    hours = int(snapshot.hours)
    is_large = snapshot.is_large
    names = [name for name in FRAGMENTS if name != "nodes" or not is_large]
    html = {name: fragment_html(name, snapshot) for name in names}
    return {
        "subtitle": subtitle(snapshot),
        "horizons": horizons(hours),
        "horizon_label": f"{hours} h",
        "query": query(hours),
        "show_memory": any(memory is not None for memory in snapshot.facts.memories),
        "board": board_context(snapshot) if is_large else None,
        "board_url": board_url(hours),
        "html": html,
        "plots": plot_contexts(snapshot),
        "can_operate": snapshot.user.is_operator,
    }


def board_url(hours: int) -> str:
    return f"{reverse('cluster-board')}?h={hours}"


def board_context(snapshot: Snapshot) -> dict[str, Any]:
    """Return the strips' frame; the figures come as JSON."""
    facts = snapshot.facts
    counts = Counter(HEALTHS[each] for each in facts.health)
    return {
        "groupings": [
            {"value": name, "label": GROUPINGS[name], "selected": name == "type"} for name in groupings(facts)
        ],
        "note": ", ".join(f"{number(counts[word])} {word}" for word in HEALTHS if counts[word]),
    }


def fragment_html(name: str, snapshot: Snapshot) -> str:
    """Return a fragment's HTML; readers with equal rights share it. Raises NotFound for an unknown name."""
    if name not in FRAGMENTS:
        raise NotFound("fragment")
    if name == "nodes" and snapshot.is_large:
        return grown_html()
    key, made_by, masked = FRAGMENTS[name]
    return shared_html(
        snapshot, f"overview:{name}", f"dashboard/_{name}.html", lambda own: {key: made_by(own)}, masked=masked
    )


def grown_html() -> str:
    """Return the answer for a page that was opened while the cluster was still small enough for cells."""
    return render_to_string("cluster/_grown.html")


def subtitle(snapshot: Snapshot) -> str:
    nodes, gpus = len(snapshot.facts.names), snapshot.gpus_total
    words = [count_of(nodes, "node"), count_of(gpus, "GPU")]
    return ", ".join((["demo"] if settings.DEMO else []) + words)


def query(hours: int) -> str:
    return "" if hours == HORIZONS_H[0] else f"?h={hours}"


def horizons(chosen: int) -> list[Choice]:
    return [
        {
            "value": str(hours),
            "label": f"last {hours} h" if hours == chosen else f"{hours} h",
            "selected": hours == chosen,
            "url": reverse("overview") + query(hours),
        }
        for hours in HORIZONS_H
    ]


def next_planning(snapshot: Snapshot) -> dict[str, Any] | None:
    """Return the countdown to the next tick; None before the first planning. A nudge may plan sooner."""
    last = snapshot.last_plannings[0] if snapshot.last_plannings else None
    if last is None:
        return None
    tick_s = snapshot.knobs["tick_s"]
    at = last.started_at + timedelta(seconds=tick_s)
    return {"number": last.number + 1, "next_at": at.isoformat(), "period_s": tick_s}


def rounds_context(last_first: list[Planning]) -> dict[str, Any] | None:
    if not last_first:
        return None
    newest = last_first[0]
    gaps = [gap for row in last_first if (gap := row.solver.get("gap")) is not None]
    note = f"the last {len(last_first)}" + (f", all solved to gap {max(gaps):.4g}" if gaps else "")
    columns: list[dict[str, Any]] = [
        {
            "number": row.number,
            "url": reverse("planning-detail", args=[row.number]),
            "placed": row.placed,
            "fragments": fragments_of(row.metrics),
            "solve_ms": solve_ms(row),
            "current": row is newest,
        }
        for row in reversed(last_first)
    ]
    return {"columns": columns, "summary": _summary(newest), "note": note}


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
    note, suffix = f"the last {snapshot.hours:g} h", query(int(snapshot.hours))
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
        "note": f"idle GPUs that waiting jobs could not use, means by time, the last {hours} h",
        "url": reverse("figure", args=["fragments"]) + query(hours),
        "legend": [
            {"label": "no cores", "token": "plot-2", "kind": "block"},
            {"label": "scattered", "token": "plot-4", "kind": "block"},
            {"label": "kept for a job", "token": "plot-3", "kind": "block"},
            {"label": "most at a time", "token": "text-2", "kind": "line"},
        ],
    }


def figure(name: str, snapshot: Snapshot) -> figures.Figure:
    """Return a figure of the last h hours as JSON for plots.js, the same for all. Raises NotFound for an unknown name."""
    if name not in {"latency-ratio", "fragments"}:
        raise NotFound("figure")
    return snapshot.sharing.get(f"figure:{name}:{snapshot.hours:g}", lambda _: _figure(name, snapshot))


def _figure(name: str, snapshot: Snapshot) -> figures.Figure:
    if name == "fragments":
        return _fragments_figure(snapshot)
    points = points_since(since=snapshot.since, most=PLOT_POINTS)
    start, end = snapshot.since.isoformat(), snapshot.now.isoformat()  # as the plot beside it
    rows = [(point.at.isoformat(), point.metrics) for point in points]
    course = raqlr_course(hours=snapshot.knobs["raqlr_hours"], at=[point.at for point in points])
    raqlr = [(at, value) for (at, _), (value, _) in zip(rows, course, strict=True)]
    live = [(at, metrics.get("live_lr_mean")) for at, metrics in rows]
    return figures.latency_ratio(raqlr, live, start=start, end=end)


def _fragments_figure(snapshot: Snapshot) -> figures.Figure:
    hold = hold_s(tick_s=snapshot.knobs["tick_s"])
    bars = fragment_bars(hours=snapshot.hours, now=snapshot.now, count=BARS, hold_s=hold)
    rows = [(bar.at.isoformat(), bar.cores, bar.scattered, bar.kept) for bar in bars]
    start, end = snapshot.since.isoformat(), snapshot.now.isoformat()
    return figures.fragments(rows, most=[bar.most for bar in bars], start=start, end=end, digits=1)


FRAGMENTS: dict[str, tuple[str, Callable[[Snapshot], Any], bool]] = {
    "head": ("next_planning", next_planning, False),
    "tiles": ("tiles", tile_contexts, False),
    "notice": ("notice", idle_notice, False),
    "problems": ("problems", lambda snapshot: health()[1] if snapshot.user.is_operator else [], True),
    "nodes": ("nodes", node_contexts, True),
    "next": ("next", next_context, True),
    "tenants": ("tenants", tenant_shares, True),
    "rounds": ("rounds", lambda snapshot: rounds_context(snapshot.last_plannings), False),
}
"""Fragment -> the name in its template, the function that makes it, and whether it names jobs or tenants (then masked)."""
