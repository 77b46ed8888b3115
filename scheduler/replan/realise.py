"""Stops, promises and starts from a re-plan's solve (algorithms.md section 7).

In the solve, the participants' resources count as idle. A participant that keeps its configuration is not touched. One that gets
another configuration is asked to stop, and the new one is promised to it. One that gets none is asked to stop (`preempt`) if the
operator allows it. A waiting job starts at once if its configuration is really idle. Else the configuration is promised to it,
and the stops will free it. The solve fits everything into idle and held resources together, and starts take only idle ones, so
that every promise can be kept in any order of the stops' ends.

*Nearby*: re-plans of one part of a cluster that is too large for the located formulation.
Such a re-plan looks at `MOST_NODES` GPU nodes: nodes of running jobs that may be changed, drawn at random, and then the nodes
with the most idle GPUs. The front of the window is solved together with these jobs on these nodes. Then the whole window is
placed as always, on what is left. All other running jobs run on, and count as left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from scheduler.copies import replace
from scheduler.model import Chosen, Configuration, Job, Promised, Ranked, StopOrder
from scheduler.placement.joint import place_jointly
from scheduler.replan.participants import MOST_NODES
from scheduler.replan.promises import Coming, can_keep, keep

if TYPE_CHECKING:
    from scheduler.fairness.borrowing import AccessRules
    from scheduler.placement.ledger import Ledger
    from scheduler.placement.outcome import DraftPlan, Staged
    from scheduler.placement.running import Participant
    from scheduler.placement.work import Work


TIDY_ROUNDS = 10
"""The most passes that look for needless changes. Each pass but the last undoes one or more, so that few are needed."""


def tidy(solving: Work, draft: DraftPlan) -> None:
    """Undo needless changes that a gap or a time limit let through: a running job that was stopped or moved, although it could
    stay with as much throughput.
    """
    for _ in range(TIDY_ROUNDS):
        if not [number for number in solving.participants if _stays_after_all(number, solving, draft)]:
            break


def _stays_after_all(number: int, solving: Work, draft: DraftPlan) -> bool:
    each, chosen = solving.participants[number], draft.chosen.get(number)
    present, tenant = each.present, each.live.tenant
    if chosen is not None:
        least = draft.objective.least_of(number, (chosen.configuration, present))
        staying = draft.objective.gain.of(present.throughput / least)
        if each.keeps(chosen.configuration) or staying < chosen.gain * each.factor_of(chosen.configuration):
            return False
        solving.ledger.release(chosen.placement.pieces, tenant, number)
    fits = solving.ledger.shortfall(present, tenant) is None
    if fits:
        weight = draft.objective.weight(number)
        gain = draft.objective.gain_of(present, draft.candidates.get(number, ()))
        draft.chosen[number] = Chosen(present, solving.ledger.take(present, tenant), gain, weight, 1)
    elif chosen is not None:
        placement = solving.ledger.take(chosen.configuration, tenant)
        draft.chosen[number] = replace(chosen, placement=placement)
    return fits


def spare_owners(solving: Work, draft: DraftPlan, borrows: Callable[[Job, Configuration], bool]) -> None:
    """Undo stops of running jobs in their own array that were made for waiting jobs that would only borrow there.

    The stopped job would stand in the front at once and call the borrowers back: two restarts for nothing. (Ours. The factor
    0.95 of section 4 prevents this in most plans, not in all.)
    """
    waiting = {ranked.job.id: ranked.job for ranked in solving.queue} if solving.participants else {}
    for number, each in solving.participants.items():
        if solving.remaining_s <= 0:
            return
        if number not in draft.chosen and not borrows(each.job, each.present):
            _keep_at_home(number, solving, draft, waiting, borrows)


def _keep_at_home(
    number: int,
    solving: Work,
    draft: DraftPlan,
    waiting: Mapping[int, Job],
    borrows: Callable[[Job, Configuration], bool],
) -> None:
    """Give the job its present configuration or a smaller one on the same nodes: the one that costs the plan least."""
    each, candidates, ledger = solving.participants[number], draft.candidates.get(number, ()), solving.ledger
    lent = _find_lent(each, draft, waiting, borrows)
    ways = [
        (way, given_up)
        for way in (each.offered(candidates) if lent else ())
        if _nodes(way) == _nodes(each.present)
        and (given_up := _give_up(way, each.live.tenant, lent, waiting, ledger)) is not None
    ]

    def gained(one: int) -> tuple[float, int]:
        way, given_up = ways[one]
        value = draft.objective.weight(number) * draft.objective.gain_of(way, candidates) * each.factor_of(way)
        return value - sum(lent[other].weight * lent[other].gain for other in given_up), -one

    if ways:
        way, given_up = ways[max(range(len(ways)), key=gained)]
        for other in given_up:
            ledger.release(draft.chosen.pop(other).placement.pieces, waiting[other].tenant, other)
        gain, weight = draft.objective.gain_of(way, candidates), draft.objective.weight(number)
        draft.chosen[number] = Chosen(way, ledger.take(way, each.live.tenant), gain, weight, len(ways))


def _find_lent(
    each: Participant,
    draft: DraftPlan,
    waiting: Mapping[int, Job],
    borrows: Callable[[Job, Configuration], bool],
) -> dict[int, Chosen]:
    """The waiting jobs that were placed on the job's nodes and only borrow there."""
    nodes = _nodes(each.present)
    return {
        other: chosen
        for other, chosen in draft.chosen.items()
        if other in waiting and nodes & _nodes(chosen.configuration) and borrows(waiting[other], chosen.configuration)
    }


