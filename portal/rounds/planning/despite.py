"""A planning that fails over a waiting job is made without it: the others do not wait for our mistake.

The scheduler is pure, so it may be asked again: first from nothing, for what was remembered may be wrong; then with ever fewer
jobs, until it is clear over which it fails. That one is set aside for a while, says so, and is then tried again.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from scheduler.model import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from scheduler.model import Clock, ClusterState, Job, Plan

log = logging.getLogger(__name__)

MOST = 3
"""So many jobs are looked for in one planning."""
SEARCH_S, ASIDE_S = 120.0, 600.0
DETAIL = "the planner fails over it, which is a fault of Berth; tell the operator"

_until_s: dict[int, float] = {}
"""The jobs that this process has set aside, and until when (monotonic)."""


def culprits_aside(jobs: list[Job]) -> list[Job]:
    """Return the queue with the jobs set aside over which plannings of this process failed."""
    now_s = time.monotonic()
    for job_id in [each for each, until_s in _until_s.items() if until_s < now_s]:
        del _until_s[job_id]
    return _aside(jobs, _until_s) if _until_s else jobs


def plan_despite(
    state: ClusterState, plan: Callable[[ClusterState, bool], Plan], clock: Clock
) -> tuple[ClusterState, Plan]:
    """Return a plan, and the state that it was made of. `plan` is called with a state, and whether to plan from nothing.

    Raises what `plan` raises when no waiting job is the reason, or none was found in SEARCH_S.
    """
    try:
        return state, plan(state, False)
    except MemoryError:
        raise
    except Exception:
        log.exception("the planner failed; looking for a job that it fails over")
    search_until_s = clock() + SEARCH_S
    for left in reversed(range(MOST + 1)):
        try:
            return state, plan(state, True)
        except Exception:
            culprit = _culprit(state, plan, clock, search_until_s) if left else None
            if culprit is None:
                raise
        log.error("the planner fails over job %d: it is set aside for %.0f s", culprit, ASIDE_S)
        _until_s[culprit] = time.monotonic() + ASIDE_S
        state = _without(state, {culprit})
    raise AssertionError("unreachable")


def _aside(jobs: Sequence[Job], ids: Collection[int]) -> list[Job]:
    """Set these jobs aside, with nothing left in them that could be reckoned with."""
    return [_bare(job) if job.id in ids else job for job in jobs]


def _bare(job: Job) -> Job:
    return replace(
        job,
        eligible=False,
        ineligible_reason=Reason.INVALID,
        ineligible_figures={"detail": DETAIL, "fault": True},
        model_label=None,
        done_fraction=0.0,
        expected_duration_s=None,
        total_samples=None,
        attained_gpu_s=0.0,
        instrumented=False,
        profiled_since_s=None,
        promise=None,
        part=None,
    )


def _without(state: ClusterState, ids: Collection[int]) -> ClusterState:
    return replace(state, jobs=_aside(state.jobs, ids))


def _culprit(
    state: ClusterState, plan: Callable[[ClusterState, bool], Plan], clock: Clock, until_s: float
) -> int | None:
    """Return a job without which the planner does not fail where it fails with it; None: no job, or no time left.

    The planner fails with the first `high` of the waiting jobs, and not with the first `low`.
    """
    waiting = [job.id for job in state.jobs if job.eligible]

    def fails(count: int) -> bool:
        try:
            plan(_without(state, set(waiting[count:])), True)
        except Exception:  # noqa: BLE001 - whatever it is, it was told above
            return True
        return False

    low, high = 0, len(waiting)
    if not waiting or fails(low):
        return None
    while high - low > 1:
        if clock() > until_s:
            return None
        middle = (low + high) // 2
        low, high = (low, middle) if fails(middle) else (middle, high)
    return waiting[high - 1]
