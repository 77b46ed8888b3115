"""The overview's four figures as of now, each with its course over the last day of plannings."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from portal.pages.dashboard.board.board import computing_of
from portal.pages.dashboard.parts.formatting import count_of, number
from portal.pages.dashboard.parts.plain import waited_times
from portal.pages.dashboard.rounds.listing import fragments_of
from portal.planning.rounds.read.history import points_evenly, points_since, raqlr_course

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from portal.pages.dashboard.parts.snapshot import Snapshot
    from portal.planning.rounds.read.history import Point

SINCE = timedelta(hours=24)
SPARK_POINTS, POINTS_READ = 60, 180
"""More are read than are drawn, so that each stretch finds a planning of its own."""


def tile_contexts(snapshot: Snapshot) -> list[dict[str, Any]]:
    read = points_since(since=snapshot.now - SINCE, most=POINTS_READ)
    points = points_evenly(read, until=snapshot.now, count=SPARK_POINTS)
    return [_held(snapshot, points), _computing(snapshot, points), _waiting(snapshot, points), _fragments(points)]


def _tile(
    label: str,
    figure: float | None,
    unit: str,
    note: str,
    spark: dict[str, Any] | None,
    count: str = "",
    title: str = "",
) -> dict[str, Any]:
    """Return a figure. `count`: the board's name for it, which keeps it true each second."""
    told = {"label": label, "figure": number(figure), "unit": unit, "note": note}
    return {**told, "spark": spark, "count": count, "title": title}


def _spark(
    points: Sequence[Point],
    value: Callable[[dict[str, Any]], float | None],
    *,
    high: float | None = None,
    tone: str = "accent",
) -> dict[str, Any] | None:
    """Return the course of a figure; None without a known value. `high`: the top of the scale, else the largest value."""
    values = [value(point.metrics) for point in points]
    known = [each for each in values if each is not None]
    return {"values": values, "high": high or max([1.0, *known]), "tone": tone} if known else None


def _held(snapshot: Snapshot, points: Sequence[Point]) -> dict[str, Any]:
    facts, held, total = snapshot.facts, snapshot.gpus_held, snapshot.gpus_total
    free, sharing = (
        sum(each(place) for place in facts.alive) for each in (lambda at: facts.idle(at)[0], facts.for_sharing)
    )
    counts = [(free, "free"), (sharing, "for sharing"), (max(0, total - held - free - sharing), "out")]
    note = ", ".join(f"{number(count)} {word}" for count, word in counts if count)
    spark = _spark(points, lambda metrics: metrics.get("gpu_active_rate"), high=1.0)
    return _tile("GPUs held", held, f"of {number(total)}", note or "none is free", spark, "held")


def _computing(snapshot: Snapshot, points: Sequence[Point]) -> dict[str, Any]:
    computing, unknown = computing_of(snapshot.facts, range(len(snapshot.facts.names)))
    held = snapshot.gpus_held
    notes = {"held, but idle": held - computing - unknown, "not measured": unknown}
    note = ", ".join(f"{number(count)} {word}" for word, count in notes.items() if count)
    spark = _spark(points, lambda metrics: metrics.get("utilisation"), high=100.0)
    return _tile("Computing", computing, f"of {number(held)}", note or "all that are held", spark, "computing")


def _waiting(snapshot: Snapshot, points: Sequence[Point]) -> dict[str, Any]:
    """The oldest stands in the list of those that wait longest; here, how long the jobs waited that ended lately (RAQLR)."""
    jobs, hours = snapshot.queue.jobs, snapshot.knobs["raqlr_hours"]
    ratio, ended = raqlr_course(hours=hours, at=[snapshot.now])[0]
    note = waited_times(ratio) or ("no job has ended lately" if jobs else "nobody waits")
    title = f"Mean of the {count_of(ended, 'job')} that ended in the last {hours:g} h (RAQLR)" if ended else ""
    spark = _spark(points, lambda metrics: metrics.get("queue_length"), tone="wait")
    return _tile("Waiting", jobs, "job" if jobs == 1 else "jobs", note, spark, title=title)


def _fragments(points: Sequence[Point]) -> dict[str, Any]:
    total = fragments_of(points[-1].metrics) if points else None
    note = "free, but no waiting job fits" if total else "no planning in the last day" if total is None else "none now"
    return _tile(
        "Lost to fragments", total, "GPU" if total == 1 else "GPUs", note, _spark(points, fragments_of, tone="wait")
    )
