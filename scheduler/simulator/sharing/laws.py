"""How much slower jobs run for those beside them on a GPU: laws of interference (seams S4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.sharing.series import Floats, Ints

SHARED_IN_TIME = (0, 2, 3)
"""Of `usage.RESOURCES`: those that jobs take in turns. Memory is shared in space: it is there or it is not."""


class Law(Protocol):
    def slowdowns(self, signatures: Sequence[str], demands: Floats, gpus: Ints, n_gpus: int) -> Floats:
        """Return each job's slowdown, 1 = as alone. `demands`: shape (jobs, 4); `gpus`: where each job is."""


@dataclass(frozen=True, slots=True)
class InTurns:
    """Jobs take turns of equal length: who needs less than its turn is not slowed, the others share what is left alike.

    So it is with time on the GPU, SMs and PCIe; the scarcest of the three counts. Each neighbour costs `switching` by its own
    use of the GPU: contexts are changed and caches emptied.
    """

    switching: float = 0.05

    def slowdowns(self, signatures: Sequence[str], demands: Floats, gpus: Ints, n_gpus: int) -> Floats:
        del signatures
        found = np.ones(len(gpus))
        for resource in SHARED_IN_TIME:
            wanted = demands[:, resource]
            for gpu in np.flatnonzero(np.bincount(gpus, wanted, n_gpus) > 1.0):
                here = np.flatnonzero(gpus == gpu)
                found[here] = np.maximum(found[here], wanted[here] / level(wanted[here]))
        beside = np.bincount(gpus, demands[:, 0], n_gpus)[gpus] - demands[:, 0]
        slowed: Floats = found + self.switching * beside
        return slowed


def level(wanted: Floats) -> float:
    """Return the most that each gets where so many parts of one whole are wanted: `sum(min(wanted, level)) = 1` (max-min fair).

    Raises ValueError where no more than the whole is wanted: nobody is held back then.
    """
    if wanted.sum() <= 1.0:
        raise ValueError(f"{wanted.sum()} of one whole is wanted: there is enough for all")
    rising = np.sort(wanted)
    given = np.concatenate(([0.0], np.cumsum(rising)))
    for taken, left in enumerate(range(len(rising), 0, -1)):
        each = float((1.0 - given[taken]) / left)
        if each <= rising[taken]:
            return each
    raise AssertionError("unreachable: more than the whole is wanted")
