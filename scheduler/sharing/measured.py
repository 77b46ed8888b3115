"""Measured pairs of an asker and the jobs on each GPU (section 11: the table corrects the policies' guesses).

A pair counts by how many records it has and how old they are: few or old ones weigh little, so that a pair that was bad once
gets another try in the end. Of two the one that is slowed more counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from scheduler.model import PairSeen
from scheduler.sharing.series import Flags, Floats, Ints

if TYPE_CHECKING:
    from scheduler.sharing.model import Asker, SharedGpu

RECORDS = 3
"""This number of records counts as much as knowing nothing."""
HALF_LIFE_S = 30 * 86_400.0
ENOUGH = 0.5
"""From this weight on a pair is known: three fresh records."""
STEP = 0.05
"""GPUs are tried in steps of this much harm: a hundredth is noise."""

BEYOND, BESIDE = 2.0, 0.05
"""The cost of wanting more of a GPU's time than all of it, twice the excess for each job, and of each neighbour, a twentieth of
its own use: the simulator's law of turns with the constants that Gavel's measured pairs allow.
"""

Told = tuple[float, float]
"""How much longer the one that suffers more takes, as it counts (0.1 = a tenth), and the weight of the pair's records."""


def weight(pair: PairSeen) -> float:
    """From 0, nothing known, to 1."""
    return float(pair.count / (pair.count + RECORDS) * 0.5 ** (max(0.0, pair.age_s) / HALF_LIFE_S))


@dataclass(frozen=True)
class Measured:
    """All measured pairs, both ways as one, and the worst harm that is accepted (None: any).

    `beside`: by GPU type and signature, the others that were measured with it.
    """

    beside: Mapping[tuple[str, str], Mapping[str, Told]] = field(default_factory=dict)
    limit: float | None = None

    @classmethod
    def of(cls, pairs: Mapping[tuple[str, str, str], PairSeen], limit: float | None) -> Measured:
        beside: dict[tuple[str, str], dict[str, Told]] = defaultdict(dict)
        for (own, other, gpu_type), pair in pairs.items():
            counts = weight(pair)
            told = counts * max(0.0, pair.slowdown - 1.0), counts
            for one, two in ((own, other), (other, own)):
                known = beside[gpu_type, one].get(two, (0.0, 0.0))
                beside[gpu_type, one][two] = max(known[0], told[0]), max(known[1], told[1])
        return cls(dict(beside), limit)

    @property
    def says(self) -> bool:
        """Whether it may change what a policy would do."""
        return bool(self.beside) or self.limit is not None

    @property
    def names(self) -> set[str]:
        return {name for _, name in self.beside}

    def told(self, own: str, other: str, gpu_type: str) -> Told | None:
        return self.beside.get((gpu_type, own), {}).get(other)


NOTHING = Measured()


def most_busy(own: Floats, limit: float) -> Floats:
    """Return how busy those on a GPU may keep it for a job that keeps it busy for `own` of its time. Shape as given.

    The most with which `BEYOND * max(0, busy + own - 1) + BESIDE * max(busy, own)` is at most `limit`; NaN for NaN, below 0 for
    nobody.
    """
    beyond = 1.0 - own
    found = np.minimum(beyond + (limit - BESIDE * own) / BEYOND, (limit + BEYOND * beyond) / (BEYOND + BESIDE))
    found = np.minimum(found, limit / BESIDE)
    return np.where(BESIDE * own > limit, -1.0, found)


class Harms:
    """A row an asker, a column a GPU. `worst`: how much longer one of them takes, 0 where nothing is known.

    With several neighbours their harms add up. Where not all pairs were measured, each job's measured use says how much they
    would slow one another (`crowded`).
    """

    def __init__(self, askers: Sequence[Asker], gpus: Sequence[SharedGpu], measured: Measured) -> None:
        self._measured, self._types = measured, [gpu.gpu_type for gpu in gpus]
        self._rows: dict[str, list[int]] = defaultdict(list)
        for row, asker in enumerate(askers):
            self._rows[asker.signature].append(row)
        shape = (len(askers), len(gpus))
        self.worst: Floats = np.zeros(shape, order="F")  # a joining job changes a column
        self._seen: Ints = np.zeros(shape, dtype=np.int64, order="F")
        self._together: Floats = np.zeros(shape, order="F")
        self._carried: Floats = np.zeros(len(gpus))
        self._busy: Floats = np.zeros(len(gpus))
        self._room = most_busy(np.array([_busy(asker) for asker in askers], dtype=np.float64), measured.limit or 0.0)
        self.people: Ints = np.zeros(len(gpus), dtype=np.int64)
        self._there: list[list[tuple[str, float]]] = [[] for _ in gpus]
        for column, gpu in enumerate(gpus):
            for each in gpu.residents:
                self.meet(each.asker, column)

    @property
    def measured(self) -> bool:
        """Whether any pair was."""
        return bool(self._measured.beside)

    @property
    def limited(self) -> bool:
        return self._measured.limit is not None

    def meet(self, asker: Asker, column: int) -> None:
        """That one is on the GPU from now on."""
        self.people[column] += 1
        self._busy[column] += _busy(asker)
        if not self.measured:
            return
        told = self._measured.beside.get((self._types[column], asker.signature), {})
        there = [(name, harm + told.get(name, (0.0, 0.0))[0]) for name, harm in self._there[column]]
        there.append((asker.signature, sum(told.get(name, (0.0, 0.0))[0] for name, _ in there)))
        self._there[column], self._carried[column] = there, max(harm for _, harm in there)
        for other, (harm, counts) in told.items():
            if rows := self._rows.get(other):
                self.worst[rows, column] = np.maximum(self.worst[rows, column], harm)
                self._together[rows, column] += harm
                self._seen[rows, column] += counts >= ENOUGH

    def too_much(self, column: int) -> Flags | None:
        """Which askers and those on the GPU were measured to slow each other by more than is accepted: it, or one of them.

        None: none.
        """
        if not self.measured:
            return None
        limit, worst = self._measured.limit or 0.0, self.worst[:, column]
        found: Flags = (self._together[:, column] > limit) | ((worst > 0.0) & (self._carried[column] + worst > limit))
        return found

    def crowded(self, column: int) -> Flags:
        """Which askers were not measured beside all on the GPU, and would with them want it for longer than is accepted.

        Nobody unseen counts.
        """
        found: Flags = self._busy[column] > self._room  # False for jobs never seen, and beside them
        return found & (self._seen[:, column] < self.people[column]) if self.measured else found

    def strange(self, row: int) -> Flags:
        """Where nobody can say what the asker and those there would cost each other: one was never seen to run."""
        found: Flags = (self.people > 0) & np.isnan(self._busy + self._room[row])
        return found & ~self.known(row) if self.measured else found

    def known(self, row: int) -> Flags:
        """Where the asker was measured beside everybody."""
        found: Flags = (self.people > 0) & (self._seen[row] >= self.people)
        return found

    def steps(self, row: int) -> Floats:
        """How much the GPUs' order changes for it."""
        found: Floats = np.floor(self.worst[row] / STEP + 1e-9) * STEP
        return found


def _busy(asker: Asker) -> float:
    """The part of its time in which it was seen to keep a GPU busy; NaN where it was never seen."""
    return asker.profile.busy if asker.profile is not None else float("nan")
