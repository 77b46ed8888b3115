"""Greedy placement in queue order.

It is what Hops' ILP does for an infinite lambda (Hops 3.6). It is also the plan when the solver has none, and it completes a plan
that a gap or a time limit left incomplete. Each job in turn takes the configuration with the highest throughput that fits; of
equal ones the one that leaves the fewest idle GPUs on its nodes, then the one on the fewest nodes, then on the lowest node ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from scheduler.model import Configuration
    from scheduler.placement.ledger import Ledger
    from scheduler.placement.located import Candidate


def best_fit(configurations: Sequence[Configuration], ledger: Ledger, tenant: int) -> Configuration | None:
    """The configuration the rule above picks among those that fit the ledger as it is; None when none fits."""
    feasible = (each for each in configurations if ledger.shortfall(each, tenant) is None)
    return min(feasible, key=lambda each: _preference(each, ledger), default=None)


def _preference(configuration: Configuration, ledger: Ledger) -> tuple[float, int, int, tuple[int, ...]]:
    left = sum(len(ledger.free[share.node].gpus) - share.gpus for share in configuration.shares)
    nodes = tuple(share.node for share in configuration.shares)
    return (-configuration.throughput, left, len(nodes), nodes)


def greedy_columns(candidates: Sequence[Candidate], ledger: Ledger, without: Collection[int]) -> list[int]:
    """The candidates, by position, that a greedy pass in queue order takes. It takes from the ledger, so pass a copy.

    The rule is the one above, with the objective value in place of the throughput: a borrowed place counts for less.
    """
    per_job: dict[int, list[int]] = {}
    for column, candidate in enumerate(candidates):
        if column in without:
            continue
        per_job.setdefault(candidate.ranked.job.id, []).append(column)
    taken: list[int] = []
    for columns in per_job.values():
        own = [(column, candidates[column]) for column in columns]
        tenant = own[0][1].ranked.job.tenant
        fits = [pair for pair in own if ledger.shortfall(pair[1].configuration, tenant) is None]
        if fits:
            column, best = min(
                fits, key=lambda pair: (-pair[1].value, _preference(pair[1].configuration, ledger)[1:], pair[0])
            )
            ledger.take(best.configuration, tenant)
            taken.append(column)
    return taken
