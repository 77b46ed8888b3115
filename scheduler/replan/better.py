"""Better places for running jobs that a re-plan's solve had to leave out (algorithms.md sections 6 and 7).

A re-plan's solve cannot look at all running jobs of a large cluster: by class it looks at a few on each node, else at a part of
the cluster. Without this step the others would never change, however much became idle: when a queue has been worked off, its
longest job would go on slowly, with its smallest size on the slowest type. So, after all other steps, each of these jobs in the
queue's order takes its best configuration on what is still idle and on what it holds itself, if that is worth its restart.
No other job is displaced for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scheduler.errors import InvalidJob
from scheduler.model import Promised, StopOrder
from scheduler.placement.configurations import generate_on
from scheduler.placement.feasibility import idle_offers
from scheduler.replan.participants import released
from scheduler.replan.promises import Coming, keep
from scheduler.replan.realise import cause_of
from scheduler.rules import TAKING_BETTER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduler.model import Configuration, Job, Ranked, Running
    from scheduler.placement.answers import Answers
    from scheduler.placement.feasibility import Offer
    from scheduler.placement.gain import Gain
    from scheduler.placement.ledger import Ledger
    from scheduler.placement.running import Participant
    from scheduler.placement.work import Work


class Rules(NamedTuple):
    """`offers`: which idle resources of a ledger a job may use. `factor`: on the worth of what it borrows. `may_take`: whether
    an urgent job may take from a running one.
    """

    offers: Callable[[Ranked, Ledger], Sequence[Offer]]
    factor: Callable[[Job, Configuration], float]
    may_take: Callable[[Ranked, Running], bool]


ANYTHING = Rules(lambda _, ledger: idle_offers(ledger), lambda _, __: 1.0, lambda _, __: True)


def take_better(work: Work, answers: Answers, gain: Gain, rules: Rules = ANYTHING) -> None:
    """Add to `answers` the stops and promises of the jobs of `work.left_out` that gain; `work.ledger` keeps the promises."""
    if TAKING_BETTER in work.parameters.off:
        return
    stopping = {order.job for order in answers.stops}
    for number, each in work.left_out.items():
        if not work.ledger.idle_gpus or work.remaining_s <= 0:
            return
        best = None if number in stopping else _best(each, work, gain, rules)
        if best is None:
            continue
        live = each.live
        answers.stops.append(StopOrder(number, cause_of(each, best), None, live.gpus, best.gpus))
        answers.promises.append(Promised(number, best.shares, cause_of(each, best)))
        keep(best.shares, live.tenant, work.ledger, Coming([live]))


def _best(each: Participant, work: Work, gain: Gain, rules: Rules) -> Configuration | None:
    """The configuration that is worth most, with the restart counted; None when staying is worth as much."""
    ledger = released(work.ledger, [each.live])
    try:
        found = generate_on(
            each.job, rules.offers(each.ranked, ledger), ledger, work.estimator, sigma=work.parameters.sigma
        )
    except InvalidJob:
        return None  # it runs on

    def worth(one: Configuration) -> float:
        return gain.of(one.throughput) * rules.factor(each.job, one) * (1.0 if each.keeps(one) else each.factor)

    best = max(found, key=lambda one: (worth(one), -len(one.shares)), default=each.present)
    return best if worth(best) > worth(each.present) * (1.0 + 1e-9) else None
