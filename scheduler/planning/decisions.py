"""One decision for each job of a planning, with its reason and figures: the queue's, then those set aside, then the unsound."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np

from scheduler.explaining.figures import Why, placed
from scheduler.model import Decision, Job, Queue, Ranked, Reason, Result
from scheduler.planning.decided import INELIGIBLE, Decided

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from scheduler.errors import InvalidJob
    from scheduler.explaining.detail import Details
    from scheduler.explaining.why import Hindsight
    from scheduler.fairness.lrf import Age
    from scheduler.placement.ledger import Ledger


def decide_queue(decided: Decided, final: Ledger, hindsight: Hindsight, details: Details) -> list[Decision]:
    """The queue's, in its order. `final`: the ledger after the plan. Equal jobs of a long queue are answered together."""
    queue = decided.line.queue
    if not isinstance(queue, Queue) or not queue or queue[-1].rank != len(queue):
        return _decide_each(queue, decided, final, hindsight, details)
    draft = decided.outcome.draft
    measuring = decided.measuring
    others = {*draft.chosen, *draft.invalid, *measuring.profiles.waiting, *measuring.sharing.waiting}
    number, whys = hindsight.in_common(queue, others)
    together = _decide_together(queue, number, whys, decided, details)
    apart = [queue[place] for place in np.flatnonzero(number < 0).tolist()]
    single = iter(_decide_each(apart, decided, final, hindsight, details))
    return [next(together) if each else next(single) for each in (number >= 0).tolist()]


def _decide_together(
    queue: Queue, number: np.ndarray, whys: Sequence[Why], decided: Decided, details: Details
) -> Iterator[Decision]:
    """The decisions of `_decide_each` for equal jobs, by the number of their reason; -1 = not here."""
    standing_of, at = decided.outcome.standings.of_kind, np.flatnonzero(number >= 0)
    standings = {kind: standing_of(head.job, inside=False) for kind, head in queue.heads.items()}
    eligible = [why.reason not in INELIGIBLE for why in whys]
    which, ranked = number[at].tolist(), [queue[place] for place in at.tolist()]
    return map(
        Decision,
        queue.ids[at].tolist(),
        repeat(Result.WAITING),
        [whys[each].reason for each in which],
        [whys[each].figures for each in which],
        (at + 1).tolist(),
        [each.latency_ratio for each in ranked],
        queue.columns["waits_s"][at].tolist(),
        [each.age_s for each in ranked],
        [each.age_source for each in ranked],
        repeat(False),
        [eligible[each] for each in which],
        repeat(None),
        map(standings.__getitem__, queue.kinds[at].tolist()),
        repeat(details),
    )


def _decide_each(
    queue: Sequence[Ranked], decided: Decided, final: Ledger, hindsight: Hindsight, details: Details
) -> list[Decision]:
    draft, standings = decided.outcome.draft, decided.outcome.standings
    measured_of, sharing = decided.measuring.profiles.waiting, decided.measuring.sharing
    chosen_of, invalid, window, standing_of = draft.chosen, draft.invalid, standings.window, standings.of
    decisions: list[Decision] = []
    for ranked in queue:
        job = ranked.job
        job_id = job.id
        result, placement, eligible = Result.WAITING, None, False
        if (chosen := chosen_of.get(job_id)) is not None:
            result, placement = Result.PLACED, chosen.placement
            reason, figures = None, placed(chosen, final) | sharing.told.get(job_id, {})
        elif (error := invalid.get(job_id)) is not None:
            result, reason, figures = Result.INVALID, Reason.INVALID, {"detail": error.detail}
        elif (measured := measured_of.get(job_id)) is not None:
            reason, figures, eligible = Reason.PROFILING, measured, True
        else:
            why = sharing.waiting.get(job_id) or hindsight.why_waiting(ranked)
            reason, figures, eligible = why.reason, why.figures, why.reason not in INELIGIBLE
        queued = (ranked.rank, ranked.latency_ratio, job.wait_s, ranked.age_s, ranked.age_source, job_id in window)
        standing = standing_of(ranked)
        decisions.append(Decision(job_id, result, reason, figures, *queued, eligible, placement, standing, details))
    return decisions


def decide_aside(jobs: Sequence[Job], aside: Mapping[int, Why], age_for: Callable[[Job], Age]) -> list[Decision]:
    decisions: list[Decision] = []
    for job in jobs:
        if (why := aside.get(job.id)) is None:
            continue
        age = age_for(job)
        decisions.append(
            Decision(
                job=job.id,
                result=Result.WAITING,
                reason=why.reason,
                figures=why.figures,
                latency_ratio=job.wait_s / age.age_s,
                wait_s=job.wait_s,
                age_s=age.age_s,
                age_source=age.source,
                eligible=why.reason not in INELIGIBLE,
            )
        )
    return decisions


def decide_invalid(error: InvalidJob, job: Job) -> Decision:
    # None of the job's own numbers are repeated: one of them may be the fault, and a NaN is no JSON.
    return Decision(job.id, Result.INVALID, Reason.INVALID, {"detail": error.detail})
