"""The tiles: each a figure as of now, its whole, and its course over the last h hours of plannings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.pages.dashboard.parts.formatting import duration, number
from portal.pages.dashboard.rounds.listing import fragments_of
from portal.planning.rounds.read.history import points_evenly, points_since, raqlr_course

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from portal.pages.dashboard.parts.snapshot import Snapshot
    from portal.planning.rounds.read.history import Point

SPARK_POINTS = 60
POINTS_READ = 180
"""More than are drawn, so that each stretch finds a planning of its own."""


def tile_contexts(snapshot: Snapshot) -> list[dict[str, Any]]:
    read = points_since(since=snapshot.since, most=POINTS_READ)
    points = points_evenly(read, until=snapshot.now, count=SPARK_POINTS)
    hours = snapshot.knobs["raqlr_hours"]
    raqlr = raqlr_course(hours=hours, at=[point.at for point in points] or [snapshot.now])
    highest = ratio_scale(points, snapshot.queue.ratio_mean, *(value for value, _ in raqlr))
    return [
        _gpu_active(snapshot, points),
        _cpu_active(snapshot, points),
        _utilisation(snapshot, points),
        _queue(snapshot, points),
        _raqlr(hours, raqlr, highest),
        _live_ratio(snapshot, points, highest),
        _fragments(snapshot, points),
    ]


def ratio_scale(points: Sequence[Point], *present: float | None) -> float:
    """Return the top of the scale that RAQLR and live LR share. With scales of their own, a jammed cluster would look calm."""
    past = [point.metrics.get("live_lr_mean") for point in points]
    return max([0.1, *(value for value in (*past, *present) if value is not None)])


def _spark(
    points: Sequence[Point],
    value: Callable[[dict[str, Any]], float | None],
    *,
    high: float | None,
    kind: str = "line",
    tone: str = "accent",
) -> dict[str, Any] | None:
    return _spark_of([value(point.metrics) for point in points], high=high, kind=kind, tone=tone)


def _spark_of(
    values: list[float | None], *, high: float | None, kind: str = "line", tone: str = "accent"
) -> dict[str, Any] | None:
    """Return the course of a figure; None without a known value. `high`: the top of the scale; None: the largest value."""
    known = [each for each in values if each is not None]
    if not known:
        return None
    top = max([1.0, *known]) if high is None else high
    return {"values": values, "low": 0.0, "high": top, "kind": kind, "tone": tone}


def _share(name: str) -> Callable[[dict[str, Any]], float | None]:
    return lambda metrics: None if metrics.get(name) is None else 100 * metrics[name]


def _tile(name: str, label: str, text: str | None, unit: str | None, denominator: str, **more: Any) -> dict[str, Any]:
    """Return a tile. `name` is a stable id; `denominator` says the whole: "19 of 24 allocated"."""
    figure = "no data" if text is None else text
    return {
        "name": name,
        "label": label,
        "figure": figure,
        "unit": None if text is None else unit,
        "denominator": denominator,
        "help": more.get("explained"),
        "spark": more.get("spark"),
    }


def _gpu_active(snapshot: Snapshot, points: Sequence[Point]) -> dict[str, Any]:
    held, total = snapshot.gpus_held, snapshot.gpus_total
    return _tile(
        "gpu-active",
        "GPU active rate",
        number(100 * held / total, 1) if total else None,
        "%",
        f"{number(held)} of {number(total)} allocated" if total else "no GPU has joined",
        explained="GPUs that a job holds now, of all GPUs.",
        spark=_spark(points, _share("gpu_active_rate"), high=100),
    )


def _cpu_active(snapshot: Snapshot, points: Sequence[Point]) -> dict[str, Any]:
    held, total = sum(snapshot.facts.cores_held), snapshot.facts.cores_total
    measured, used = sum(snapshot.facts.cores_measured), sum(snapshot.facts.cores_used)
    busy = f", {number(100 * used / measured)}\u00a0% used" if measured else ""
    return _tile(
        "cpu-active",
        "CPU active rate",
        number(100 * held / total, 1) if total else None,
        "%",
        f"{number(held)} of {number(total)} cores{busy}" if total else "no node has joined",
        explained="CPU cores that a job holds now, of all cores; and how busy the held ones are (CPU utilisation), as their "
        "nodes measured it in the last 30 s.",
        spark=_spark(points, _share("cpu_active_rate"), high=100),
    )


def _utilisation(snapshot: Snapshot, points: Sequence[Point]) -> dict[str, Any]:
    facts = snapshot.facts
    uses = [use for use, held in zip(facts.uses, facts.held, strict=True) if held]
    measured = [use for use in uses if use is not None]
    mean = sum(measured) / len(measured) if measured else None
    return _tile(
        "gpu-use",
        "GPU utilisation",
        None if mean is None else number(mean, 1),
        "%",
        f"mean of the {number(len(measured))} active" if measured else f"{number(len(uses))} active, none measured",
        explained="How busy the allocated GPUs are, as their nodes measured it in the last 30 s.",
        spark=_spark(points, lambda metrics: metrics.get("utilisation"), high=100),
    )


def _queue(snapshot: Snapshot, points: Sequence[Point]) -> dict[str, Any]:
    jobs, gpus, oldest = snapshot.queue.jobs, snapshot.queue.gpus, snapshot.queue.oldest_s
    parts = [f"{number(gpus)} GPU{'s' if gpus != 1 else ''}"] if gpus else []
    parts += [f"oldest {duration(oldest)}"] if oldest is not None else []
    aside = snapshot.queue.set_aside.total()
    parts += [f"{number(aside)} set aside"] if aside else []
    return _tile(
        "queue",
        "Queue",
        number(jobs),
        "job" if jobs == 1 else "jobs",
        "; ".join(parts) or "nobody waits",
        explained="The eligible waiting jobs (each task of an array counts as one), and the sum of their smallest sizes in GPUs. "
        "A quota, a dependency or its own description can keep a job back: it is set aside. Held jobs do not wait.",
        spark=_spark(points, lambda metrics: metrics.get("queue_length"), high=None),
    )


def _raqlr(hours: float, course: Sequence[tuple[float | None, int]], highest: float) -> dict[str, Any]:
    value, ended = course[-1]
    return _tile(
        "raqlr",
        "RAQLR",
        None if value is None else number(value, 2),
        None,
        f"h = {hours:g} h, m = {ended}",
        explained="Recent average queueing latency ratio: waiting time divided by run time, averaged over the m jobs that "
        "ended in the last h hours (the operator's knob raqlr_hours, whatever time the page shows). An array counts as one job, "
        "with the mean of its tasks.",
        spark=_spark_of([each for each, _ in course], high=highest),
    )


def _live_ratio(snapshot: Snapshot, points: Sequence[Point], highest: float) -> dict[str, Any]:
    mean, largest = snapshot.queue.ratio_mean, snapshot.queue.ratio_max
    note = f"{number(snapshot.queue.jobs)} eligible" + ("" if largest is None else f", max {number(largest, 2)}")
    return _tile(
        "live-lr",
        "Live LR, waiting",
        None if mean is None else number(mean, 2),
        None,
        note,
        explained="The latency ratio so far of the eligible jobs that still wait. When nothing starts or ends, it rises, "
        "while RAQLR stays as it was.",
        spark=_spark(points, lambda metrics: metrics.get("live_lr_mean"), high=highest, tone="wait"),
    )


def _fragments(snapshot: Snapshot, points: Sequence[Point]) -> dict[str, Any]:
    metrics = points[-1].metrics if points else {}
    total = fragments_of(metrics)
    rate = metrics.get("fragment_rate")
    note = "none now"
    if total:
        kinds = {"cores": "no cores", "scattered": "scattered", "kept": "kept for a job"}
        counts = [(metrics.get(f"fragments_{kind}"), words) for kind, words in kinds.items()]
        note = ", ".join(f"{count} {words}" for count, words in counts if count)
    elif total is None:
        note = "no planning in this time"
    mean = fragments_of(snapshot.last_round.metrics) if snapshot.last_round else None
    if mean is not None:
        note = f"{note}; {number(mean, 1)} last round"
    return _tile(
        "fragments",
        "Fragments",
        None if total is None else number(total),
        None if rate is None else f"{number(100 * rate, 1)} %",
        note,
        explained="Idle GPUs while an eligible job waits: their node has too few idle cores, they are scattered, or they are "
        "kept for another job until it starts there (the cluster page says which, and until when). "
        "A round's figure is its plannings' mean, weighted by how long each one's held.",
        spark=_spark(points[::-2][::-1], fragments_of, high=None, kind="bars", tone="wait"),
    )
