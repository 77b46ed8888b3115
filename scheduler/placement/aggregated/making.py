"""The state of a stage while it is solved: its candidates, prices and bounds; the greedy plan, and the value of any plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scheduler.copies import replace
from scheduler.placement.aggregated.greedy_by_prices import Outlook, seat_by_prices
from scheduler.placement.aggregated.idle_columns import IdleColumns
from scheduler.placement.aggregated.memory import Solved
from scheduler.placement.aggregated.patterns import Pattern, Supply
from scheduler.placement.aggregated.plans import AggregatedPlan, IntegerPlan, Limits, Placed
from scheduler.placement.aggregated.prices import Prices, prices_of
from scheduler.placement.aggregated.pricing import Cap, Problem
from scheduler.placement.aggregated.skeletons import PieceRow
from scheduler.placement.core_counts import per_gpu, share_of_speed, spread_rates
from scheduler.placement.solver import relative_gap

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from scheduler.estimator.estimator import Estimator
    from scheduler.model import Configuration, Ranked
    from scheduler.placement.access import Rules
    from scheduler.placement.aggregated.candidates import Candidates, Group
    from scheduler.placement.aggregated.classes import Classes
    from scheduler.placement.ledger import Ledger
    from scheduler.placement.running import Participant

FIRST_PRICES_SHARE = 0.7
"""A share of the time given: the first prices must be found by then, which leaves a third for the pass by them.

