"""Sia's integer program (SOSP '23, 3.4): for each job at most one configuration, so that what the types have suffices.

    A_ij = N_i * g_ij / min_j g_ij                  g: goodput, N_i: the job's fewest GPUs
    A_ij <- r_i * A_ij for all but the present j    r_i = (T_i - n_i * S_i) / (T_i + S_i), the restart factor: for a job
                                                    that was stopped and waits too, whatever it is given restarts it
    min  sum_ij A_ij^p * X_ij + lambda * sum_i (1 - sum_j X_ij)        p = -0.5 < 0, the fairness power
    s.t. sum_j X_ij <= 1 for each job,  sum_ij r_j * X_ij <= GPUs for each type

T_i: seconds since the job came, n_i: its restarts, S_i: what one costs it; before its first S_i seconds are over r_i is 1.
Jobs whose configurations have the same values are one row with a count: who of them is taken is the queue's order to say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.matrix import Columns
from scheduler.placement.solver import relative_gap, solve_matrix

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.baselines.typelevel.configurations import Bucket, Kind

FAIRNESS_POWER = -0.5
ALLOCATION_INCENTIVE = 1.1
GAP = 1e-4
"""Relative gap at which the solver may stop (the public simulator's)."""


@dataclass(frozen=True, slots=True)
class Row:
    """A job's goodput by configuration. `present`: the one that it runs in, if any; `restart_factor` of all others."""

    job: int
    fewest_gpus: int
    goodput: Mapping[Kind, float]
    present: Kind | None = None
    restart_factor: float = 1.0

    def values(self) -> dict[Kind, float]:
        """What taking each configuration is worth: lambda - (r A)^p, for p < 0."""
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
    """Each taken job's configuration; the objective (of what is taken) and its proven gap; the program's size."""

    kinds: dict[int, Kind]
    objective: float | None
    gap: float | None
    columns: int
    rows: int


def restart_factor(lived_s: float, restarts: int, restart_s: float) -> float:
    """r_i: the part of its time that a job will have worked, after one more restart."""
    if lived_s < restart_s or restart_s <= 0:
        return 1.0
    return max(0.0, lived_s - restarts * restart_s) / (lived_s + restart_s)


def solve(rows: Sequence[Row], gpus: Mapping[Bucket, int], *, time_limit_s: float, seed: int) -> Chosen | None:
    """Who gets which configuration; `rows` in the queue's order, for ties. None when no answer was found in time."""
    groups: dict[tuple[tuple[Kind, float], ...], list[int]] = {}
    for row in rows:
        offered = tuple((kind, round(value, 9)) for kind, value in row.values().items() if value > 0)
        groups.setdefault(offered, []).append(row.job)
    groups.pop((), None)
    types = {bucket: len(groups) + position for position, bucket in enumerate(gpus)}
    columns, meant = Columns(), list[tuple[list[int], "Kind"]]()
    for line, (offered, jobs) in enumerate(groups.items()):
        for kind, value in offered:
            columns.add(value, len(jobs), ((line, 1.0), (types[kind.bucket], float(kind.gpus))))
            meant.append((jobs, kind))
    limits = np.array([*map(len, groups.values()), *gpus.values()], dtype=float)
    if not meant:
        return Chosen({}, None, None, 0, len(limits))
    matrix = columns.matrix(limits)
    x, bound = solve_matrix(matrix, gap=GAP, time_limit_s=time_limit_s, seed=seed)
    if x is None:
        return None
    taken: dict[int, Kind] = {}
    given = dict.fromkeys(map(id, groups.values()), 0)
    for (jobs, kind), count in zip(meant, x, strict=True):
        first = given[id(jobs)]
        given[id(jobs)] = first + int(count)
        taken |= dict.fromkeys(jobs[first : first + int(count)], kind)
    objective = float(matrix.cost @ x)
    return Chosen(taken, objective, relative_gap(objective, bound), matrix.columns, len(limits))
