"""Sia's integer program (SOSP '23, 3.4): for each job at most one configuration, so that what the types have suffices.

    A_ij = N_i * g_ij / min_j g_ij                  g: goodput, N_i: the job's fewest GPUs
    A_ij <- r_i * A_ij for all but the present j    r_i = (T_i - n_i * S_i) / (T_i + S_i), the restart factor: for a job
                                                    that was stopped and waits too, every configuration restarts it
    min  sum_ij A_ij^p * X_ij + lambda * sum_i (1 - sum_j X_ij)        p = -0.5 < 0, the fairness power
    s.t. sum_j X_ij <= 1 for each job,  sum_ij r_j * X_ij <= GPUs for each type

T_i: seconds since the job came, n_i: its restarts, S_i: the seconds of one; before its first S_i seconds are over r_i is 1.
Jobs whose configurations have the same values are one row with a count: the queue's order chooses among them.

Configurations (n nodes, r GPUs, type t) of Sia (SOSP '23, 3.3), and the sizes a job may be given in a round.

On N nodes of R GPUs of a type: (1, 1), (1, 2), (1, 4) ... up to R, then whole nodes (2, 2R) ... (N, NR). A job takes those
whose r its requirement set holds; a rigid job (3.4, "limited adaptivity") its own r on as few nodes as hold it. Nodes of a
type that differ in GPUs are types of their own here.

*Deviation*: a job of several sizes, none of them among Sia's, is given all of its own as a rigid job is its one; and since a
set may have holes, a job may always grow to its next size, not only to twice the GPUs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.matrix import Columns, Matrix, Relaxation, Relaxed, solve_matrix
from scheduler.placement.solver import relative_gap
from scheduler.policies.rivals.typelevel import balance

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scheduler.model import Job, Node


GROWTH = 2
"""The factor by which a job may grow over the most GPUs that it has run on (3.2): it starts with its fewest."""


@dataclass(frozen=True, slots=True, order=True)
class Bucket:
    """Nodes of a type with as many GPUs each."""

    gpu_type: str
    node_gpus: int


@dataclass(frozen=True, slots=True, order=True)
class Kind:
    """A configuration: a number of a bucket's GPUs, on as few nodes as hold them."""

    bucket: Bucket
    gpus: int

    @property
    def nodes(self) -> int:
        return -(-self.gpus // self.bucket.node_gpus)


def buckets_of(nodes: Iterable[Node]) -> dict[Bucket, list[Node]]:
    """GPU nodes by bucket, in the order of types and ids."""
    found: dict[Bucket, list[Node]] = {}
    for node in sorted(nodes, key=lambda each: each.id):
        if node.gpus_total and node.gpu_type is not None:
            found.setdefault(Bucket(node.gpu_type, node.gpus_total), []).append(node)
    return dict(sorted(found.items()))


def sia_sizes(node_gpus: int, nodes: int) -> set[int]:
    """R of Sia's configurations on nodes of a bucket."""
    powers = {1 << k for k in range(node_gpus.bit_length())}
    return powers | {node_gpus * count for count in range(1, nodes + 1)}


def kinds_of(job: Job, buckets: dict[Bucket, list[Node]], *, every_size: bool) -> list[Kind]:
    """The job's configurations on idle and busy nodes. `every_size`: one for each of its requirements, as Hops ran Sia."""
    usable = {each: nodes for each, nodes in buckets.items() if job.may_use(each.gpu_type)}
    own = [
        Kind(each, size)
        for each, nodes in usable.items()
        for size in job.requirement
        if size <= each.node_gpus * len(nodes)
    ]
    if every_size or len(job.requirement) == 1:
        return own
    sizes = {each: sia_sizes(each.node_gpus, len(nodes)) for each, nodes in usable.items()}
    return [kind for kind in own if kind.gpus in sizes[kind.bucket]] or own


def within_growth(kinds: Sequence[Kind], most_gpus: int) -> list[Kind]:
    """Those that a job may be given that has run on `most_gpus` at most (0 = it has not run)."""
    sizes = sorted({kind.gpus for kind in kinds})
    larger = [size for size in sizes if size > most_gpus]
    limit = max(GROWTH * most_gpus, larger[0] if larger else most_gpus)
    return [kind for kind in kinds if kind.gpus <= limit]


FAIRNESS_POWER = -0.5
ALLOCATION_INCENTIVE = 1.1
GAP = 1e-4
"""Relative gap at which the solver may stop: the public simulator's, whose A^p are rounded to 0.01 besides, which ours are not.
Rounds with too many states (`balance.MOST_STEPS`) may stop at `balance.COARSE_GAP`."""

WHOLE = 1e-6
"""The tolerance by which a value of the relaxation may be short of the whole number that it stands for."""


@dataclass(frozen=True, slots=True)
class Row:
    """A job's goodput by configuration. `present`: the one that it runs in, if any; `restart_factor` of all others."""

    job: int
    fewest_gpus: int
    goodput: Mapping[Kind, float]
    present: Kind | None = None
    restart_factor: float = 1.0

    def values(self) -> dict[Kind, float]:
        """The worth of taking each configuration: lambda - (r A)^p, for p < 0."""
        least = min(self.goodput.values())
        return {
            kind: ALLOCATION_INCENTIVE
            - (self.fewest_gpus * goodput / least * (1.0 if kind == self.present else self.restart_factor))
            ** FAIRNESS_POWER
            if kind == self.present or self.restart_factor > 0
            else -np.inf
            for kind, goodput in self.goodput.items()
        }


@dataclass(frozen=True, slots=True)
class Chosen:
    """Each taken job's configuration; their objective and its proven gap; the program's size."""

    kinds: dict[int, Kind]
    objective: float | None
    gap: float | None
    columns: int
    rows: int

    @property
    def gap_allowed(self) -> float:
        return GAP if (self.gap or 0.0) <= GAP else balance.COARSE_GAP


def restart_factor(lived_s: float, restarts: int, restart_s: float) -> float:
    """r_i: the part of its time that a job will have worked, after one more restart."""
    if lived_s < restart_s or restart_s <= 0:
        return 1.0
    return max(0.0, lived_s - restarts * restart_s) / (lived_s + restart_s)


def solve(rows: Sequence[Row], gpus: Mapping[Bucket, int], *, time_limit_s: float, seed: int) -> Chosen | None:
    """The configuration of each job; `rows` in the queue's order, for ties. None when no answer was found in time."""
    groups: dict[tuple[tuple[Kind, float], ...], list[int]] = {}
    for row in rows:
        offered = tuple((kind, round(value, 9)) for kind, value in row.values().items() if value > 0)
        groups.setdefault(offered, []).append(row.job)
    groups.pop((), None)
    if not groups:
        return Chosen({}, None, None, 0, len(gpus))
    matrix = _matrix(groups, gpus)
    relaxed = Relaxation(matrix, seed).solve(time_limit_s)
    if not relaxed.optimal:
        return None
    x, bound = _from_prices(groups, gpus, relaxed)
    if x is None:
        x, bound = solve_matrix(matrix, gap=GAP, time_limit_s=time_limit_s, seed=seed)
    if x is None:
        return None
    taken: dict[int, Kind] = {}
    counts = iter(x)
    for offered, jobs in groups.items():
        first = 0
        for (kind, _), count in zip(offered, counts, strict=False):
            taken |= dict.fromkeys(jobs[first : first + int(count)], kind)
            first += int(count)
    objective = float(matrix.cost @ x)
    return Chosen(taken, objective, relative_gap(objective, bound), matrix.columns, len(matrix.row_upper))


def _matrix(groups: Mapping[tuple[tuple[Kind, float], ...], Sequence[int]], gpus: Mapping[Bucket, int]) -> Matrix:
    """A row for each group of equal jobs, then one for each type; a column for each group's configuration."""
    types = {bucket: len(groups) + position for position, bucket in enumerate(gpus)}
    columns = Columns()
    for line, (offered, jobs) in enumerate(groups.items()):
        for kind, value in offered:
            columns.add(value, len(jobs), ((line, 1.0), (types[kind.bucket], float(kind.gpus))))
    return columns.matrix(np.array([*map(len, groups.values()), *gpus.values()], dtype=float))


def _from_prices(
    groups: Mapping[tuple[tuple[Kind, float], ...], Sequence[int]], gpus: Mapping[Bucket, int], relaxed: Relaxed
) -> tuple[np.ndarray | None, float | None]:
    """The columns' whole values and the proven bound, job by job from the relaxation; None where that is too large."""
    types = {bucket: position for position, bucket in enumerate(gpus)}
    prices = [float(each) for each in relaxed.prices[len(groups) :]]
    jobs: list[Sequence[balance.Option]] = []
    start: list[int | None] = []
    first = 0
    for offered, equal in groups.items():
        options = [balance.Option(value, types[kind.bucket], kind.gpus) for kind, value in offered]
        whole = np.floor(relaxed.values[first : first + len(options)] + WHOLE).astype(int)
        given = [k for k, count in enumerate(whole) for _ in range(count)]
        jobs += [options] * len(equal)
        start += [*given, *[balance.loses_least(options, prices)] * (len(equal) - len(given))]
        first += len(options)
    plan = balance.solve(jobs, list(gpus.values()), prices, start, gap=GAP)
    if plan is None:
        return None, None
    x = np.zeros(first)
    position = iter(plan.taken)
    first = 0
    for offered, equal in groups.items():
        for k in (next(position) for _ in equal):
            if k is not None:
                x[first + k] += 1
        first += len(offered)
    return x, plan.bound
