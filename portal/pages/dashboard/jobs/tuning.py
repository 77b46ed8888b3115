"""How a job's cores were tuned: each number that was tried, how busy its GPUs were or how fast it said it was, and the result."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from portal.work.jobs.models import CoreSearch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from portal.work.jobs.models import Attempt, CoreStep

OUTCOMES = {
    CoreSearch.Outcome.FOUND: "found best",
    CoreSearch.Outcome.LIMITED: "the best of what could be had",
    CoreSearch.Outcome.SWITCHED_OFF: "core tuning was switched off before it was over",
    CoreSearch.Outcome.UNANSWERED: "its node did not answer an order",
    CoreSearch.Outcome.ENDED: "the attempt ended before it was over",
}


class CoreStepRow(TypedDict):
    """One number of cores a GPU. `utilisation` in per cent, `samples_per_s` of the whole job; None = not measured."""

    number: int
    cores: int
    utilisation: float | None
    samples_per_s: float | None
    from_at: str
    kept: bool  # the result


class TuningContext(TypedDict):
    """The search of an attempt. `result`: cores a GPU, None while it goes on or where it came to none."""

    attempt: int
    steps: list[CoreStepRow]
    most: int  # cores a GPU, of all steps
    fastest: float  # samples a second, of all steps
    by_throughput: bool
    result: int | None
    words: str


def tuning_make(attempts: Sequence[Attempt]) -> TuningContext | None:
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
        "steps": [_row(step, result) for step in steps],
        "most": max((step.cores_per_gpu for step in steps), default=1),
        "fastest": max((step.samples_per_s or 0.0 for step in steps), default=0.0),
        "by_throughput": search.signal == CoreSearch.Signal.THROUGHPUT,
        "result": result,
        "words": _words(search, result),
    }


def _a_gpu(cores: int) -> str:
    return f"{cores} {'core' if cores == 1 else 'cores'} a GPU"


def _words(search: CoreSearch, result: int | None) -> str:
    if search.done_at is None:
        return f"{_a_gpu(search.state['cores'])} now; each number is tried for {search.step_s:g} s"
    outcome = OUTCOMES[CoreSearch.Outcome(search.outcome)]
    return f"{_a_gpu(result)}: {outcome}" if result is not None else outcome


def _row(step: CoreStep, result: int | None) -> CoreStepRow:
    return {
        "number": step.number,
        "cores": step.cores_per_gpu,
        "utilisation": None if step.utilisation is None else 100 * step.utilisation,
        "samples_per_s": step.samples_per_s,
        "from_at": step.from_at.isoformat(),
        "kept": step.cores_per_gpu == result,
    }
