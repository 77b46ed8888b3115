"""The card of a running job: its expected end, how far it is, and its last figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils import timezone

from portal.pages.dashboard.artefacts.curves import curves_of
from portal.pages.dashboard.jobs.metrics import figures_of, is_lower_better, value_words
from portal.pages.dashboard.jobs.why import silent_words
from portal.pages.dashboard.parts.expected import ends_make
from portal.pages.dashboard.parts.formatting import duration, number
from portal.pages.dashboard.parts.neighbours import kept_note
from portal.planning.estimation.selectors import progress_of
from portal.planning.rounds.read.ends import NOBODY, expected_end, ran_s, source_words
from portal.work.jobs.states import LIVE, StopCause

if TYPE_CHECKING:
    from collections.abc import Sequence

    from portal.planning.estimation.models import JobProgress
    from portal.planning.rounds.read.ends import Expected
    from portal.work.jobs.models import Attempt, Job


FIGURES = 8


def over_make(job: Job, attempts: Sequence[Attempt]) -> dict[str, Any] | None:
    """Fill the card; None for a job that does not run. `attempts` as `attempts_of` reads them, the last first."""
    if job.state not in LIVE or not attempts:
        return None
    run, now = attempts[0], timezone.now()
    progress = progress_of(job)
    fraction = progress.fraction if progress is not None and progress.samples_total is not None else None
    end = expected_end(job, run, fraction, now) if run.started_at else None
    ends = ends_make(end)
    return {
        "at": ends and ends["about"],
        "range": ends if end and has_range(end) else None,
        "source": _source_words(end) if end else "",
        "since": run.started_at.isoformat() if run.started_at else None,
        **_done(job, progress, fraction, ran_s(job, run, now) if ends else None),
        "metric": _metric(job),
        "said": [words for words in (_changed(attempts), silent_words(run, now), kept_note(job=job)) if words],
    }


def has_range(end: Expected) -> bool:
    """Say whether its range has two ends, which are not shown as the same minute."""
    early, late = end.earliest_at, end.latest_at
    return early is not None and late is not None and f"{early:%H:%M}" != f"{late:%H:%M}"


def _done(job: Job, progress: JobProgress | None, fraction: float | None, ran: float | None) -> dict[str, Any]:
    """Return how much of it is done, in percent and in words: by its own word, else by its expected run time."""
    if fraction is not None and progress is not None and progress.samples_total is not None:
        epochs = job.brought.description.get("epochs")
        if isinstance(epochs, int) and epochs > 1:
            return {"percent": 100 * fraction, "of": f", epoch {min(epochs, int(fraction * epochs) + 1)} of {epochs}"}
        samples = f", {number(progress.samples_done)} of {number(progress.samples_total)} samples"
        return {"percent": 100 * fraction, "of": samples}
    if ran is None or not job.age_s:
        return {"percent": None, "of": ""}
    return {"percent": min(100.0, 100 * ran / job.age_s), "of": f" of the expected {duration(job.age_s)}"}


def _source_words(end: Expected) -> str:
    """Return where its end comes from; of a length that nobody knows, how long other runs took."""
    words = source_words(end)
    if end.median_at is not None or end.total_s is None:
        return words
    return f"{NOBODY}; {words.removeprefix('from ')} took {' to '.join(map(duration, end.total_s))}"


def _metric(job: Job) -> tuple[str, str] | None:
    """Return name and last value of the figure that says best how well it learns: its loss, where it has one."""
    series = (curves_of(job) or {}).get("series") or {}
    names = [told.name for told in figures_of(series, FIGURES)]
    name = next(filter(is_lower_better, names), names[0] if names else None)
    value = series[name][1][-1] if name is not None else None
    return None if name is None or value is None else (name, value_words(value))


def _changed(attempts: Sequence[Attempt]) -> str | None:
    """Say since when it has the GPUs that it has, where it once had others."""
    run, before = attempts[0], attempts[1] if len(attempts) > 1 else None
    if before is None or before.stop_cause != StopCause.RESIZE or run.started_at is None or before.gpus == run.gpus:
        return None
    gpus = f"{run.gpus} GPU{'' if run.gpus == 1 else 's'}"
    return f"It runs on {gpus} since {run.started_at:%Y-%m-%dT%H:%MZ}, before on {before.gpus}."
