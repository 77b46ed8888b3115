"""All askers and all shared GPUs of one planning, in columns: a row an asker, a column a GPU.

Each asker beside those on each GPU: do they rise together, was one never seen, did one crash beside the other. Nothing here goes
through askers times GPUs in Python: 1 000 jobs over 200 GPUs are a planning of less than a tenth of a second.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from scheduler.sharing.measured import NOTHING, Harms, Measured
from scheduler.sharing.model import MEASURES, NUMBERS, POINTS, WHOLE, Asker, Rule, SharedGpu
from scheduler.sharing.series import (
    LEAST_SAMPLES,
    Flags,
    Floats,
    Ints,
    Numbers,
    Singles,
    autocorrelation,
    forecast,
    whole_ranks,
)

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


STRANGE = 8.0
"""More than any policy's keys differ by."""


class Board:
    """The input of the policies. `join` keeps it true while jobs are given places.

    `left_mib`, `left_compute`: not held by any grant; `used_mib`: used now, with the grants of jobs that joined in this
    planning; `ahead_mib`: the forecast use at the horizon, NaN without a forecast; `people`: the number of jobs there; `joined`:
    their keys; `alike`: each asker beside the jobs on each GPU; `measured`: all measured pairs; `harms`: their statements about
    these, and the accepted harm; None where neither is known.
    """

    def __init__(
        self, askers: Sequence[Asker], gpus: Sequence[SharedGpu], horizon_steps: int = 1, measured: Measured = NOTHING
    ) -> None:
        self.askers, self.gpus = list(askers), list(gpus)
        self.grants: Ints = np.array([asker.grant_mib for asker in askers], dtype=np.int64)
        self.requests: Ints = np.array([asker.memory_mib for asker in askers], dtype=np.int64)
        self.compute: Ints = np.array([asker.compute for asker in askers], dtype=np.int64)
        self.total_mib: Ints = np.array([gpu.memory_mib for gpu in gpus], dtype=np.int64)
        self.most_mib = self.total_mib.max(initial=1)
        self.left_mib = self.total_mib - np.array(
            [sum(each.grant_mib for each in gpu.residents) for gpu in gpus], dtype=np.int64
        )
        self.left_compute: Ints = WHOLE - np.array(
            [sum(each.asker.compute for each in gpu.residents) for gpu in gpus], dtype=np.int64
        )
        self.people: Ints = np.array([len(gpu.residents) for gpu in gpus], dtype=np.int64)
        self.used_mib: Floats = np.array([_used_now(gpu) for gpu in gpus], dtype=np.float64)
        self.follows: Flags = np.array(
            [
                len(gpu.memory_used) >= LEAST_SAMPLES and autocorrelation(gpu.memory_used) > 0.0 for gpu in gpus
            ],  # eq. 2: r_1
            dtype=bool,
        )
        self.ahead_mib: Floats = np.array(
            [
                min(max(forecast(gpu.memory_used, horizon_steps), 0.0), float(gpu.memory_mib)) if follows else np.nan
                for gpu, follows in zip(gpus, self.follows, strict=True)
            ],
            dtype=np.float64,
        )
        self.joined: list[list[int]] = [[each.asker.key for each in gpu.residents] for gpu in gpus]
        self.alike = Alike(askers, gpus)
        self.measured = measured
        self.harms = Harms(askers, gpus, measured) if measured.says else None
        self._rooms: dict[bool, Rooms] = {}

    def join(self, row: int, column: int, grant_mib: int) -> None:
        """Asker `row` is on GPU `column` from now on, with this grant."""
        asker = self.askers[row]
        self.left_mib[column] -= grant_mib
        self.left_compute[column] -= asker.compute
        self.used_mib[column] += grant_mib
        self.ahead_mib[column] += grant_mib
        self.people[column] += 1
        self.joined[column].append(asker.key)
        self.alike.join(row, column)
        if self.harms is not None:
            self.harms.meet(asker, column)
        for rooms in self._rooms.values():
            rooms.renew(column)

    def needs(self, *, harvested: bool) -> Ints:
        """Return the memory (MiB) that each asker would be granted."""
        return self.grants if harvested else self.requests

    def rooms(self, *, harvested: bool) -> Rooms:
        """Return where the ledgers have room. All askers' are found at once."""
        if harvested not in self._rooms:
            self._rooms[harvested] = Rooms(self, self.needs(harvested=harvested))
        return self._rooms[harvested]

    def order(self, row: int, keys: Floats) -> Floats:
        """Return a policy's keys of the GPUs as they count for an asker.

        Where it is slowed, or slows, comes later; where a harm is not to be passed and nobody can say what it would be, last:
        strangers share when no GPU is idle, and run alone first, which is how they become known.
        """
        if self.harms is None:
            return keys
        if self.harms.measured:
            keys = keys + self.harms.steps(row)
        return keys + STRANGE * self.harms.strange(row) if self.harms.limited else keys

    def regrant(self, column: int, more_mib: int) -> None:
        """One of a GPU's jobs holds this much more of its memory (less where it is below 0)."""
        self.left_mib[column] -= more_mib
        self._rooms.clear()


class Rooms:
    """Where the ledgers of shared GPUs have room, for all askers of a GPU at once, and again when a job has joined it.

    A row an asker, a column a GPU: ALONE or FITS where the GPU's ledger has room, else the lacking resource.

    Under every policy grants never come to more than a GPU's memory, nor compute to more than a whole GPU. `needs_mib`: the
    memory that each asker would be granted.
    """

    def __init__(self, board: Board, needs_mib: Ints) -> None:
        self._board, self._needs = board, needs_mib
        self._rules: Numbers = np.empty((len(needs_mib), len(board.gpus)), dtype=np.int8, order="F")
        for column in range(len(board.gpus)):
            self.renew(column)

    def of(self, row: int) -> Numbers:
        """Return the rule's number for each GPU, which is the caller's to change."""
        own: Numbers = self._rules[row].copy()
        return own

    def fits(self, columns: Ints) -> Flags:
        """Return for which askers these GPUs, with jobs on them, have room. Shape (askers, columns)."""
        found: Flags = self._rules[:, columns] == NUMBERS[Rule.FITS]
        return found

    def renew(self, column: int) -> None:
        """Look at a GPU anew: somebody has joined it."""
        board, found = self._board, self._rules[:, column]
        there = bool(board.people[column])
        found[:] = NUMBERS[Rule.FITS if there else Rule.ALONE]
        np.copyto(found, NUMBERS[Rule.APART], where=board.alike.apart[:, column])
        if there and board.harms is not None and board.harms.limited:
            np.copyto(found, NUMBERS[Rule.CROWDED], where=board.harms.crowded(column))
            if (slowed := board.harms.too_much(column)) is not None:
                np.copyto(found, NUMBERS[Rule.SLOWED], where=slowed)
        np.copyto(found, NUMBERS[Rule.COMPUTE], where=board.compute > board.left_compute[column])
        np.copyto(found, NUMBERS[Rule.MEMORY], where=self._needs > board.left_mib[column])


def _used_now(gpu: SharedGpu) -> float:
    return float(gpu.memory_used[-1]) if len(gpu.memory_used) else sum(each.used_mib for each in gpu.residents)
