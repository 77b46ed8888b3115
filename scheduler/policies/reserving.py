"""Who of the windows' heads has nodes kept, or is urgent (algorithms.md sections 4 and 7)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from scheduler.fairness.reservation import soonest, starving
from scheduler.placement.joint import is_located
from scheduler.replan import early
from scheduler.rules import RESERVATIONS, URGENT

if TYPE_CHECKING:
    from scheduler.fairness.borrowing import AccessRules
    from scheduler.fairness.progressive import Windows
    from scheduler.model import Ranked, Reservation
    from scheduler.placement.work import Outcome, Work
    from scheduler.policies.mode import Mode


def reserve(windows: Windows, work: Work, mode: Mode, access_rules: AccessRules, outcome: Outcome) -> None:
    """Keep nodes for the starving jobs of each array, no node for two. What stopping attempts hold is promised already.

    One that fits now needs no nodes kept where the programme can be told to place it: the others may use the rest.
    """
    now_s, running = work.now_s, [live for live in work.state.running if not live.stopping]
    kept: list[Reservation] = []
    reserve_lr = None if RESERVATIONS in work.parameters.off else mode.reserve_lr
    for window in windows.by_array.values():
        taken: frozenset[int] = frozenset()
        for ranked in starving(window.picked, reserve_lr, work.parameters.reserve_jobs):
            offers = [each for each in access_rules.offers(ranked, home_only=True) if each.node.id not in taken]
            found = soonest(ranked.job, offers, running, work.ledger.largest, now_s)
            if found is None:
                continue
            taken |= found.nodes
            if found.until_s <= now_s and mode.joint and _may_demand(ranked, work, outcome):
                outcome.must_start.add(ranked.job.id)
            else:
                kept.append(found)
    outcome.reservations = kept
    access_rules.reservations = [(each, now_s) for each in kept]


def drop_reservations(access_rules: AccessRules, outcome: Outcome) -> None:
    """Nothing need be kept for who has a place."""
    access_rules.reservations = [
        (each, now_s) for each, now_s in access_rules.reservations if not outcome.has_answer(each.job)
    ]
    outcome.reservations = [each for each in outcome.reservations if not outcome.has_answer(each.job)]


def note_pressing(windows: Windows, work: Work, mode: Mode, outcome: Outcome) -> list[Ranked]:
    """Fill `outcome.pressing`, and return those of all arrays that are urgent now."""
    if mode.reserve_lr is None or not mode.joint or URGENT in work.parameters.off:
        return []
    for window in windows.by_array.values():
        outcome.pressing |= early.pressing(window.picked, mode.reserve_lr, work.state.replanned_s, work.now_s)
    return [each for each in windows.picked if outcome.pressing.get(each.job.id, math.inf) <= work.now_s]


def _may_demand(ranked: Ranked, work: Work, outcome: Outcome) -> bool:
    """Only the located programme knows demands, and with a quota two of them could contradict each other."""
    free = ranked.job.tenant not in work.ledger.allowances
    return is_located(work) and (free or (not outcome.must_start and work.ledger.over_quota(ranked.job) is None))
