"""A job's speed, as it measured it itself and as it was predicted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.pages.dashboard.parts.formatting import count_of, number, share
from portal.pages.dashboard.parts.neighbours import beside_words, place_of
from portal.planning.estimation.selectors import progress_of
from portal.work.jobs.states import FINAL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from portal.pages.dashboard.parts.context import Fact
    from portal.planning.estimation.models import AttemptSpeed, JobProgress
    from portal.work.jobs.models import Attempt, Job

AS_EXPECTED = 0.03
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
    return {"facts": facts, "rows": rows, "empty": empty, "words": _speed_words(rows)}


def _speed_words(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the closed line: the speed of the last run that measured one, against what was expected."""
    row = next((each for each in rows if each["measured"]), None)
    if row is None:
        return "the job records none"
    said = f"{number(row['measured'])} samples/s on {count_of(row['gpus'], 'GPU')}"
    off = row["deviation"]
    if off is None:
        return said
    return f"{said}, {'as expected' if abs(off) < AS_EXPECTED else f'{share(abs(off))} {_side(off)} what was expected'}"


def _side(off: float) -> str:
    return "above" if off > 0 else "below"


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
