"""Each asker beside those on each shared GPU: do they rise together, was one never seen, did one crash beside the other."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from scheduler.sharing.model import MEASURES, POINTS
from scheduler.sharing.series import standard_ranks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scheduler.sharing.model import Asker, SharedGpu
    from scheduler.sharing.series import Flags, Floats


class Alike:
    """A row an asker, a column a GPU. `correlated` is worked out when it is first asked for: not every policy wants it.

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
        without = np.array([asker.profile is None for asker in askers], dtype=bool)
        self.unknown: Flags = np.repeat(without[:, None], len(gpus), axis=1).reshape(shape)
        self.apart: Flags = np.zeros(shape, dtype=bool)
        for column, people in enumerate(self._people):
            for other in people:
                self._meet(other, column)

    def join(self, row: int, column: int) -> None:
        """Asker `row` is on GPU `column` from now on."""
        asker = self._askers[row]
        self._people[column].append(asker)
        self._meet(asker, column)
        if "correlated" in self.__dict__ and asker.profile is not None:
            np.maximum(self.correlated[:, column], self._between[row], out=self.correlated[:, column])

    def people(self, column: int) -> Sequence[Asker]:
        """Return those on a GPU, and those who joined it since."""
        return self._people[column]

    @cached_property
    def correlated(self) -> Floats:
        """The largest correlation of an asker with one on a GPU, over the measures; -1 where nobody was seen to run."""
        self._ranks = _ranks_of(self._askers)
        found: Floats = np.full(self.apart.shape, -1.0, order="F")  # who joins changes a column
        self.__dict__["correlated"] = found
        seen = [(column, other) for column, people in enumerate(self._people) for other in people if other.profile]
        if seen:
            largest = _largest(self._ranks, _ranks_of([one for _, one in seen]))
            columns, firsts = np.unique([column for column, _ in seen], return_index=True)
            found[:, columns] = np.maximum.reduceat(largest, firsts, axis=1)
        return found

    @cached_property
    def _between(self) -> Floats:
        """The largest correlation of each asker with each, over the measures: all at once takes a tenth of the time."""
        return _largest(self._ranks, self._ranks)

    def _meet(self, other: Asker, column: int) -> None:
        if other.profile is None:
            self.unknown[:, column] = True
        self.apart[self._keeping_from.get(other.signature, []), column] = True
        self.apart[self._rows_of(other.apart_from), column] = True

    def _rows_of(self, signatures: Iterable[str]) -> list[int]:
        return [row for signature in signatures for row in self._by_signature.get(signature, [])]


def _largest(own: Floats, others: Floats) -> Floats:
    """Return the largest correlation of each with each of the others, over the measures."""
    found: Floats = own[0] @ others[0].T
    for one, other in zip(own[1:], others[1:], strict=True):
        np.maximum(found, one @ other.T, out=found)
    return np.round(found, 9, out=found)


def _ranks_of(askers: Sequence[Asker]) -> Floats:
    """Return the standard ranks of each asker's profile, zeros without one. Shape (measures, askers, POINTS)."""
    series = np.zeros((len(MEASURES), len(askers), POINTS))
    for row, asker in enumerate(askers):
        if asker.profile is None:
            continue
        if asker.profile.rows is not None and asker.profile.rows.shape[1] == POINTS:
            series[:, row] = asker.profile.rows
        else:
            for which, name in enumerate(MEASURES):
                series[which, row] = asker.profile.at_points(name)
    return standard_ranks(series)
