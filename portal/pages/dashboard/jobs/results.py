"""The card of a job's results, its curves, and the strip of figures of a job that is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.pages.dashboard.artefacts.curves import curves_of
from portal.pages.dashboard.artefacts.page import ArtefactQuery, all_url, curve_plot
from portal.pages.dashboard.artefacts.tree import file_row, page_url
from portal.pages.dashboard.jobs.metrics import figures_of, ordered, value_words
from portal.pages.dashboard.parts.formatting import count_of, duration, number, percent, size
from portal.work.artefacts.selectors import artefacts_of, artefacts_summary
from portal.work.jobs.states import LIVE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from portal.work.jobs.models import Attempt, Job

FILES, PLOTS, METRICS = 4, 2, 2
HOUR_S = 3600
LAZY = 0.5
"""Below this part its GPUs were mostly not busy, which the strip shows."""
EMPTY = "Files that the command writes to $BERTH_ARTEFACTS appear here."
EMPTY_REFUSED = "No file was kept. Browse says which were not, and why."


def results_make(job: Job) -> dict[str, Any] | None:
    """Fill the card, the curves and their values; None where nothing came and nothing will come."""
    found = artefacts_summary(job)
    nothing = not (found.files or found.notes) and job.state not in LIVE
    if found.state == "none" or job.array_size or nothing:
        return None
    rows = list(artefacts_of(job).filter(size__isnull=False).order_by("-modified_ns", "path")[:FILES])
    told = curves_of(job) if rows else None
    series = told["series"] if told else {}
    return {
        "files": found.files,
        "size_bytes": found.counted,
        "kept_until": found.kept_until.isoformat() if found.kept_until else None,
        "rows": [file_row(job, row) for row in rows],
        "plots": [_plot(job, name, series[name]) for name in ordered(series)[:PLOTS]],
        "curves": len(series),
        "metrics": figures_of(series, METRICS),
        "url": page_url(job),
        "all_url": all_url(job, "") if rows else None,
        "empty": EMPTY_REFUSED if found.notes else EMPTY,
        "not_kept": len(found.notes) + found.notes_more,
    }


def _plot(job: Job, name: str, series: Sequence[Any]) -> dict[str, Any]:
    return {**curve_plot(job, name, series, ArtefactQuery()), "note": "by step"}


def strip_make(job: Job, attempts: Sequence[Attempt], results: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Fill the four figures of a job that is done: its last or best metrics, else how long it took."""
    cells = [
        {
            "label": told.name,
            "value": value_words(told.value),
            "note": f"{'best' if told.best else 'last'}, step {number(told.step)}",
        }
        for told in (results["metrics"] if results else ())
    ]
    runs = len(attempts)
    took = {"label": "Ran", "value": duration(job.ran_s), "note": f"in {runs} runs" if runs > 1 else ""}
    cells = [*cells, took, {"label": "Waited", "value": duration(job.waited_s), "note": ""}][:METRICS]
    cells.append(
        _busy(attempts)
        or {"label": "Cores", "value": number(max((a.cores for a in attempts), default=0)), "note": "held"}
    )
    cells.append(_kept(results))
    return cells


def _busy(attempts: Sequence[Attempt]) -> dict[str, Any] | None:
    """Return how much of its GPUs' time was busy; None for a CPU job. Only runs that were measured."""
    hours = [(each.gpus * _ran_s(each) / HOUR_S, each.gpu_busy) for each in attempts if each.gpus]
    if not hours:
        return None
    known = [(held, busy) for held, busy in hours if busy is not None and held]
    if not known:
        return {"label": "GPUs busy", "value": "\u2013", "note": "not measured yet"}
    held, busy = sum(each for each, _ in known), sum(each * part for each, part in known)
    words = f"{busy:.2g} of {held:.2g} GPU hours" if held >= 1 else f"{60 * busy:.2g} of {60 * held:.2g} GPU minutes"
    return {"label": "GPUs busy", "value": percent(100 * busy / held), "note": words, "lazy": busy < LAZY * held}


def _ran_s(attempt: Attempt) -> float:
    if attempt.started_at is None or attempt.ended_at is None:
        return 0.0
    return (attempt.ended_at - attempt.started_at).total_seconds()


def _kept(results: dict[str, Any] | None) -> dict[str, Any]:
    if results is None or not results["files"]:
        return {"label": "Results", "value": "none", "note": "nothing was written"}
    value, _, unit = size(results["size_bytes"]).partition("\u00a0")
    return {"label": "Results", "value": value, "unit": unit, "note": "kept", "until": results["kept_until"]}


def use_words(attempts: Sequence[Attempt]) -> str:
    """Return the closed line of the plots of its use."""
    busy = _busy(attempts)
    cores = f"{count_of(max((each.cores for each in attempts), default=0), 'core')} held"
    return f"GPUs busy {busy['value']}, {busy['note']}, {cores}" if busy and busy.get("lazy") is not None else cores
