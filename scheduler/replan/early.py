"""Urgent jobs, and re-plans before their round is over (ours; algorithms.md sections 3, 4 and 7; docs/decisions/0015).

A round of six minutes is long for a job of one minute. If such a job finds no place, even the first of the queue waits for the
end of the round, with the largest latency ratio of all. And GPUs that become idle on scattered nodes, where no waiting job can
use them, would stay idle until the next re-plan.

*Urgent* is a job of a known length, among the first of its array's window, whose latency ratio has reached `reserve_lr` and at
least doubled since the last re-plan:

    LR >= reserve_lr   and   wait >= 2 * wait at the last re-plan

A job is thus urgent a few times at most, each time after twice the wait. A re-plan makes room for it even where the objective
falls, from running jobs whose latency ratio is at most half of its own.

The next re-plan comes *early* when a planning between re-plans leaves an urgent job without a place, or leaves one GPU in a
hundred idle on types on which a waiting job could start. It comes no sooner than `replan_early_s` after the last re-plan, and
only if some running job may be changed.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

from scheduler.estimator.lengths import is_sure
from scheduler.metrics import wanted_types
from scheduler.replan import participants

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scheduler.model import Ranked
    from scheduler.placement.ledger import Ledger
    from scheduler.placement.outcome import DraftPlan
    from scheduler.placement.work import Work

GROWTH = 2.0
"""An urgent job's latency ratio has grown by this factor since the last re-plan, and is this many times that of a job that
makes room for it."""

FRAGMENTS_SHARE = 0.01
"""If this part of the GPUs is idle, and waiting jobs could use them were they in one place, a re-plan is worth it."""

MOST_URGENT = 8
"""Only this number of each window's first jobs of known lengths can be urgent: a re-plan makes room for no more
(`making_room.MOST_JOBS`)."""


def pressing(picked: Sequence[Ranked], reserve_lr: float, replanned_s: float | None, now_s: float) -> dict[int, float]:
    """For the first picks of a window: job id -> from when on it is urgent. No job is before the first re-plan."""
    if replanned_s is None:
        return {}
    found: dict[int, float] = {}
    for ranked in islice((each for each in picked if is_sure(each.spread)), MOST_URGENT):
        wait_s = ranked.latency_ratio * ranked.age_s
        reached_s = now_s + reserve_lr * ranked.age_s - wait_s
        doubled_s = replanned_s + (GROWTH - 1.0) * (wait_s - (now_s - replanned_s))
        found[ranked.job.id] = max(reached_s, doubled_s)
    return found


def due_s(
    pressing: Mapping[int, float],
    draft: DraftPlan,
    waiting: Iterable[Ranked],
    work: Work,
    replanned_s: float | None,
) -> float | None:
    """When the next re-plan should be after this planning; None = when the round is over.

    `pressing`: job id -> from when on it is urgent. `waiting`: the eligible jobs without a place. `replanned_s`: when the
    last re-plan was, this planning included.
    """
    parameters, least_s = work.parameters, work.parameters.replan_early_s
    if least_s is None or replanned_s is None or least_s >= parameters.replan_s:
        return None
    wanted_s = [from_s for number, from_s in pressing.items() if not draft.has(number)]
    if _scattered(waiting, work.ledger):
        wanted_s.append(work.now_s)
    due_s = max(min(wanted_s, default=math.inf), replanned_s + least_s, work.now_s)
    if due_s >= replanned_s + parameters.replan_s:
        return None
    changeable = participants.taking_part(work.state.running, work.ledger, parameters, due_s, pays=work.pays)
    return due_s if changeable else None


def _scattered(waiting: Iterable[Ranked], ledger: Ledger) -> bool:
    """Whether that share of GPUs is idle on types on which a waiting job could start if they were in one place (section 10)."""
    if ledger.idle_gpus < FRAGMENTS_SHARE * ledger.gpus_up:
        return False
    jobs = [each.job for each in waiting if not each.job.is_cpu]
    until_s = min((job.open_until_s for job in jobs), default=math.inf)
    idle: Counter[str | None] = Counter()
    for free in ledger.free.values():
        if free.node.closes_s >= until_s:
            idle[free.node.gpu_type] += len(free.gpus)
    asked = {(job.min_gpus, job.gpu_types) for job in jobs}
    return sum(idle[name] for name in wanted_types(asked, idle)) >= FRAGMENTS_SHARE * ledger.gpus_up
