"""Which jobs at the head of a window have nodes kept for them, or are urgent (algorithms.md sections 4 and 7)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from scheduler.fairness.reservation import soonest, starving
from scheduler.placement.joint import is_located
from scheduler.replan import early
from scheduler.rules import RESERVATIONS, URGENT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.fairness.borrowing import AccessRules
    from scheduler.fairness.progressive import Windows
    from scheduler.model import Ranked, Reservation
    from scheduler.placement.outcome import DraftPlan
    from scheduler.placement.work import Work
    from scheduler.policies.lineup import Mode


def reserve(windows: Windows, work: Work, mode: Mode, access_rules: AccessRules) -> frozenset[int]:
    """Reserve nodes for the starving first job of each array. Stopping attempts are left out: their resources are promised.

    A job that fits now needs no reservation if the solver can be made to place it, so that the others may use the rest.
    The ids of these jobs are returned.
    """
    now_s, running = work.now_s, [live for live in work.state.running if not live.stopping]
    kept: list[Reservation] = []
    must_start: set[int] = set()
    reserve_lr = None if RESERVATIONS in work.parameters.off else mode.reserve_lr
    for window in windows.by_array.values():
        ranked = starving(window.picked, reserve_lr)
        if ranked is None:
            continue
        offers = list(access_rules.offers(ranked, home_only=True))
        found = soonest(ranked.job, offers, running, work.ledger.largest, now_s)
        if found is None:
            continue
        # Only the located formulation can be made to place a job. Under a quota two such jobs could contradict each other.
        free = ranked.job.tenant not in work.ledger.allowances
        quiet = free or (not must_start and work.ledger.over_quota(ranked.job) is None)
        if found.until_s <= now_s and mode.joint and is_located(work) and quiet:
            must_start.add(ranked.job.id)
        else:
            kept.append(found)
    access_rules.reservations = [(each, now_s) for each in kept]
    return frozenset(must_start)


def drop_reservations(access_rules: AccessRules, draft: DraftPlan) -> None:
    """Drop the reservations of jobs that have their answer."""
    access_rules.reservations = [(each, now_s) for each, now_s in access_rules.reservations if not draft.has(each.job)]


def pressing_of(windows: Windows, work: Work, mode: Mode) -> dict[int, float]:
    """For the first jobs of each window: job id -> from when on it is urgent. {} where no job ever is."""
    pressing: dict[int, float] = {}
    if mode.reserve_lr is None or not mode.joint or URGENT in work.parameters.off:
        return pressing
    for window in windows.by_array.values():
        pressing |= early.pressing(window.picked, mode.reserve_lr, work.state.replanned_s, work.now_s)
    return pressing


def urgent_of(windows: Windows, pressing: Mapping[int, float], now_s: float) -> list[Ranked]:
    """The jobs of all arrays that are urgent now, in the order of picking."""
    return [each for each in windows.picked if pressing.get(each.job.id, math.inf) <= now_s]
