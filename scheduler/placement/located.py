"""The located ILP (Hops eq. 11-13; algorithms.md section 6): a variable per (job, located configuration).

    max  sum_ij w_i * G_ij * X_ij
    s.t. sum_j X_ij <= 1                 each job at most one configuration
         sum_ij use_ijt * X_ij <= S_t    each node's idle GPUs, cores and memory
G_ij = throughput of configuration j over the smallest of the job's (see `Candidates.least`: the same in both
formulations); w_i = ((prior_i + bias) / largest)^lambda, at least
1e-6; bias = 0 when all priorities are positive, else |min prior| + 0.01. Ours beside the paper's: rows for tenants'
quotas, and one tenant at a time on nodes that run all jobs as one account. Rows that can never bind are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scheduler.model import Configuration, Ranked, node_of
from scheduler.placement.access import NO_RULES, Rules
from scheduler.placement.objective import LINEAR, Gain

if TYPE_CHECKING:
    from scheduler.placement.ledger import Ledger

WEIGHT_FLOOR = 1e-6


@dataclass(slots=True)
class Program:
    """max objective * x, rows <= upper, 0 <= x <= 1; whole where `binary`. Rows: (columns, coefficients, upper)."""

    objective: list[float] = field(default_factory=list)
    binary: list[bool] = field(default_factory=list)
    rows: list[tuple[list[int], list[float], float]] = field(default_factory=list)

    def column(self, value: float, *, binary: bool = True) -> int:
        self.objective.append(value)
        self.binary.append(binary)
        return len(self.objective) - 1

    def row(self, entries: Iterable[tuple[int, float]], upper: float) -> None:
        columns, coefficients = zip(*entries, strict=True)
        self.rows.append((list(columns), list(coefficients), upper))


@dataclass(frozen=True, slots=True)
class Candidate:
    """A column: the job, its configuration, G and the objective value w * G."""

    ranked: Ranked
    configuration: Configuration
    gain: float
    value: float


def weights(queue: Sequence[Ranked], lambda_: float, slight: float = 0.0) -> dict[int, float]:
    """w_i per job id, in [1e-6, 1]. `slight` is added to each priority."""
    priors = {ranked.job.id: ranked.prior + slight for ranked in queue}
    lowest = min(priors.values(), default=1.0)
    bias = 0.0 if lowest > 0 else abs(lowest) + 0.01
    # Divided by the largest before the power: the same ratio, and no overflow at lambda = 4.
    largest = max(priors.values(), default=1.0) + bias
    return {job: max(WEIGHT_FLOOR, ((prior + bias) / largest) ** lambda_) for job, prior in priors.items()}


def gains(configurations: Sequence[Configuration], least: float | None = None, gain: Gain = LINEAR) -> list[float]:
    """G_ij of one job's configurations: throughput over the smallest, of these when `least` is not known."""
    smallest = least or min((each.throughput for each in configurations), default=1.0)
    return [gain.of(each.throughput / smallest) for each in configurations]


