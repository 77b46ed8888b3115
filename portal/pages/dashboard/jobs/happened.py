"""A job's life in plain sentences, the last first: its events, and its runs where an event is of one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from portal.pages.dashboard.parts.formatting import duration
from portal.pages.dashboard.parts.plain import ended, run_words
from portal.work.jobs.states import FINAL, JobState, StopCause, StopReason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from portal.work.jobs.models import Attempt, Job, JobEvent

MOST, FIRST = 30, 6
SAID_BY_NEXT = frozenset({"stop-ordered", "preempted", "requeued"})
"""Events of a run that was stopped to go on with other GPUs: the next run has its sentence."""
_PLANNING = re.compile(r",? (?:as of )?planning \d+(?=[.,;]|\Z)")
_RUN = re.compile(r"\battempt (\d+)", re.IGNORECASE)


def events_make(job: Job, attempts: Sequence[Attempt] = ()) -> list[dict[str, Any]]:
    """`attempts`: the job's runs as `attempts_of` reads them. One query."""
    runs = {attempt.epoch: attempt for attempt in attempts}
    return [
        {"at": event.at.isoformat(), "text": text}
        for event in job.events.order_by("-id")[:MOST]
        if (text := _sentence(job, event, runs))
    ]


def _sentence(job: Job, event: JobEvent, runs: Mapping[int, Attempt]) -> str | None:
    """Return the event in plain words; None where a later one says it too."""
    run = runs.get(event.epoch or 0)
    if run is not None and event.kind in SAID_BY_NEXT and _goes_on(run, runs):
        return None
    made = _OF_KIND.get(event.kind)
    return made(job, event, run, runs) if made else plain(event.text, several=_several(job, runs))


def _several(job: Job, runs: Mapping[int, Attempt]) -> bool:
    return len(runs) > 1 or job.state not in FINAL


def plain(text: str, *, several: bool = True) -> str:
    """Return an event's own text without the words of the scheduler. `several`: the job has more than one run."""
    said = _PLANNING.sub("", text)
    if not several:
        said = re.sub(r"\AAttempt 1 ended: ", "Ended: ", said)
    said = _RUN.sub(lambda found: run_words(int(found[1])), said)
    return said[:1].upper() + said[1:]


def _goes_on(run: Attempt, runs: Mapping[int, Attempt]) -> bool:
    later = runs.get(run.epoch + 1)
    return run.stop_cause in {StopCause.RESIZE, StopCause.MOVE} and later is not None and later.started_at is not None


def _submitted(job: Job, event: JobEvent, _run: Attempt | None, _runs: Mapping[int, Attempt]) -> str:
    by = event.actor_name
    return f"Submitted by {by}." if by and by != job.owner.username else "Submitted."


def _placed(_job: Job, event: JobEvent, run: Attempt | None, _runs: Mapping[int, Attempt]) -> str | None:
    return None if run is not None and run.started_at else plain(event.text).replace("Placed on", "Being started on")


def _started(job: Job, event: JobEvent, run: Attempt | None, runs: Mapping[int, Attempt]) -> str:
    if run is None:
        return plain(event.text)
    before = runs.get(run.epoch - 1)
    where = ", ".join(part.node.name for part in run.allocations.all())
    still = f" It stood still for {duration(run.restart_s)}." if run.restart_s is not None else ""
    if before is not None and before.stop_cause == StopCause.RESIZE and before.gpus != run.gpus:
        return f"{before.gpus} to {run.gpus} GPUs, on {where}.{still}"
    if before is not None:
        return f"{run_words(run.epoch).capitalize()} started on {where}.{still}"
    return f"Started on {where}, after {duration((event.at - job.submitted_at).total_seconds())}."


def _ended(job: Job, event: JobEvent, run: Attempt | None, runs: Mapping[int, Attempt]) -> str:
    """Say how a run ended, then the words of its node."""
    if run is None or not event.text.startswith(f"Attempt {run.epoch} ended"):
        return plain(event.text, several=_several(job, runs))
    which = f"{run_words(run.epoch).capitalize()} ended" if len(runs) > 1 else "Ended"
    if run.exit_code is not None and run.state in {JobState.COMPLETED, JobState.FAILED} and not run.end_detail:
        return f"{which}: exit code {run.exit_code}."
    detail = run.end_detail.removesuffix(".")
    tells_all = detail and (run.state == JobState.FAILED or run.stop_reason == StopReason.IDLE)
    how = "" if tells_all else ended(run.state, run.exit_code, run.signal)
    return f"{which}: {', '.join(filter(None, [how, detail]))}."


def _tuned(_job: Job, event: JobEvent, _run: Attempt | None, _runs: Mapping[int, Attempt]) -> str:
    return event.text.partition(" after ")[0].rstrip(".") + "."


_OF_KIND: Mapping[str, Callable[[Job, JobEvent, Attempt | None, Mapping[int, Attempt]], str | None]] = {
    "submitted": _submitted,
    "placed": _placed,
    "started": _started,
    "tuned": _tuned,
    **{
        state.lower(): _ended for state in ("COMPLETED", "FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "PREEMPTED")
    },
}
