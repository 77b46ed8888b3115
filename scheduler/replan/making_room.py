"""Room for urgent jobs (`early`) from running ones, even where the objective falls (algorithms.md sections 6 and 7).

After a re-plan's solve each urgent job that has no answer yet, in order, may have running jobs stopped for it, the fewest that
are enough, where the objective loses least:

    w * G  -  sum over the stopped of  w * G_present * (1 + S / period)

This need not be a gain, because for a small rigid job beside elastic ones it never would. Instead, a running job makes room for
an urgent one only if its latency ratio is at most half as large, and only if its tenant holds no less than the urgent job's
tenant.

The job's smallest size is promised to it. The stopped jobs wait again, and compete with all others for the rest of their GPUs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scheduler.copies import replace
from scheduler.errors import InvalidJob
from scheduler.model import Configuration, Job, Promised, Ranked, Running, StopOrder
from scheduler.placement.configurations import generate_on
from scheduler.placement.feasibility import type_allowed, with_lent
from scheduler.replan.call_backs import whom_to_stop
from scheduler.replan.early import GROWTH
from scheduler.replan.promises import Coming, keep

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduler.placement.free_capacity import Offer
    from scheduler.placement.ledger import Ledger
    from scheduler.placement.objective import Objective
    from scheduler.placement.outcome import DraftPlan
    from scheduler.placement.work import Work

CAUSE = "preempt"

MOST_JOBS = 8
"""The most waiting jobs that are looked at in one re-plan, because each asks about every node."""


class Rules(NamedTuple):
    """`offers`: which idle resources of a ledger a job may use. `factor`: on the value of borrowed ones. `may_take`: whether
    an urgent job may take from a running one.
    """

    offers: Callable[[Ranked, Ledger], Sequence[Offer]]
    factor: Callable[[Job, Configuration], float]
    may_take: Callable[[Ranked, Running], bool]


ANYTHING = Rules(lambda _, ledger: ledger.idle_offers(), lambda _, __: 1.0, lambda _, __: True)


class _Way(NamedTuple):
    gain: float  # of the objective
    configuration: Configuration
    stopped: tuple[Running, ...]


def make_room(
    urgent: Sequence[Ranked],
    work: Work,
    draft: DraftPlan,
    rules: Rules = ANYTHING,
) -> None:
    """Add to `draft` the stops and promises for these jobs; `work.ledger` keeps the promises. Only in a re-plan."""
    if not work.changeable or work.parameters.preemption != "on":
        return
    for ranked in [each for each in urgent if not draft.has(each.job.id)][:MOST_JOBS]:
        if work.remaining_s <= 0:
            return
        if work.ledger.over_quota(ranked.job) is not None:
            continue
        way = _best_way(ranked, work, draft, rules)
        if way is None:
            continue
        number, shares = ranked.job.id, way.configuration.shares
        draft.stops += [StopOrder(live.job, CAUSE, number, live.gpus, 0) for live in way.stopped]
        draft.promises.append(Promised(number, shares, CAUSE))
        keep(shares, ranked.job.tenant, work.ledger, Coming(way.stopped))


def _best_way(ranked: Ranked, work: Work, draft: DraftPlan, rules: Rules) -> _Way | None:
    stopping = {order.job for order in draft.stops}
    lenders = sorted(
        (
            each.live
            for number, each in work.changeable.items()
            if number not in stopping
            and GROWTH * each.ranked.latency_ratio <= ranked.latency_ratio
            and rules.may_take(ranked, each.live)
        ),
        key=lambda live: (-live.started_s, live.job),
    )
    offers = [with_lent(offer, lenders) for offer in rules.offers(ranked, work.ledger)]
    smallest = replace(ranked.job, requirement=(ranked.job.min_gpus,))
    try:
        found = generate_on(smallest, offers, work.ledger, work.estimator, sigma=work.parameters.sigma)
    except InvalidJob as error:
        draft.invalid[ranked.job.id] = error
        return None
    weight = draft.objective.weight(ranked.job.id)
    ways = []
    for wanted in found:
        stopped = whom_to_stop(wanted, work.ledger, lenders)
        if stopped:
            value = weight * draft.objective.gain_of(wanted, found) * rules.factor(ranked.job, wanted)
            ways.append(_Way(value - sum(_loss(live, work, draft.objective) for live in stopped), wanted, stopped))
    return max(ways, key=lambda way: way.gain, default=None)


def _loss(live: Running, work: Work, objective: Objective) -> float:
    """The objective's loss if the running job is stopped."""
    each = work.changeable[live.job]
    job, speed = each.job, each.present.throughput
    hosts = {free.node.gpu_type: [free.node] for free in work.ledger.free.values() if type_allowed(job, free.node)}
    # Its smallest size on its slowest type: close to the smallest throughput that could be generated.
    least = min(work.estimator.throughput(job, host, job.min_gpus).value for host in hosts.values())
    return objective.weight(live.job) * objective.gain.of(speed / min(speed, least)) * (1.0 + each.unselected_cost)