def _give_up(
    way: Configuration, tenant: int, lent: Mapping[int, Chosen], waiting: Mapping[int, Job], ledger: Ledger
) -> list[int] | None:
    """The borrowers, cheapest first, that must give up their place for this way; None = not even all of them are enough."""
    trial, given_up = ledger.copy(), list[int]()
    cheapest_first = iter(sorted(lent, key=lambda other: (lent[other].weight * lent[other].gain, other)))
    while trial.shortfall(way, tenant) is not None:
        other = next(cheapest_first, None)
        if other is None:
            return None
        given_up.append(other)
        trial.release(lent[other].placement.pieces, waiting[other].tenant, other)
    return given_up


def realise(work: Work, draft: DraftPlan) -> None:
    """Turn the solve's choice into stops, promises and starts, and take the starts from `work.ledger`."""
    chosen = {number: draft.chosen.pop(number) for number in work.participants if number in draft.chosen}
    preempts = work.parameters.preemption == "on"
    stopped = {
        number: each
        for number, each in work.participants.items()
        if (not each.keeps(chosen[number].configuration) if number in chosen else preempts)
    }
    late = _start(work, draft)
    configurations = {number: chosen[number].configuration if number in chosen else None for number in stopped}
    causes = {number: cause_of(each, configurations[number]) for number, each in stopped.items()}
    coming = Coming(each.live for each in stopped.values())
    for number, each in stopped.items():
        if (own := configurations[number]) is not None:
            keep(own.shares, each.live.tenant, work.ledger, coming)
            draft.promises.append(Promised(number, own.shares, causes[number]))
    for_job: dict[int, int] = {}
    for ranked, picked in late:
        shares = picked.configuration.shares
        nodes = {share.node for share in shares}
        makers = [
            number
            for number, each in stopped.items()
            if each.live.tenant == ranked.job.tenant or nodes & _nodes(each.present)
        ]
        if makers and can_keep(shares, ranked.job.tenant, work.ledger, coming):
            keep(shares, ranked.job.tenant, work.ledger, coming)
            draft.promises.append(Promised(ranked.job.id, shares, causes[makers[0]]))
            for number in makers:
                for_job.setdefault(number, ranked.job.id)
    for number, each in stopped.items():
        to_gpus = own.gpus if (own := configurations[number]) is not None else 0
        draft.stops.append(StopOrder(number, causes[number], for_job.get(number), each.live.gpus, to_gpus))


def _start(work: Work, draft: DraftPlan) -> list[tuple[Ranked, Chosen]]:
    """Start the chosen waiting jobs whose resources are really idle, in the queue's order. Returns the other chosen ones."""
    late: list[tuple[Ranked, Chosen]] = []
    for ranked in (each for each in work.queue if each.job.id in draft.chosen):
        picked = draft.chosen.pop(ranked.job.id)
        if work.ledger.shortfall(picked.configuration, ranked.job.tenant) is None:
            placement = work.ledger.take(picked.configuration, ranked.job.tenant)
            draft.chosen[ranked.job.id] = replace(picked, placement=placement)
        else:
            late.append((ranked, picked))
    return late


def cause_of(each: Participant, configuration: Configuration | None) -> str:
    """The cause of a running job's stop, by the configuration that it gets."""
    if configuration is None:
        return "preempt"
    moves = _nodes(each.present) != _nodes(configuration) and each.present.gpus == configuration.gpus
    return "move" if moves else "resize"


def _nodes(configuration: Configuration) -> set[int]:
    return {share.node for share in configuration.shares}


TIME_SHARE = 0.5
"""The part of the time left that this step of a planning may use."""


def replan_nearby(
    front: Sequence[Ranked],
    solving: Work,
    work: Work,
    draft: DraftPlan,
    access_rules: Callable[[Work], AccessRules | None],
) -> Staged:
    """Solve for the participants and the head of the front on their nodes, and take the result from `work.ledger`."""
    chosen = {piece.node for each in solving.participants.values() for piece in each.live.pieces}
    capacities = [free for number, free in solving.ledger.free.items() if free.node.gpus_total and number not in chosen]
    capacities.sort(key=lambda free: (-len(free.gpus), free.node.id))
    near = replace(
        solving,
        ledger=solving.ledger.copy(chosen | {free.node.id for free in capacities[: max(0, MOST_NODES - len(chosen))]}),
        deadline_s=work.clock() + TIME_SHARE * work.remaining_s,
    )
    stage = [each.ranked for each in work.participants.values()]
    asked = 0
    for ranked in front:
        if asked >= near.ledger.idle_gpus:
            break
        stage.append(ranked)
        asked += ranked.job.min_gpus
    staged = place_jointly(stage, near, draft, access_rules=access_rules(near))
    tidy(near, draft)
    realise(work, draft)
    return replace(staged, out_of_time=frozenset())  # they still have their turn with the whole window
