"""Figures of several jobs on one pair of axes: curves over steps, measures over the time since each began."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from portal.foundation.errors import NotFound
from portal.pages.dashboard.artefacts.curves import SCALES, SMOOTHINGS, choices_of, curves_of, smoothed_of
from portal.pages.dashboard.artefacts.page import PAGE_PLOTS, REFRESH_S
from portal.pages.dashboard.jobs.figures import job_figure_make
from portal.pages.dashboard.parts import lines
from portal.work.jobs.models import Attempt
from portal.work.jobs.states import LIVE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from django.db.models import QuerySet

    from portal.pages.dashboard.jobs.compare.chosen import Chosen
    from portal.pages.dashboard.parts.context import LegendItem, PlotContext
    from portal.work.jobs.models import Job

TOKENS = ("plot-1", "plot-2", "plot-3", "plot-4")
MEASURED = {
    "speed": ("Throughput", "samples/s of each attempt, its mean"),
    "gpu": ("GPU use, %", "mean of its GPUs"),
    "cores": ("CPU cores", "used"),
    "memory": ("Memory, GiB", "of its processes"),
}
TRACES = {"gpu": "mean", "cores": "used", "memory": "used"}
ATTEMPTS_MOST = 200
LONG_MIN = 180
Line = tuple[list[float], list[float | None]]


# ---- what the page says of them ----------------------------------------------------------------------------------------


def legend_of(jobs: Sequence[Job]) -> list[LegendItem]:
    return [{"label": f"#{job.number}", "token": token} for job, token in zip(jobs, TOKENS, strict=False)]


def curves_make(chosen: Chosen) -> dict[str, Any] | None:
    """Return the plots of all curves, those of several jobs first; None where no job wrote any."""
    told = [curves_of(job) for job in chosen.jobs]
    series = [each["series"] if each else {} for each in told]
    names = list(dict.fromkeys(name for own in series for name in own))
    names.sort(key=lambda name: -sum(name in own for own in series))  # stable: else what people look at first
    if not names:
        return None
    return {
        "plots": [_plot(chosen, "curve", name, _ends(chosen, series, name), curve=name) for name in names[:PAGE_PLOTS]],
        "scales": choices_of(chosen.scale, SCALES, lambda to: replace(chosen, scale=to).url()),
        "smoothings": choices_of(chosen.smooth, SMOOTHINGS, lambda to: replace(chosen, smooth=to).url()),
        "axes": [],
        "notes": [
            f"#{job.number}: {note}"
            for job, each in zip(chosen.jobs, told, strict=True)
            for note in (each or {}).get("notes", [])
        ],
        "more": max(0, len(names) - PAGE_PLOTS),
    }


def _ends(chosen: Chosen, series: Sequence[dict[str, Any]], name: str) -> str:
    """Say the last value of each job's curve: "#41 0.312, #57 0.287"."""
    known = [
        (job, [v for v in own[name][1] if v is not None])
        for job, own in zip(chosen.jobs, series, strict=True)
        if name in own
    ]
    return "ends at " + ", ".join(
        f"#{job.number} {values[-1]:.4g}" if values else f"#{job.number} nothing" for job, values in known
    )


def measured_make(chosen: Chosen) -> list[PlotContext]:
    """Return the plots of measures while they ran; none where no job has run."""
    if not any(job.started_at for job in chosen.jobs):
        return []
    shown = {"cores", "memory"} | ({"gpu"} if any(job.gpus != [0] for job in chosen.jobs) else set())
    if _timed(chosen.jobs).exists():
        shown.add("speed")
    return [_plot(chosen, name, *words) for name, words in MEASURED.items() if name in shown]


def _timed(jobs: Sequence[Job]) -> QuerySet[Attempt]:
    return Attempt.objects.runs().filter(job__in=jobs, started_at__isnull=False, speed__seconds__gt=0)


def _plot(chosen: Chosen, figure: str, title: str, note: str, *, curve: str = "") -> PlotContext:
    plot: PlotContext = {
        "name": title,
        "title": title,
        "note": note,
        "url": chosen.url(figure, curve=curve),
        "height_px": 180,
        "topics": "",  # figures of ended jobs stay as they are, and others are drawn anew by the clock
    }
    return plot | {"refresh_s": REFRESH_S} if any(job.state in LIVE for job in chosen.jobs) else plot


# ---- figures -----------------------------------------------------------------------------------------------------------


def compared_figure(chosen: Chosen, name: str, curve: str) -> dict[str, Any]:
    """Return a drawing (see `parts.lines`); `curve`: the name of one. Raises NotFound where no job has it."""
    if name == "curve":
        found = [_curve(job, curve, float(chosen.smooth)) for job in chosen.jobs]
        if not any(found):
            raise NotFound("curve")
        return _figure(chosen, found, logarithmic=chosen.scale == "log", unit="")
    if name not in MEASURED:
        raise NotFound("figure")
    found = [_speed(job) if name == "speed" else _measured(job, name) for job in chosen.jobs]
    longest = max((x[-1] for x, _ in filter(None, found) if x), default=0.0)
    if longest > LONG_MIN:
        found = [line and ([x / 60 for x in line[0]], line[1]) for line in found]
    return _figure(chosen, found, logarithmic=False, unit="h" if longest > LONG_MIN else "min")


def _curve(job: Job, name: str, smooth: float) -> Line | None:
    found = (curves_of(job) or {}).get("series", {}).get(name)
    if found is None:
        return None
    steps, values = found
    return steps, smoothed_of(values, smooth) if smooth else values


def _minutes(job: Job, at: datetime) -> float:
    return float((at - job.started_at).total_seconds() / 60)


def _speed(job: Job) -> Line | None:
    """Return each attempt's mean speed as a level over the time that it ran."""
    x: list[float] = []
    y: list[float | None] = []
    for attempt in reversed(_timed([job]).select_related("speed").order_by("-epoch")[:ATTEMPTS_MOST]):
        start, end = _minutes(job, attempt.started_at), _minutes(job, attempt.ended_at or timezone.now())
        x += [start, end, end]
        y += [attempt.speed.samples_per_s, attempt.speed.samples_per_s, None]
    return (x, y) if x else None


def _measured(job: Job, name: str) -> Line | None:
    """Return the curve of the job's own page, over the minutes since its first start."""
    figure = job_figure_make(job=job, name=name) if job.started_at else None
    found = next((each for each in (figure or {"lines": []})["lines"] if each["name"] == TRACES[name]), None)
    if found is None or not found["x"]:
        return None
    began = job.started_at.timestamp()
    return [(at - began) / 60 for at in found["x"]], found["y"]


def _figure(chosen: Chosen, found: Sequence[Line | None], *, logarithmic: bool, unit: str) -> dict[str, Any]:
    drawn = [
        lines.line(f"#{job.number}", token, *line, logarithmic=logarithmic)
        for job, line, token in zip(chosen.jobs, found, TOKENS, strict=False)
        if line
    ]
    y: dict[str, Any] = {"log": logarithmic} | ({"low": 0} if unit else {})
    return {"x": {"kind": "since", "unit": unit} if unit else {"kind": "step"}, "y": y, "lines": drawn, "right_px": 24}
