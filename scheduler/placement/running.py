"""Running elastic jobs in the formulation (algorithms.md sections 6 and 7; Hops 3.6): the value of each way to run on.

    value of a configuration j of a running job = w * (G_j * f_j + G_present * S / period)
    f_present = 1,  f_j = max(0, (T - N*S) / (T + S)) for every other one     more under `berth`: `scheduler.replan.paying`
    w = max(own, the median over the waiting jobs of the window)     flatter G (ours): a lower quantile (`objective.Gain.floor`)

T: seconds since its first start, N: its restarts so far, S: seconds that a restart costs. *Not* selecting a running job costs w
* G_present * S / period. This is written as a gain of every way to select it: that is the same program up to a constant, and
needs no more rows. `scheduler.replan.participants` says which jobs take part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from scheduler.copies import replace
from scheduler.estimator.layers import GUESSES
from scheduler.placement.free_capacity import Offer
from scheduler.placement.located import Candidate, Program, weights

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from scheduler.model import Configuration, Job, Ranked, Running
    from scheduler.placement.ledger import Ledger


Values = TypeVar("Values", float, np.ndarray)


class Factors(NamedTuple):
    """The factor f of a running job's other configurations, by GPUs and by whether their speed is known."""

    usual: float
    teaching: float  # of more GPUs than it ever had, at a speed that is not known yet: to run there teaches it
    ever: int = 0  # the most GPUs that it ever had

    def of(self, gpus: np.ndarray | int, guessed: np.ndarray | bool) -> np.ndarray:
        """The factors of these numbers of GPUs. `guessed`: where their speed is not known yet."""
        return np.where(np.greater(gpus, self.ever) & guessed, self.teaching, self.usual)

    def of_one(self, configuration: Configuration) -> float:
        return float(self.of(configuration.gpus, configuration.source in GUESSES))


@dataclass(frozen=True, slots=True)
class Participant:
    """A running job that a re-plan may resize, move or stop. `ranked`: ranked as if it waited, before all waiting jobs."""

    live: Running
    ranked: Ranked
    present: Configuration
    factors: Factors  # f of every configuration but the present one
    unselected_cost: float  # S / period: the cost of not selecting it, in units of w * G_present

    @property
    def job(self) -> Job:
        return self.ranked.job

    def keeps(self, configuration: Configuration) -> bool:
        return configuration.shares == self.present.shares

    def factor_of(self, configuration: Configuration) -> float:
        return 1.0 if self.keeps(configuration) else self.factors.of_one(configuration)

    def offered(self, found: Iterable[Configuration]) -> tuple[Configuration, ...]:
        """The present configuration, then the others."""
        return (self.present, *(each for each in found if not self.keeps(each)))

    def own_offers(self, offers: Sequence[Offer], ledger: Ledger) -> list[Offer]:
        """The offers, and on its own nodes that are kept for another job what it holds there now."""
        open_to = {offer.node.id for offer in offers}
        capacities = [ledger.free[share.node] for share in self.present.shares]
        own = [
            Offer(free.node, share.gpus, share.cores, share.memory_mib, free.tenants)
            for free, share in zip(capacities, self.present.shares, strict=True)
            if share.node not in open_to
        ]
        return sorted([*offers, *own], key=lambda offer: offer.node.id)

    def value(self, candidate: Candidate, weight: float, present_gain: float) -> float:
        """The objective value of a candidate whose value is w * G_j so far (times what borrowing costs)."""
        factor = self.factor_of(candidate.configuration)
        return candidate.value * factor + weight * present_gain * self.unselected_cost

    def value_of(self, weight: float, gain: Values, present_gain: float, factor: Values) -> Values:
        """The same from w, G (times what borrowing costs) and f."""
        found: Values = weight * (gain * factor + present_gain * self.unselected_cost)
        return found


def joint_weights(
    picked: Sequence[Ranked],
    participants: Mapping[int, Participant],
    lambda_: float,
    *,
    floor: float = 0.5,
    slight: float = 0.0,
) -> dict[int, float]:
    """The weights of waiting and running jobs, by one measure.

    `floor`: a quantile of the waiting ones, see `objective.Gain.floor`. `slight`: see `objective.Gain.slight`.
    """
    found = weights([*(each.ranked for each in participants.values()), *picked], lambda_, slight)
    if picked and participants:
        least = float(np.quantile([found[each.job.id] for each in picked], floor))
        found |= {number: max(found[number], least) for number in participants}
    return found


def revalued(
    candidates: Sequence[Candidate], participants: Mapping[int, Participant], weight: Mapping[int, float]
) -> list[Candidate]:
    """The candidates with the objective values of running jobs in place of those of waiting ones."""
    gains = {each.ranked.job.id: each.gain for each in candidates if is_present(each, participants)}
    found: list[Candidate] = []
    for each in candidates:
        number = each.ranked.job.id
        running = participants.get(number)
        value = each.value if running is None else running.value(each, weight[number], gains[number])
        found.append(replace(each, value=value))
    return found


def least_of_all(
    least: Mapping[int, float],
    participants: Mapping[int, Participant],
    candidates: Mapping[int, Sequence[Configuration]],
) -> dict[int, float]:
    """The divisor of running jobs' G: the least of all, with the present configuration and those on kept nodes."""
    smallest = {number: min(each.throughput for each in candidates[number]) for number in participants}
    return {number: min(own, least.get(number, own)) for number, own in smallest.items()}


def is_present(candidate: Candidate, participants: Mapping[int, Participant]) -> bool:
    running = participants.get(candidate.ranked.job.id)
    return running is not None and running.keeps(candidate.configuration)


def changes(candidates: Sequence[Candidate], participants: Mapping[int, Participant]) -> set[int]:
    """The columns that would stop a running job: no greedy plan takes one."""
    return {
        column
        for column, each in enumerate(candidates)
        if each.ranked.job.id in participants and not is_present(each, participants)
    }


def must_run(program: Program, candidates: Sequence[Candidate], jobs: Collection[int]) -> None:
    """Add rows that select each of these jobs, if it has candidates."""
    columns: dict[int, list[int]] = {}
    for column, candidate in enumerate(candidates):
        if candidate.ranked.job.id in jobs:
            columns.setdefault(candidate.ranked.job.id, []).append(column)
    for own in columns.values():
        program.row([(column, -1.0) for column in own], -1.0)
