"""From a re-plan's solve to what is done now (algorithms.md section 7): stops, promises and starts.

The solve saw what participants hold as idle. A job that keeps its configuration is not touched. One with another is
asked to stop, and the other is promised to it; one with none is asked to stop (`preempt`) where the operator allows it.
A waiting job starts at once when what is truly idle holds its configuration; else that is promised to it, to be freed by
the stops. Because the solve fitted everything into idle plus held resources, and starts take idle ones only, every
promise can be kept whatever the order in which the stops end.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from scheduler.model import Chosen, Promised, StopOrder
from scheduler.replan.promises import Coming, can_keep, keep

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scheduler.model import Configuration, Job, Ranked, Share
    from scheduler.placement.answers import Answers
    from scheduler.placement.gain import Worth
    from scheduler.placement.outcome import Trail
    from scheduler.placement.running import Participant
    from scheduler.placement.work import Work

TIDY_ROUNDS = 10
"""Passes over the running jobs that look for needless changes; each ends one or more of them, so few are needed."""


def tidy(solving: Work, answers: Answers, worth: Worth, trail: Trail) -> None:
    """Undo what a gap or a limit let through: a running job left out or moved although it could stay
    with no less throughput.
    """
    for _ in range(TIDY_ROUNDS):
        if not [number for number in solving.participants if _stays_after_all(number, solving, answers, worth, trail)]:
            break


def _stays_after_all(number: int, solving: Work, answers: Answers, worth: Worth, trail: Trail) -> bool:
    each, chosen = solving.participants[number], answers.chosen.get(number)
    present, tenant = each.present, each.live.tenant
    if chosen is not None:
        least = worth.least_of(number, (chosen.configuration, present))
        staying = worth.gain.of(present.throughput / least)
        if each.keeps(chosen.configuration) or staying < chosen.gain * each.factor:
            return False
        solving.ledger.release(chosen.placement.pieces, tenant, number)
    fits = solving.ledger.shortfall(present, tenant) is None
    if fits:
        weight = worth.weight(number)
        gain = worth.gain_of(present, trail.candidates.get(number, ()))
        answers.chosen[number] = Chosen(present, solving.ledger.take(present, tenant), gain, weight, 1)
    elif chosen is not None:
        placement = solving.ledger.take(chosen.configuration, tenant)
        answers.chosen[number] = replace(chosen, placement=placement)
    return fits


def spare_owners(
    solving: Work, answers: Answers, worth: Worth, trail: Trail, borrows: Callable[[Job, Configuration], bool]
) -> None:
    """Undo that a running job is stopped in its own array for waiting jobs that would only borrow there.

    It would wait in the front at once and call them back: two restarts, and nothing gained (ours; the 0.95 of section 4
    outbids it in most plans, not in all).
    """
    waiting = {ranked.job.id: ranked.job for ranked in solving.queue} if solving.participants else {}
    for number, each in solving.participants.items():
        if solving.remaining_s <= 0:
            return
        if number not in answers.chosen and not borrows(each.job, each.present):
            _keep_at_home(number, solving, answers, worth, trail, waiting, borrows)


def _keep_at_home(
    number: int,
    solving: Work,
    answers: Answers,
    worth: Worth,
    trail: Trail,
    waiting: Mapping[int, Job],
    borrows: Callable[[Job, Configuration], bool],
) -> None:
    """Give it the configuration on its own nodes, present or smaller, that costs the plan least in borrowers."""
    each, ledger = solving.participants[number], solving.ledger
    nodes = {share.node for share in each.present.shares}
    lent = {
        other: chosen
        for other, chosen in answers.chosen.items()
        if other in waiting
        and nodes.intersection(share.node for share in chosen.configuration.shares)
        and borrows(waiting[other], chosen.configuration)
    }
    cheapest_first = sorted(lent, key=lambda other: (lent[other].weight * lent[other].gain, other))
    weight = worth.weight(number)
    candidates = trail.candidates.get(number, ())
    ways: list[tuple[float, int, Configuration, list[int]]] = []
    for way in each.offered(candidates) if lent else ():
        if {share.node for share in way.shares} != nodes:
            continue
        trial, given_up = ledger.copy(), list[int]()
        while trial.shortfall(way, each.live.tenant) is not None and len(given_up) < len(cheapest_first):
            given_up.append(cheapest_first[len(given_up)])
            other = given_up[-1]
            trial.release(lent[other].placement.pieces, waiting[other].tenant, other)
        if trial.shortfall(way, each.live.tenant) is None:
            value = weight * worth.gain_of(way, candidates) * (1.0 if each.keeps(way) else each.factor)
            lost = sum(lent[other].weight * lent[other].gain for other in given_up)
            ways.append((value - lost, -len(ways), way, given_up))
    if ways:
        _, _, way, given_up = max(ways, key=lambda one: one[:2])
        for other in given_up:
            ledger.release(answers.chosen.pop(other).placement.pieces, waiting[other].tenant, other)
        gain = worth.gain_of(way, candidates)
        answers.chosen[number] = Chosen(way, ledger.take(way, each.live.tenant), gain, weight, len(ways))


def realise(work: Work, answers: Answers) -> None:
    """Turn what was chosen on the joint resources into stops, promises and starts on `work.ledger`, which holds them."""
    chosen = {number: answers.chosen.pop(number) for number in work.participants if number in answers.chosen}
    stopped = {number: each for number, each in work.participants.items() if _must_stop(each, chosen, work)}
    coming = Coming(each.live for each in stopped.values())
    ledger = work.ledger
    late: list[tuple[Ranked, Chosen]] = []
    for ranked in (each for each in work.queue if each.job.id in answers.chosen):
        picked = answers.chosen.pop(ranked.job.id)
        if ledger.shortfall(picked.configuration, ranked.job.tenant) is None:
            placement = ledger.take(picked.configuration, ranked.job.tenant)
            answers.chosen[ranked.job.id] = replace(picked, placement=placement)
        else:
            late.append((ranked, picked))
    causes = {
        number: cause_of(each, chosen[number].configuration if number in chosen else None)
        for number, each in stopped.items()
    }
    for number, each in stopped.items():
        if number in chosen:
            shares = chosen[number].configuration.shares
            keep(shares, each.live.tenant, ledger, coming)
            answers.promises.append(Promised(number, shares, causes[number]))
    for_job: dict[int, int] = {}
    for ranked, picked in late:
        shares = picked.configuration.shares
        makers = [number for number, each in stopped.items() if _makes_room(each, ranked, shares)]
        if makers and can_keep(shares, ranked.job.tenant, ledger, coming):
            keep(shares, ranked.job.tenant, ledger, coming)
            answers.promises.append(Promised(ranked.job.id, shares, causes[makers[0]]))
            for number in makers:
                for_job.setdefault(number, ranked.job.id)
    for number, each in stopped.items():
        to_gpus = chosen[number].configuration.gpus if number in chosen else 0
        answers.stops.append(StopOrder(number, causes[number], for_job.get(number), each.live.gpus, to_gpus))


def _must_stop(each: Participant, chosen: Mapping[int, Chosen], work: Work) -> bool:
    if each.job.id not in chosen:
        return work.parameters.preemption == "on"
    return not each.keeps(chosen[each.job.id].configuration)


def cause_of(each: Participant, configuration: Configuration | None) -> str:
    """What the stop of a running job is called when this is what it gets."""
    if configuration is None:
        return "preempt"
    before, after = (_by_node(one) for one in (each.present, configuration))
    return "move" if before.keys() != after.keys() and each.present.gpus == configuration.gpus else "resize"


def _by_node(configuration: Configuration) -> dict[int, int]:
    return {share.node: share.gpus for share in configuration.shares}


def _makes_room(each: Participant, ranked: Ranked, shares: tuple[Share, ...]) -> bool:
    """On one of the nodes, or in the tenant's quota."""
    nodes = {share.node for share in shares}
    return each.live.tenant == ranked.job.tenant or any(share.node in nodes for share in each.present.shares)
