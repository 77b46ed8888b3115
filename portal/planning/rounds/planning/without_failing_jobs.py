"""A planning that fails over a waiting job, or never ends, is made without it: the others do not wait for our mistake.

The scheduler is pure, so it may be asked again: first from nothing, for the memory may be wrong; then with ever fewer
jobs, until it is clear over which it fails. That one is set aside for a while, says so, and is then tried again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from portal.planning.rounds.endless import Endless
from scheduler.model import Clock, ClusterState, Job, Plan, Reason

log = logging.getLogger(__name__)

MOST = 3
"""The most jobs that one planning sets aside."""
SEARCH_S = 240.0
"""Processor time of the search: on a busy machine it would else begin again and again, and never come to its end."""
ASIDE_S, ENDLESS_ASIDE_S = 600.0, 3600.0
"""A search among plannings of which some never end takes minutes, so it is not made often."""
DETAIL = "the planner fails over it, which is a fault of Berth; tell the operator"
UNPLANNED = "the last planning could not plan it, and its page says why"
NEAR = "the planner fails over a job like it, which is a fault of Berth; the next planning tries again"

_until_s: dict[int, float] = {}
"""The jobs that this process has set aside, and until when (monotonic)."""


def set_failing_aside(jobs: list[Job]) -> list[Job]:
    """Return the queue with the jobs set aside over which plannings of this process failed."""
    now_s = time.monotonic()
    for job_id in [each for each, until_s in _until_s.items() if until_s < now_s]:
        del _until_s[job_id]
    return _aside(jobs, _until_s) if _until_s else jobs


def set_invalid_aside(state: ClusterState, ids: Collection[int]) -> ClusterState:
    """Return the state with those of these jobs set aside that would wait for their turn."""
    eligible = {job.id for job in state.jobs if job.eligible and job.id in ids} if ids else ids
    return _without(state, eligible, UNPLANNED) if eligible else state


def plan_without_failing_jobs(
    state: ClusterState, plan: Callable[[ClusterState, bool], Plan], clock: Clock
) -> tuple[ClusterState, Plan]:
    """Return a plan, and the state that it was made of. `plan` is called with a state, and whether to plan from nothing.

    `clock` goes by this thread's processor time. Where more jobs than MOST are to be found, or SEARCH_S are over, it is a plan
    of only the oldest jobs, as many as are known to be well. Raises as `plan` does when no waiting job is the reason.
    """
    try:
        return state, plan(state, False)
    except MemoryError:
        raise
    except Exception:
        log.exception("the planner failed; looking for a job that it fails over")
    until_s = clock() + SEARCH_S
    for left in reversed(range(MOST + 1)):
        try:
            return state, plan(state, True)
        except Exception as error:
            log.exception("the planner failed from nothing, too")
            aside_s = ENDLESS_ASIDE_S if isinstance(error, Endless) else ASIDE_S
            waiting = [job.id for job in state.jobs if job.eligible]
            well, ill = _bounds(state, waiting, plan, clock, until_s)
            if ill == 0:
                raise
        found = ill - well == 1
        if found:
            log.error("the planner fails over job %d: it is set aside for %.0f s", waiting[well], aside_s)
            _until_s[waiting[well]] = time.monotonic() + aside_s
            state = _without(state, {waiting[well]})
        if not found or not left:
            break
    later = {job_id for job_id in waiting[well:] if job_id not in _until_s}
    log.error("the planner may fail over more jobs: %d are left to the next planning", len(later))
    state = _without(state, later, NEAR)
    return state, plan(state, True)


def _aside(jobs: Sequence[Job], ids: Collection[int], detail: str = DETAIL) -> list[Job]:
    """Set these jobs aside, with nothing left in them that could be reckoned with."""
    return [
        replace(
            job,
            eligible=False,
            ineligible_reason=Reason.INVALID,
            ineligible_figures={"detail": detail, "fault": True},
            model_label=None,
            done_fraction=0.0,
            expected_duration_s=None,
            limit_s=None,
            total_samples=None,
            attained_gpu_s=0.0,
            instrumented=False,
            profiled_since_s=None,
            promise=None,
            part=None,
        )
        if job.id in ids
        else job
        for job in jobs
    ]


def _without(state: ClusterState, ids: Collection[int], detail: str = DETAIL) -> ClusterState:
    return replace(state, jobs=_aside(state.jobs, ids, detail))


def _bounds(
    state: ClusterState, waiting: list[int], plan: Callable[[ClusterState, bool], Plan], clock: Clock, until_s: float
) -> tuple[int, int]:
    """Return (well, ill): the planner fails with the first `ill` of the waiting jobs, and not with the first `well`.

    One more where there was time. (0, 0): it fails without any of them, too.
    """

    def fails(count: int) -> bool:
        try:
            plan(_without(state, set(waiting[count:])), True)
        except Exception:  # noqa: BLE001 - any failure, and it is logged above
            return True
        return False

    if not waiting or fails(0):
        return 0, 0
    well, ill = 0, len(waiting)
    while ill - well > 1 and clock() < until_s:
        middle = (well + ill) // 2
        well, ill = (well, middle) if fails(middle) else (middle, ill)
    return well, ill
