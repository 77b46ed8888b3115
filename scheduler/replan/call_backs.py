"""Calling back what was borrowed, after the solve (algorithms.md section 7, step 7).

A job of the fronts that the solve did not place, in the order of picking, may get resources of its own array back. If its
smallest size would fit with the resources of movable borrowers there, the fewest of them are stopped. The configuration is
promised to the job, which starts exactly there once all of it is idle.

Where there are re-plans, elastic borrowers are called back only in re-plans, after the solve that may move them or make them
smaller. Like all elastic jobs they keep their configuration for the time of ten restarts: docs/decisions/0016.

Of the movable borrowers that keep the job out, the fewest are stopped, and of equally few the youngest. Borrowers are GPU jobs on
nodes of the other GPU array, and CPU jobs on a node where CPU jobs hold more than the CPU array's cores. A stopped borrower goes
to the head of its array.
"""

from __future__ import annotations

from itertools import combinations, islice
from typing import TYPE_CHECKING

from scheduler.copies import replace
from scheduler.errors import InvalidJob
from scheduler.model import Configuration, Node, Promised, Ranked, Running, StopOrder
from scheduler.placement.configurations import generate_on
from scheduler.placement.feasibility import with_lent
from scheduler.replan.participants import KEPT_RESTARTS, restart_s_of
from scheduler.replan.promises import Coming, keep
from scheduler.rules import CALL_BACKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scheduler.fairness.arrays import Array, Division
    from scheduler.fairness.borrowing import AccessRules, HomeArrays
    from scheduler.fairness.progressive import ArrayWindow
    from scheduler.placement.ledger import Ledger
    from scheduler.placement.outcome import DraftPlan
    from scheduler.placement.work import Work


SETS_TRIED = 2_000
"""The most sets of borrowers of one size that are compared; after that the first set that is enough is taken."""


def borrowers(
    running: Iterable[Running], nodes: Mapping[int, Node], division: Division, homes: HomeArrays
) -> list[Running]:
    """The movable jobs that hold resources of another array and are not stopping yet, youngest first."""
    live = list(running)
    cpu_cores: dict[int, int] = {}
    for each in live:
        if not each.gpus:
            for piece in each.pieces:
                cpu_cores[piece.node] = cpu_cores.get(piece.node, 0) + len(piece.cores)
    found = [
        each
        for each in live
        if each.movable and not each.stopping and _borrows(each, nodes, division, homes, cpu_cores)
    ]
    return sorted(found, key=lambda each: (-each.started_s, each.job))


def _borrows(
    live: Running, nodes: Mapping[int, Node], division: Division, homes: HomeArrays, cpu_cores: Mapping[int, int]
) -> bool:
    pieces = [piece for piece in live.pieces if piece.node in nodes]
    if live.gpus:
        own = homes.of_running(live)
        return any(division.array_of_node(piece.node) is not own for piece in pieces)
    return any(
        cpu_cores[piece.node] > nodes[piece.node].cores_total - division.reserved(piece.node) for piece in pieces
    )


def owner_borrowers(array: Array, found: Sequence[Running], division: Division, homes: HomeArrays) -> list[Running]:
    """The borrowers in a GPU array: they run on its nodes and belong to another array."""
    return [
        live
        for live in found
        if (not live.gpus or homes.of_running(live) is not array)
        and any(division.array_of_node(piece.node) is array for piece in live.pieces)
    ]


def whom_to_stop(wanted: Configuration, ledger: Ledger, found: Sequence[Running]) -> tuple[Running, ...] | None:
    """The fewest of `found` (youngest first) that must stop so that the configuration fits; None when it never does."""
    nodes = {share.node for share in wanted.shares}
    here = [live for live in found if any(piece.node in nodes for piece in live.pieces)]
    for size in range(len(here) + 1):
        serving = [chosen for chosen in islice(combinations(here, size), SETS_TRIED) if _fits(wanted, ledger, chosen)]
        if serving:
            # Youngest: the set whose oldest member started last.
            return max(serving, key=lambda chosen: sorted(live.started_s for live in chosen))
    return None


def _fits(wanted: Configuration, ledger: Ledger, stopped: Sequence[Running]) -> bool:
    for share in wanted.shares:
        free = ledger.free[share.node]
        pieces = [piece for live in stopped for piece in live.pieces if piece.node == share.node]
        if (
            len(free.gpus) + sum(len(piece.gpus) for piece in pieces) < share.gpus
            or len(free.cores) + sum(len(piece.cores) for piece in pieces) < share.cores
            or free.memory_mib + sum(piece.memory_mib for piece in pieces) < share.memory_mib
        ):
            return False
    return True


CAUSE = "call-back"

LONGEST_ROUND_S = 900.0
"""If rounds are longer than this, owners do not wait for the re-plan."""


def call_back(
    by_array: Mapping[Array, ArrayWindow],
    work: Work,
    access_rules: AccessRules,
    division: Division,
    draft: DraftPlan,
    *,
    replans: bool,
) -> None:
    """Add to `draft` the stops and promises for jobs of the fronts.

    `replans`: whether running elastic jobs take part in the policy's re-plans.
    """
    homes = access_rules.homes
    if CALL_BACKS in work.parameters.off or all(
        draft.has(ranked.job.id) for window in by_array.values() for ranked in window.front
    ):
        return
    lent = borrowers(work.state.running, {node.id: node for node in work.ledger.nodes}, division, homes)
    if replans:
        lent = [live for live in lent if _may_be_called(live, work)]
    for array, window in by_array.items():
        for ranked in window.front if lent else ():
            job = ranked.job
            if draft.has(job.id) or work.remaining_s <= 0:
                continue
            if work.ledger.over_quota(job) is None:
                stopped = {order.job for order in draft.stops}
                lenders = [live for live in owner_borrowers(array, lent, division, homes) if live.job not in stopped]
                _call_for(ranked, work, access_rules, lenders, draft)


def _may_be_called(live: Running, work: Work) -> bool:
    if not (live.elastic and live.gpus):
        return True
    kept_s = work.now_s - live.started_s
    in_turn = work.replan or work.parameters.replan_s > LONGEST_ROUND_S
    return in_turn and kept_s >= KEPT_RESTARTS * restart_s_of(live, work.parameters)


def _call_for(
    ranked: Ranked, work: Work, access_rules: AccessRules, lenders: Sequence[Running], draft: DraftPlan
) -> None:
    offers = [with_lent(offer, lenders) for offer in access_rules.offers(ranked, home_only=True)]
    smallest = replace(ranked.job, requirement=(ranked.job.min_gpus,))
    try:
        wanted = generate_on(smallest, offers, work.ledger, work.estimator, sigma=work.parameters.sigma)
    except InvalidJob as error:
        draft.invalid[ranked.job.id] = error
        return
    ways = [(each, stopped) for each in wanted if (stopped := whom_to_stop(each, work.ledger, lenders))]
    if ways:
        best, stopped = min(ways, key=lambda way: (len(way[1]), -min(live.started_s for live in way[1])))
        job = ranked.job
        draft.stops += [StopOrder(live.job, CAUSE, job.id, live.gpus, 0) for live in stopped]
        draft.promises.append(Promised(job.id, best.shares, CAUSE))
        keep(best.shares, job.tenant, work.ledger, Coming(stopped))
        access_rules.refresh()
