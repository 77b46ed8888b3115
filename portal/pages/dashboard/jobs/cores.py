"""A job's cores on its page: the number asked, the number at its start, and the steps of tuning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.planning.rounds.read.cores import begins_words, starts_now
from portal.work.jobs.models import CoreSearch
from portal.work.jobs.states import FINAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from portal.work.jobs.models import Attempt, CoreStep, Job

OUTCOMES = {
    CoreSearch.Outcome.FOUND: "found best",
    CoreSearch.Outcome.LIMITED: "the best of what could be had",
    CoreSearch.Outcome.SWITCHED_OFF: "core tuning was switched off before it was over",
    CoreSearch.Outcome.UNANSWERED: "its node did not answer an order",
    CoreSearch.Outcome.ENDED: "the attempt ended before it was over",
}


def cores_told(job: Job, attempts: Sequence[Attempt]) -> str | None:
    """Say what a GPU job asked, the cores a GPU that it begins or began with, and the result of tuning; None: as it asked.

    `attempts` as `attempts_of` reads them. Two queries for a job that has not run.
    """
    if job.gpus == [0] or job.cores_exactly:
        return None
    last = next((attempt for attempt in attempts if attempt.started_at), None)
    if last is None:  # of an array each task says it
        return None if job.array_size or job.state in FINAL else begins_words(job, starts_now([job.owner_id]))
    search = getattr(last, "core_search", None)
    asked = f"asked {job.cores_per_gpu} a GPU; " if job.cores_per_gpu else ""
    if search is None:
        began = last.cores // last.gpus
        return f"{asked}it began with {began}" if asked and began != job.cores_per_gpu else None
    result = _result(search)
    return f"{asked}it began with {_began(search)}, {f'tuned to {result}' if result else 'and is tuned'}"


def _began(search: CoreSearch) -> int:
    first = next(iter(search.steps.all()), None)
    return int(search.state["cores"]) if first is None else first.cores_per_gpu


def _result(search: CoreSearch) -> int | None:
    ended_well = search.outcome in {CoreSearch.Outcome.FOUND, CoreSearch.Outcome.LIMITED}
    return int(search.state["best"]) if ended_well else None


def tuning_make(job: Job, attempts: Sequence[Attempt]) -> dict[str, Any] | None:
    """Tell of the last attempt that has a search. `attempts` as `attempts_of` reads them."""
    tuned = next((attempt for attempt in attempts if hasattr(attempt, "core_search")), None)
    if tuned is None:
        return None
    search = tuned.core_search
    steps = list(search.steps.all())
    result = _result(search)
    return {
        "attempt": tuned.epoch,
        "steps": [_step(step, result) for step in steps],
        "most": max((step.cores_per_gpu for step in steps), default=1),
        "fastest": max((step.samples_per_s or 0.0 for step in steps), default=0.0),
        "by_throughput": search.signal == CoreSearch.Signal.THROUGHPUT,
        "result": result,
        "words": f"{_asked_words(job)}began with {_began(search)}; {_tuned_words(search, result)}",
    }


def _a_gpu(cores: int) -> str:
    return f"{cores} {'core' if cores == 1 else 'cores'} a GPU"


def _asked_words(job: Job) -> str:
    return f"asked {job.cores_per_gpu}, " if job.cores_per_gpu else ""


def _tuned_words(search: CoreSearch, result: int | None) -> str:
    if search.done_at is None:
        short = search.state["way"] == "short"
        then = "it gets more when some are idle" if short else f"each number is tried for {search.step_s:g} s"
        return f"{_a_gpu(search.state['cores'])} now; {then}"
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
