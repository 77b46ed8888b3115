"""A job's speed, as it measured it itself and as it was predicted, and how its cores were tuned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.pages.dashboard.parts.neighbours import beside_words, place_of
from portal.planning.estimation.selectors import progress_of
from portal.work.jobs.models import CoreSearch
from portal.work.jobs.states import FINAL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from portal.pages.dashboard.parts.context import Fact
    from portal.planning.estimation.models import AttemptSpeed, JobProgress
    from portal.work.jobs.models import Attempt, CoreStep, Job

SOURCES: Mapping[str, str] = {
    "entity": "measured on this node",
    "type": "measured on this GPU type",
    "theory": "modelled from profiled times",
    "theory-assumed": "modelled from profiled times, over links whose speed is assumed",
    "nodes": "measured over several nodes with other GPU counts",
    "sizes": "measured on this GPU type with other GPU counts",
    "assumed": "assumed: nothing was known of its speed",
}


def speed_make(job: Job, attempts: Sequence[Attempt]) -> dict[str, Any] | None:
    """`attempts` as `attempts_of` reads them, the last one first. None for a job that has not run, an array's parent, and a
    CPU job that records nothing.
    """
    if job.array_size or not any(attempt.started_at for attempt in attempts):
        return None
    speeds = [attempt.speed for attempt in attempts if hasattr(attempt, "speed")]
    if not speeds and list(job.gpus) == [0]:
        return None
    rows = [_row(attempt, attempt.speed) for attempt in attempts if hasattr(attempt, "speed")]
    empty = None
    if not rows:
        empty = (
            "It records no iterations, so its speed is assumed. The user's guide says how a job tells Berth its own."
        )
    facts = [*_progress(job, progress_of(job), speeds), *_queries(job, speeds), *_unsaved(speeds)]
    if dropped := sum(each.dropped for each in speeds):
        facts.append(
            _fact("Records dropped", f"{dropped:,}", None, "what it wrote into BERTH_RECORDS_DIR was no record")
        )
    return {"facts": facts, "rows": rows, "empty": empty}


def _row(attempt: Attempt, speed: AttemptSpeed) -> dict[str, Any]:
    measured = speed.samples_per_s
    predicted = speed.predicted_samples_per_s
    return {
        "number": attempt.epoch,
        "gpus": attempt.gpus,
        "measured": measured,
        "predicted": predicted,
        "source": SOURCES.get(speed.predicted_source, ""),
        "deviation": measured / predicted - 1 if measured and predicted else None,
        "iterations": speed.iterations,
        "lost": speed.samples_lost if attempt.ended_at else None,  # None too where it reported no checkpoint
    }


def _progress(job: Job, progress: JobProgress | None, speeds: Sequence[AttemptSpeed]) -> list[Fact]:
    if progress is None:
        return []
    done = f"{progress.samples_done:,.0f}"
    if progress.samples_total is None:
        return [_fact("Samples done", done, progress.at)]
    facts = [_fact("Done", f"{progress.fraction:.0%}", progress.at, f"{done} of {progress.samples_total:,.0f} samples")]
    latest = max(speeds, key=lambda speed: speed.at, default=None)
    if latest and latest.last_samples_per_s and job.state not in FINAL:
        left_s = max(0.0, progress.samples_total - progress.samples_done) / latest.last_samples_per_s
        facts.append(_fact("Left", _words(left_s), None, "at its present speed"))
    return facts


def _queries(job: Job, speeds: Sequence[AttemptSpeed]) -> list[Fact]:
    """How fast the last attempt answers, and beside whom; nothing for a job that serves none."""
    latest = max(speeds, key=lambda speed: speed.at, default=None)
    if latest is None or (found := latest.queries) is None:
        return []
    half, most = ("more than 10 s" if each is None else f"{each:.0f} ms" for each in (found.median_ms, found.p99_ms))
    place = place_of(job) if job.shareable and found.late else None
    names = beside_words(job, place) if place is not None else ""
    why = f"{found.late:,} took longer than they may" + (f"; beside it is {names}" if names else "")
    late = _fact("Late answers", f"{found.late_share:.2%}", None, why)
    return [_fact("Queries", f"{found.answered:,}", None, f"half of them within {half}, 99 % within {most}"), late]


def _unsaved(speeds: Sequence[AttemptSpeed]) -> list[Fact]:
    """The last attempt's work since its checkpoint, which its end costs; nothing without a checkpoint."""
    latest = max(speeds, key=lambda speed: speed.at, default=None)
    if latest is None or latest.samples_lost is None:
        return []
    note = "samples: all is saved"
    if latest.samples_lost:
        note = "samples" if latest.lost_s is None else f"samples, {_words(latest.lost_s)} of work"
    return [_fact("Not in a checkpoint", f"{latest.samples_lost:,.0f}", None, note)]


def _fact(label: str, value: str, at: datetime | None, note: str | None = None) -> Any:
    fact: dict[str, Any] = {"label": label, "value": value}
    if note or at:
        fact["note"] = note or f"at {at:%Y-%m-%dT%H:%MZ}"
    return fact


def _words(seconds: float) -> str:
    minutes = seconds / 60
    return f"{minutes / 60:.1f} h" if minutes >= 60 else f"{minutes:.0f} min" if minutes >= 1 else "under a minute"


OUTCOMES = {
    CoreSearch.Outcome.FOUND: "found best",
    CoreSearch.Outcome.LIMITED: "the best of what could be had",
    CoreSearch.Outcome.SWITCHED_OFF: "core tuning was switched off before it was over",
    CoreSearch.Outcome.UNANSWERED: "its node did not answer an order",
    CoreSearch.Outcome.ENDED: "the attempt ended before it was over",
}


def tuning_make(attempts: Sequence[Attempt]) -> dict[str, Any] | None:
    """Tell of the last attempt that has a search. `attempts` as `attempts_of` reads them."""
    tuned = next((attempt for attempt in attempts if hasattr(attempt, "core_search")), None)
    if tuned is None:
        return None
    search = tuned.core_search
    steps = list(search.steps.all())
    ended_well = search.outcome in {CoreSearch.Outcome.FOUND, CoreSearch.Outcome.LIMITED}
    result = int(search.state["best"]) if ended_well else None
    return {
        "attempt": tuned.epoch,
        "steps": [_step(step, result) for step in steps],
        "most": max((step.cores_per_gpu for step in steps), default=1),
        "fastest": max((step.samples_per_s or 0.0 for step in steps), default=0.0),
        "by_throughput": search.signal == CoreSearch.Signal.THROUGHPUT,
        "result": result,
        "words": _tuned_words(search, result),
    }


def _a_gpu(cores: int) -> str:
    return f"{cores} {'core' if cores == 1 else 'cores'} a GPU"


def _tuned_words(search: CoreSearch, result: int | None) -> str:
    if search.done_at is None:
        return f"{_a_gpu(search.state['cores'])} now; each number is tried for {search.step_s:g} s"
    outcome = OUTCOMES[CoreSearch.Outcome(search.outcome)]
    return f"{_a_gpu(result)}: {outcome}" if result is not None else outcome


def _step(step: CoreStep, result: int | None) -> dict[str, Any]:
    return {
        "number": step.number,
        "cores": step.cores_per_gpu,
        "utilisation": None if step.utilisation is None else 100 * step.utilisation,
        "samples_per_s": step.samples_per_s,
        "from_at": step.from_at.isoformat(),
        "kept": step.cores_per_gpu == result,
    }