def thin(configurations: Sequence[Configuration], most: int, offset: int) -> Sequence[Configuration]:
    """About `most` of a job's configurations, spread evenly over sizes and nodes, from another start for each job.

    The fastest, the slowest and the smallest always stay, so gains, and the knapsack bound, are those of the whole.
    """
    count = len(configurations)
    if count <= most:
        return configurations
    speeds = [each.throughput for each in configurations]
    smallest = min(range(count), key=lambda k: configurations[k].gpus)
    kept = {speeds.index(max(speeds)), speeds.index(min(speeds)), smallest}
    kept.update((offset + k * count // most) % count for k in range(most))
    return [configurations[k] for k in sorted(kept)]


def candidates_of(
    queue: Sequence[Ranked],
    configurations: Mapping[int, Sequence[Configuration]],
    weight: Mapping[int, float],
    *,
    least: Mapping[int, float] | None = None,
    rules: Rules = NO_RULES,
) -> list[Candidate]:
    """The columns, by rank, then in the order of generation. `least`: each job's smallest throughput, where known."""
    found: list[Candidate] = []
    for ranked in queue:
        job = ranked.job
        own = configurations.get(job.id, ())
        for each, gain in zip(own, gains(own, (least or {}).get(job.id), rules.gain), strict=True):
            found.append(Candidate(ranked, each, gain, weight[job.id] * gain * rules.factor(job, each)))
    return found


def in_turn(
    chosen: Sequence[int], candidates: Sequence[Candidate], stage: Sequence[Ranked], ledger: Ledger
) -> list[int]:
    """The chosen columns with ties settled in queue order, which the objective cannot see.

    A job left out takes the place of a later one when it has the very same configuration at the very same value (a
    burst of equal jobs, all with LR 0). Between tenants only where neither a quota nor trust could come in between.
    """
    columns = {(each.ranked.job.id, each.configuration.shares): k for k, each in enumerate(candidates)}
    by_rank = sorted(chosen, key=lambda column: candidates[column].ranked.rank)
    placed = {candidates[column].ranked.job.id for column in by_rank}
    for ranked in stage:
        if ranked.job.id in placed:
            continue
        for position in range(len(by_rank) - 1, -1, -1):
            later = candidates[by_rank[position]]
            if later.ranked.rank < ranked.rank:
                break
            own = columns.get((ranked.job.id, later.configuration.shares))
            if own is None or candidates[own].value != later.value or not _may_swap(ranked, later, ledger):
                continue
            by_rank[position] = own
            placed = (placed | {ranked.job.id}) - {later.ranked.job.id}
            by_rank.sort(key=lambda column: candidates[column].ranked.rank)
            break
    return by_rank


def _may_swap(ranked: Ranked, later: Candidate, ledger: Ledger) -> bool:
    ours, theirs = ranked.job.tenant, later.ranked.job.tenant
    if ours == theirs:
        return True
    shares = later.configuration.shares
    return ours not in ledger.allowances and not any(ledger.free[each.node].node.exclusive_tenant for each in shares)


def knapsack_bound(candidates: Sequence[Candidate], ledger: Ledger) -> float:
    """An upper bound on the objective without a solver: nodes pooled, each job at its largest value for its least GPUs.

    It relaxes every row to one (the idle GPUs in all) and lets the last job be taken in part, so no plan exceeds it; it
    stands in for the solver's bound when the limit came before that had one.
    """
    best: dict[int, tuple[float, int]] = {}
    for candidate in candidates:
        value, gpus = best.get(candidate.ranked.job.id, (0.0, candidate.configuration.gpus))
        best[candidate.ranked.job.id] = (max(value, candidate.value), min(gpus, candidate.configuration.gpus))
    bound, left = 0.0, ledger.idle_gpus
    for value, gpus in sorted(best.values(), key=lambda each: each[0] / each[1], reverse=True):
        bound += value * min(1.0, left / gpus)
        left = max(0, left - gpus)
    return bound


def build(candidates: Sequence[Candidate], ledger: Ledger) -> Program:
    """The program of these candidates on what is idle in the ledger; column k is candidate k, helpers come after."""
    program = Program()
    for candidate in candidates:
        program.column(candidate.value)
    _one_each(program, candidates)
    _node_rows(program, candidates, ledger)
    _limit_rows(program, candidates, ledger)
    _quota_rows(program, candidates, ledger)
    _trust_rows(program, candidates, ledger)
    return program


def _one_each(program: Program, candidates: Sequence[Candidate]) -> None:
    per_job: dict[int, list[int]] = {}
    for column, candidate in enumerate(candidates):
        per_job.setdefault(candidate.ranked.job.id, []).append(column)
    for columns in per_job.values():
        if len(columns) > 1:
            program.row([(column, 1.0) for column in columns], 1.0)


def _node_rows(program: Program, candidates: Sequence[Candidate], ledger: Ledger) -> None:
    uses: dict[tuple[int, str], list[tuple[int, float]]] = {}
    for column, candidate in enumerate(candidates):
        for share in candidate.configuration.shares:
            uses.setdefault((share.node, "gpus"), []).append((column, share.gpus))
            uses.setdefault((share.node, "cores"), []).append((column, share.cores))
            uses.setdefault((share.node, "memory"), []).append((column, share.memory_mib))
    for (node, resource), entries in uses.items():
        free = ledger.free[node]
        idle = {"gpus": len(free.gpus), "cores": len(free.cores), "memory": free.memory_mib}[resource]
        _row_if_binding(program, candidates, entries, idle)


def _limit_rows(program: Program, candidates: Sequence[Candidate], ledger: Ledger) -> None:
    """On each node, the jobs limited to the cores reserved for their array share what is left of those (section 4)."""
    uses: dict[int, list[tuple[int, float]]] = {}
    for column, candidate in enumerate(candidates):
        if candidate.ranked.job.id in ledger.limited:
            for share in candidate.configuration.shares:
                uses.setdefault(share.node, []).append((column, share.cores))
    for node, entries in uses.items():
        _row_if_binding(program, candidates, entries, ledger.cores_for(node, limited=True))


def _row_if_binding(
    program: Program, candidates: Sequence[Candidate], entries: Sequence[tuple[int, float]], upper: int
) -> None:
    """A row, scaled to <= 1 (memory in MiB would spoil tolerances), unless all jobs fit together anyway."""
    most: dict[int, float] = {}
    for column, use in entries:
        job = candidates[column].ranked.job.id
        most[job] = max(most.get(job, 0.0), use)
    if sum(most.values()) > upper:
        scale = max(1.0, upper / 1000)
        program.row([(column, use / scale) for column, use in entries if use], upper / scale)


def _quota_rows(program: Program, candidates: Sequence[Candidate], ledger: Ledger) -> None:
    for tenant, allowance in ledger.allowances.items():
        own = [(k, c.configuration) for k, c in enumerate(candidates) if c.ranked.job.tenant == tenant]
        if allowance.whole_gpus is not None and own:
            _row_if_binding(program, candidates, [(k, each.gpus) for k, each in own], allowance.whole_gpus)
        if allowance.cores is not None and own:
            _row_if_binding(program, candidates, [(k, each.cores) for k, each in own], allowance.cores)


def _trust_rows(program: Program, candidates: Sequence[Candidate], ledger: Ledger) -> None:
    """X_ij <= y(node, tenant) and sum of y over tenants <= 1: y may be continuous, for a whole X pushes it to 1."""
    there: dict[int, dict[int, list[int]]] = {}
    for column, candidate in enumerate(candidates):
        for share in candidate.configuration.shares:
            if ledger.free[share.node].node.exclusive_tenant:
                there.setdefault(node_of(share.node), {}).setdefault(candidate.ranked.job.tenant, []).append(column)
    for by_tenant in there.values():
        if len(by_tenant) > 1:
            owners = {tenant: program.column(0.0, binary=False) for tenant in by_tenant}
            program.row([(owner, 1.0) for owner in owners.values()], 1.0)
            for tenant, columns in by_tenant.items():
                for column in columns:
                    program.row([(column, 1.0), (owners[tenant], -1.0)], 0.0)
