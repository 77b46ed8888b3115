"""From classes to nodes (algorithms.md section 6): which job gets which piece of which node.

A plan by classes leaves open which of equally good nodes is used. Each job gets the tightest that holds the piece, large ones
first, so that idle GPUs stay together for jobs that need more GPUs than these. Where that leaves a job out, the plan's own
patterns say how nodes are cut: nodes are taken in id order, jobs that need most memory first, onto the piece whose node has most
left. Memory, which the classes do not know, is checked here: a job without room for it is named, and becomes a cut.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduler.model import Configuration, Ranked
    from scheduler.placement.aggregated.candidates import ClassCandidate, Group
    from scheduler.placement.aggregated.idle_columns import IdleColumns
    from scheduler.placement.aggregated.plans import IntegerPlan
    from scheduler.placement.aggregated.pricing import Problem

    _Asked = tuple[Ranked, ClassCandidate, Group, int]


@dataclass(slots=True)
class Seated:
    """The seated jobs with place and candidate of their group; and the candidates whose jobs found no room for memory."""

    placed: list[tuple[Ranked, Configuration, Group, int]] = field(default_factory=list)
    homeless: list[int] = field(default_factory=list)  # positions in the candidates' arrays


def hand_out(plan: IntegerPlan, problem: Problem, fresh: Callable[[], IdleColumns]) -> Seated:
    """Seat the plan on the idle nodes: tightly if everybody finds room so, else by the plan's patterns."""
    asked = list(_asked(plan, problem))
    seated = _seat_by_best_fit(asked, fresh())
    return seated if not seated.homeless else _seat_by_patterns(asked, _slots(plan, problem, fresh()), fresh())


def _seat_by_best_fit(asked: Sequence[_Asked], idle_columns: IdleColumns) -> Seated:
    """Seat jobs that stay where they run first, then those that need single servers, the largest pieces next; spread jobs take
    the rest.
    """
    seated = Seated()
    in_turn = sorted(
        asked,
        key=lambda each: (
            not idle_columns.is_pinned(each[1]),
            not idle_columns.is_apart(each[1]),
            each[1].spread,
            -each[1].gpus,
            -each[1].cores,
            -each[0].job.memory_mib,
            each[0].rank,
        ),
    )
    for ranked, candidate, group, number in in_turn:
        configuration = idle_columns.seat(ranked.job, candidate)
        if configuration is None:
            seated.homeless.append(number)
            break
        seated.placed.append((ranked, configuration, group, number))
    return seated


def _seat_by_patterns(asked: Sequence[_Asked], slots: dict[int, list[int]], idle_columns: IdleColumns) -> Seated:
    seated = Seated()
    # Jobs that stay where they run first, then singles, for a unit may come from anywhere; the largest memory first, then the
    # queue's order.
    in_turn = sorted(
        asked,
        key=lambda each: (
            not idle_columns.is_pinned(each[1]),
            each[1].spread,
            -each[0].job.memory_mib,
            -each[1].gpus,
            each[0].rank,
        ),
    )
    for ranked, candidate, group, number in in_turn:
        configuration = _by_slots(slots.get(candidate.row, []), ranked, candidate, idle_columns)
        if configuration is not None:
            seated.placed.append((ranked, configuration, group, number))
        else:
            seated.homeless.append(number)
    return seated


def _by_slots(
    own: list[int], ranked: Ranked, candidate: ClassCandidate, idle_columns: IdleColumns
) -> Configuration | None:
    if idle_columns.is_pinned(candidate):
        return idle_columns.seat(ranked.job, candidate)
    parts = (
        _units(own, ranked, candidate, idle_columns)
        if candidate.spread
        else _piece(own, ranked, candidate, idle_columns)
    )
    return idle_columns.take(ranked.job, candidate, parts) if parts else None


def _asked(plan: IntegerPlan, problem: Problem) -> list[_Asked]:
    """(job, candidate, group, candidate's position) of everyone in the plan: in a group the first gets the best."""
    candidates = problem.candidates
    by_group: dict[int, list[int]] = {}
    for taken in np.flatnonzero(plan.candidates):
        by_group.setdefault(int(candidates.group[taken]), []).extend([int(taken)] * int(plan.candidates[taken]))
    found = []
    for g, numbers in by_group.items():
        group = candidates.groups[g]
        numbers.sort(key=lambda number: (-candidates.value[number], number))
        for ranked, number in zip(group.members, numbers, strict=False):
            found.append((ranked, group.candidates[candidates.position[number]], group, number))
    return found


def _slots(plan: IntegerPlan, problem: Problem, idle_columns: IdleColumns) -> dict[int, list[int]]:
    """Row -> positions of the nodes that offer a piece of it, one entry a piece, moves carried out."""
    slots: dict[int, list[int]] = {}
    free = {k: [idle_columns.position(node) for node in each.nodes] for k, each in enumerate(problem.supply.classes)}
    for pattern in sorted(plan.patterns):
        for _ in range(plan.patterns[pattern]):
            at = free[pattern.of_class].pop(0)
            for row, times in pattern.pieces:
                slots.setdefault(row, []).extend([at] * times)
    for k in problem.supply.move_order:
        move = problem.supply.moves[k]
        for _ in range(int(plan.moves[k])):
            if slots.get(move.source):
                slots.setdefault(move.target, []).append(slots[move.source].pop())
    return slots


def _piece(
    own: list[int], ranked: Ranked, candidate: ClassCandidate, idle_columns: IdleColumns
) -> list[tuple[int, int]]:
    job = ranked.job
    fitting = [at for at in own if idle_columns.holds(at, job, candidate.gpus, candidate.cores, job.memory_mib)]
    if not fitting:
        return []
    at = max(fitting, key=lambda at: (idle_columns.memory_mib[at], -at))
    own.remove(at)
    return [(at, candidate.gpus)]


def _units(
    own: list[int], ranked: Ranked, candidate: ClassCandidate, idle_columns: IdleColumns
) -> list[tuple[int, int]]:
    job, rate = ranked.job, candidate.cores // candidate.gpus
    counts: dict[int, int] = {}
    for at in own:
        counts[at] = counts.get(at, 0) + 1
    most = []
    for at, units in counts.items():
        room = min(units, int(idle_columns.gpus[at]), int(idle_columns.cores_for(at, job)) // rate)
        if job.memory_mib:
            room = min(room, int(idle_columns.memory_mib[at]) * candidate.gpus // job.memory_mib)
        if idle_columns.holds(at, job, 0, 0, 0):
            most.append((at, room))
    parts = idle_columns.spread_over(most, candidate.gpus)
    if not parts and sum(room for _, room in most) >= candidate.gpus:
        parts = [(max(most, key=lambda each: each[1])[0], candidate.gpus)]  # all its units are on one node
        if dict(most)[parts[0][0]] < candidate.gpus:
            return []
    for at, gpus in parts:
        for _ in range(gpus):
            own.remove(at)
    return parts
