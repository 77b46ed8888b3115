"""How much slower jobs run for those beside them on a GPU: laws of interference (seams S4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from scheduler.sharing.series import Floats, Ints

SHARED_IN_TIME = (0, 2, 3)
"""The places in `usage.RESOURCES` of those that jobs take in turns. Memory is shared in space: it is there or it is not."""

LEAST_SPEED = 1e-3


class Law(Protocol):
    def slowdowns(self, signatures: Sequence[str], demands: Floats, gpus: Ints, n_gpus: int) -> Floats:
        """Return each job's slowdown, 1 = none. `demands`: shape (jobs, 4); `gpus`: where each job is."""


@dataclass(frozen=True, slots=True)
class InTurns:
    """Jobs take turns of equal length: a job that needs less than its turn is not slowed, the others share the rest equally.

    So it is with time on the GPU, SMs and PCIe; the scarcest of the three counts. Each neighbour costs `switching` by its own
    use of the GPU: contexts are changed and caches emptied. Demand beyond the GPU's time costs `crowding` times as much again: a
    fifth of Gavel's measured pairs did less together than one of the jobs, which turns would not explain.
    """

    switching: float = 0.05
    crowding: float = 0.0

    def slowdowns(self, signatures: Sequence[str], demands: Floats, gpus: Ints, n_gpus: int) -> Floats:
        del signatures
        found = np.ones(len(gpus))
        wanted_of = summed(gpus, demands, n_gpus)
        for resource in SHARED_IN_TIME:
            wanted, full = demands[:, resource], wanted_of[:, resource] > 1.0
            if not full.any():
                continue
            on_full = full[gpus].nonzero()[0]
            levels = _levels(gpus[on_full].tolist(), wanted[on_full].tolist())
            at_most = np.array([levels.get(gpu, np.inf) for gpu in gpus[on_full].tolist()])
            found[on_full] = np.maximum(found[on_full], wanted[on_full] / at_most)
        together = wanted_of[gpus, 0]
        slowed: Floats = found + self.switching * (together - demands[:, 0])
        if self.crowding:
            slowed += self.crowding * np.maximum(together - 1.0, 0.0)
        return slowed


def summed(gpus: Ints, demands: Floats, n_gpus: int) -> Floats:
    """Return the demand of all jobs on each GPU. `demands`: shape (jobs, 4); `gpus`: where each is. Shape (n_gpus, 4)."""
    found = np.zeros((n_gpus, demands.shape[1]))
    np.add.at(found, gpus, demands)
    return found


def level(wanted: Sequence[float]) -> float:
    """Return the most that each gets where these parts of one whole are wanted: `sum(min(wanted, level)) = 1` (max-min fair).

    Raises ValueError where no more than the whole is wanted: nobody is held back then.
    """
    total = sum(wanted)
    if total <= 1.0:
        raise ValueError(f"{total} of one whole is wanted: there is enough for all")
    rising, given = sorted(wanted), 0.0
    for taken, own in enumerate(rising):
        each = (1.0 - given) / (len(rising) - taken)
        if each <= own:
            return each
        given += own
    raise AssertionError("unreachable: more than the whole is wanted")


def _levels(gpus: Sequence[int], wanted: Sequence[float]) -> dict[int, float]:
    """Return the level of each GPU that is wanted for more than the whole of it; lists, for they are a few numbers each."""
    here: dict[int, list[float]] = {}
    for gpu, own in zip(gpus, wanted, strict=True):
        here.setdefault(gpu, []).append(own)
    return {
        gpu: level(own) for gpu, own in here.items() if sum(own) > 1.0
    }  # added in another order it may be exactly one


@dataclass(frozen=True, slots=True)
class MeasuredPairs:
    """Slowdowns measured by pair, added up where there are several neighbours; pairs that were never measured by `otherwise`.

    `speeds[(a, b)]`: the speed of `a` beside `b` over its full speed, as in Gavel's table of co-located throughputs.
    """

    speeds: Mapping[tuple[str, str], float]
    otherwise: Law = field(default_factory=InTurns)

    def slowdowns(self, signatures: Sequence[str], demands: Floats, gpus: Ints, n_gpus: int) -> Floats:
        here: list[list[int]] = [[] for _ in range(n_gpus)]
        for job, gpu in enumerate(gpus):
            here[gpu].append(job)
        found = np.ones(len(signatures))
        for job, gpu in enumerate(gpus):
            for other in here[gpu]:
                if other != job:
                    found[job] += self._slow_by_pair(signatures, demands, job, other)
        return found

    def _slow_by_pair(self, signatures: Sequence[str], demands: Floats, job: int, other: int) -> float:
        speed = self.speeds.get((signatures[job], signatures[other]))
        if speed is not None:
            return 1.0 / max(speed, LEAST_SPEED) - 1.0
        pair = [job, other]
        alone = self.otherwise.slowdowns([signatures[n] for n in pair], demands[pair], np.zeros(2, dtype=np.int64), 1)
        return float(alone[0]) - 1.0