A job that this pass does not reach has the least value; a job without candidates is not.
"""
ROUNDING = 1e-9


class Maker:
    """The plans of one stage, from its candidates on."""

    def __init__(
        self,
        classes: Classes,
        ledger: Ledger,
        estimator: Estimator,
        candidates: Candidates,
        weight: Mapping[int, float],
        rules: Rules,
        participants: Mapping[int, Participant],
        memory: Solved | None = None,
    ) -> None:
        self.participants = participants
        self.memory = self.left = memory or Solved()
        self.classes, self.ledger, self.estimator, self.rules = classes, ledger, estimator, rules
        self.candidates, self.weight = candidates, weight
        self.caps = self._quotas()
        self.prices: Prices | None = None

    def greedy(self, limits: Limits, began_s: float | None = None) -> AggregatedPlan:
        """Running jobs keep their place, for no greedy plan stops a job; then waiting ones by prices."""
        idle_columns = IdleColumns(self.classes, self.ledger, self.candidates)
        taken = [
            (group.members[0], made, group, int(self.candidates.first[g]))
            for g, group in enumerate(self.candidates.groups)
            if group.running is not None and (made := idle_columns.seat(group.job, group.candidates[0])) is not None
        ]
        if self.candidates.groups:
            late = limits.until(FIRST_PRICES_SHARE, limits.clock() if began_s is None else began_s)
            prices = self.prices = prices_of(
                self.candidates, self.classes, self.caps, start=self.memory.prices, late=lambda: late() <= 0
            )
            self.left = self.memory.moved_on(prices)
            sharp = replace(prices, pieces=self.memory.sharpened(prices.pieces, self.candidates.rows))
            idle_columns.loss = Outlook(self.classes, self.candidates, sharp, idle_columns).loss
            taken += seat_by_prices(self.candidates, sharp, self.caps, idle_columns, lambda: limits.left_s <= 0)
        return self.valued(taken)

    def valued(self, taken: Sequence[tuple[Ranked, Configuration, Group, int]]) -> AggregatedPlan:
        """The plan with every spread job, and every job with a speed of its own, at what it gets on the nodes it really got."""
        placed: list[Placed] = []
        for ranked, configuration, group, number in taken:
            made, running = configuration, group.running
            if running is not None and running.keeps(configuration):
                made = running.present  # by any candidate
            elif self._has_own_speed(ranked, configuration) or (
                group.candidates[self.candidates.position[number]].spread and len(configuration.shares) > 1
            ):
                made = self._measured(ranked, configuration)
            value = self._value(ranked, made, group.least, configuration)
            gain = self.rules.gain.of(made.throughput / group.least)
            placed.append(Placed(ranked, made, gain, value, len(group.candidates)))
        placed.sort(key=lambda each: each.ranked.rank)
        return AggregatedPlan(placed, self.candidates, self.classes, sum(each.value for each in placed))

    def _value(self, ranked: Ranked, made: Configuration, least: float, solved: Configuration) -> float:
        """`solved`: as the solve took it, before it was asked how fast the nodes are that it really got."""
        job = ranked.job
        w, gain = self.weight[job.id], self.rules.gain.of(made.throughput / least) * self.rules.factor(job, made)
        running = self.participants.get(job.id)
        if running is None:
            return w * gain
        present = self.rules.gain.of(running.present.throughput / least)
        return running.value_of(w, gain, present, 1.0 if running.keeps(made) else running.factor_of(solved))

    def _has_own_speed(self, ranked: Ranked, configuration: Configuration) -> bool:
        nodes = [each.node for each in configuration.shares]
        return self.classes.own_speeds.known(ranked.job, configuration.gpus, nodes)

    def _measured(self, ranked: Ranked, configuration: Configuration) -> Configuration:
        shares, job, idle = configuration.shares, ranked.job, self.ledger.free
        speeds = [
            per_gpu(self.estimator, job, idle[each.node].node, configuration.gpus, len(shares)) for each in shares
        ]
        speed, source = min(speeds)
        if len(shares) > 1:
            pace = share_of_speed(configuration.cores // configuration.gpus, spread_rates(job)[0], 1)
        else:
            pace = share_of_speed(configuration.cores, job.cores, configuration.gpus)
        return type(configuration)(job.id, shares, speed * configuration.gpus * pace, source)

    def standing(self, problem: Problem) -> IntegerPlan:
        """The last plan, as a plan: every running job keeps its place, as far as that is allowed."""
        plan = IntegerPlan.nothing(problem)
        rows = self.candidates.rows
        for k, each in enumerate(problem.supply.classes):
            kept = [(rows.get(PieceRow(pin.pool, *pin.piece)), pin.units) for pin in each.key.pins]
            pattern = Pattern(k, tuple(sorted((row, units) for row, units in kept if row is not None)))
            if pattern.pieces and problem.supply.fits(pattern):
                plan.patterns[pattern] = 1
        offered = np.zeros(len(rows))
        for row, units in (piece for pattern in plan.patterns for piece in pattern.pieces):
            offered[row] += units
        firsts = np.flatnonzero(self.candidates.position == 0)
        running = [
            number for number in firsts if self.candidates.groups[self.candidates.group[number]].running is not None
        ]
        plan.candidates[
            [number for number in running if offered[self.candidates.row[number]] >= self.candidates.need[number]]
        ] = 1
        plan.objective = float(self.candidates.value @ plan.candidates)
        over = any(float(cap.weights @ plan.candidates[cap.candidates]) > cap.upper for cap in problem.caps)
        return IntegerPlan.nothing(problem) if over else plan  # a quota may have been cut since they started

    def nobody_could_get_more(self, plan: AggregatedPlan) -> bool:
        """Whether the plan has the value of one of which no node sets limits."""
        if not self.candidates.groups or self.candidates.out_of_time:
            return False
        return plan.objective >= self.simple_bound() * (1.0 - ROUNDING)

    def good_enough(self, plan: AggregatedPlan, gap: float) -> bool:
        """Whether the prices already prove the plan within the gap."""
        return not self.candidates.out_of_time and self.met(plan, self.simple_bound(), gap)

    def simple_bound(self) -> float:
        """The best of those that need no search."""
        found = self.pooled_bound()
        return found if self.prices is None else min(found, self.prices.bound)

    def pooled_bound(self) -> float:
        """A bound that needs no prices: nodes pooled, each job at its best value for its fewest GPUs, the last in part."""
        groups, firsts = self.candidates.groups, self.candidates.first[:-1]
        best = np.maximum.reduceat(self.candidates.value, firsts)
        least = np.minimum.reduceat(self.candidates.gpus, firsts)
        order = np.argsort(-best / least, kind="stable")
        members = np.array([len(group.members) for group in groups], dtype=float)[order]
        idle = float(sum(each.key.gpus * len(each.nodes) for each in self.classes.all))
        before = np.concatenate(([0.0], np.cumsum(members * least[order])[:-1]))
        taken = np.clip((idle - before) / least[order], 0.0, members)
        return float(best[order] @ taken)

    def met(self, best: AggregatedPlan, bound: float, gap: float) -> bool:
        """Whether the bound proves the plan within the gap."""
        proven = relative_gap(best.objective, bound)
        return proven is not None and proven <= gap

    def problem(self, late: Callable[[], bool] = lambda: False) -> Problem:
        """The problem to search. Once `late` says so patterns are no longer listed."""
        supply = Supply(self.classes, self.candidates, late)
        members = np.array([len(group.members) for group in self.candidates.groups], dtype=float)
        return Problem(self.candidates, supply, list(self.caps), members, supply.counts, supply.listed, supply.complete)

    def _quotas(self) -> list[Cap]:
        """A row per tenant and quota that its jobs could exceed."""
        candidates = self.candidates
        whose = np.array([group.job.tenant for group in candidates.groups], dtype=int)[candidates.group]
        caps: list[Cap] = []
        for tenant, allowance in self.ledger.allowances.items():
            if allowance.gpus is None and allowance.cores is None:
                continue
            own = np.flatnonzero(whose == tenant)
            for most, asked in ((allowance.whole_gpus, candidates.gpus), (allowance.cores, candidates.cores)):
                if most is not None and len(own):
                    caps.append(Cap(own, asked[own], float(most)))
        return caps
