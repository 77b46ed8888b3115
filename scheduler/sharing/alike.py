"""Each asker beside those on each shared GPU: do they rise together, was one never seen, did one crash beside the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from scheduler.sharing.model import MEASURES, POINTS, Asker, SharedGpu
from scheduler.sharing.series import Flags, Floats, Ints, Singles, whole_ranks

AT_ONCE = 128
"""The ranks of this number of askers are found at once: one by one takes twice as long, and many are never needed."""


class Alike:
    """A row an asker, a column a GPU. Correlations are worked out when they are asked for: not every policy wants them.

    `unknown`: one of the two was never seen to run. `apart`: one of them was ended for memory beside the other's signature.
    """

    def __init__(self, askers: Sequence[Asker], gpus: Sequence[SharedGpu]) -> None:
        self._askers = askers
        self._people: list[list[Asker]] = [[each.asker for each in gpu.residents] for gpu in gpus]
        self._by_signature: dict[str, list[int]] = defaultdict(list)
        self._keeping_from: dict[str, list[int]] = defaultdict(list)
        for row, asker in enumerate(askers):
            self._by_signature[asker.signature].append(row)
            for signature in asker.apart_from:
                self._keeping_from[signature].append(row)
        shape = (len(askers), len(gpus))
        self._seen: _Seen | None = None
        self._ranks: dict[int, tuple[Singles, Floats]] = {}
        self._last: tuple[int, int] | None = None
        without = np.array([asker.profile is None for asker in askers], dtype=bool)
        self.unknown: Flags = np.array(np.broadcast_to(without[:, None], shape), order="F")
        self.apart: Flags = np.zeros(shape, dtype=bool, order="F")
        for column, people in enumerate(self._people):
            for other in people:
                self._meet(other, column)

    def join(self, row: int, column: int) -> None:
        """Asker `row` is on GPU `column` from now on."""
        asker = self._askers[row]
        self._people[column].append(asker)
        self._meet(asker, column)
        if self._seen is not None and asker.profile is not None:
            self._seen.add(column, *self._own(row))

    def people(self, column: int) -> Sequence[Asker]:
        """Return those on a GPU, and those who joined it since."""
        return self._people[column]

    def correlated(self, row: int, columns: Ints) -> Floats:
        """Return the largest correlation of the asker with one on each of these GPUs, over the measures. Shape as `columns`.

        -1 where nobody was seen to run.
        """
        if self._seen is None:
            self._seen = _Seen(self._people, len(self._askers))
        if self._last != (row, self._seen.count):
            self._last = row, self._seen.count
            self._found = self._seen.largest(*self._own(row))
        return self._found[columns]

    def _own(self, row: int) -> tuple[Singles, Floats]:
        """Return the ranks of the asker's series; those of the next askers in the queue are found with them."""
        first = row - row % AT_ONCE
        if first not in self._ranks:
            self._ranks[first] = _ranks_of(self._askers[first : first + AT_ONCE])
        ranked, scales = self._ranks[first]
        return ranked[:, row - first], scales[:, row - first]

    def _meet(self, other: Asker, column: int) -> None:
        if other.profile is None:
            self.unknown[:, column] = True
        self.apart[self._keeping_from.get(other.signature, []), column] = True
        rows = [row for signature in other.apart_from for row in self._by_signature.get(signature, [])]
        self.apart[rows, column] = True


class _Seen:
    """The ranks of those on GPUs who were seen to run, one beneath the other, and on which GPU each of them is."""

    def __init__(self, people: Sequence[Sequence[Asker]], more: int) -> None:
        """`more`: the number of askers expected to be added, one or more."""
        seen = [(column, other) for column, there in enumerate(people) for other in there if other.profile]
        self.count, self._gpus = len(seen), len(people)
        self._at: Ints = np.zeros(len(seen) + more, dtype=np.int64)
        self._ranks: Singles = np.zeros((len(MEASURES), len(seen) + more, POINTS), dtype=np.float32)
        self._scales: Floats = np.zeros((len(MEASURES), len(seen) + more))
        self._at[: self.count] = [column for column, _ in seen]
        self._ranks[:, : self.count], self._scales[:, : self.count] = _ranks_of([other for _, other in seen])

    def add(self, column: int, ranks: Singles, scales: Floats) -> None:
        if self.count == len(self._at):  # more join than there are kinds of askers
            self._at = np.concatenate([self._at, np.zeros_like(self._at)])
            self._ranks = np.concatenate([self._ranks, np.zeros_like(self._ranks)], axis=1)
            self._scales = np.concatenate([self._scales, np.zeros_like(self._scales)], axis=1)
        self._at[self.count], self._ranks[:, self.count], self._scales[:, self.count] = column, ranks, scales
        self.count += 1

    def largest(self, own: Singles, scales: Floats) -> Floats:
        """Return for each GPU the largest correlation with anybody there. Shapes (measures, POINTS) and (measures,)."""
        many, found = self.count, np.full(self._gpus, -1.0)
        products = (self._ranks[:, :many] @ own[:, :, None])[..., 0]
        between = products * self._scales[:, :many] * scales[:, None]
        np.maximum.at(found, self._at[:many], between.max(axis=0))
        return found.round(9)


def _ranks_of(askers: Sequence[Asker]) -> tuple[Singles, Floats]:
    """Return `whole_ranks` of each asker's profile. Shapes (measures, askers, POINTS) and (measures, askers)."""
    series = np.zeros((len(MEASURES), len(askers), POINTS))
    for row, asker in enumerate(askers):
        if asker.profile is not None:
            series[:, row] = asker.profile.at_points()
    return whole_ranks(series)
