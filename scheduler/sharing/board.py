"""All who ask to share and all shared GPUs of one planning, in columns: a row an asker, a column a GPU.

Nothing here goes through askers times GPUs in Python: 1 000 jobs over 200 GPUs are a planning of less than a tenth of a
second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scheduler.sharing.alike import Alike
from scheduler.sharing.measured import NOTHING, Harms
from scheduler.sharing.model import WHOLE, Rule
from scheduler.sharing.rules import NUMBERS
from scheduler.sharing.series import LEAST_SAMPLES, autocorrelation, forecast

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.sharing.measured import Measured
    from scheduler.sharing.model import Asker, Resident, SharedGpu
    from scheduler.sharing.series import Flags, Floats, Ints


class Board:
    """What the policies look at. `join` keeps it true while jobs are given places.

    `left_mib`, `left_compute`: what no grant holds; `used_mib`: what is used now, with the grants of those who joined in this
    planning; `ahead_mib`: what is forecast to be used at the horizon, NaN where nothing can be forecast; `people`: how many
    are there; `joined`: their keys; `alike`: each asker beside those on each GPU; `harms`: what was measured of them, and
    what is accepted; None where neither is.
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
        self.left_mib = self.total_mib - _sums(gpus, "grant")
        self.left_compute: Ints = WHOLE - _sums(gpus, "compute")
        self.people: Ints = np.array([len(gpu.residents) for gpu in gpus], dtype=np.int64)
        self.used_mib: Floats = np.array([_used_now(gpu) for gpu in gpus], dtype=np.float64)
        self.follows: Flags = np.array([_follows_its_past(gpu) for gpu in gpus], dtype=bool)
        self.ahead_mib: Floats = np.array(
            [
                _ahead(gpu, horizon_steps) if follows else np.nan
                for gpu, follows in zip(gpus, self.follows, strict=True)
            ],
            dtype=np.float64,
        )
        self.joined: list[list[int]] = [[each.asker.key for each in gpu.residents] for gpu in gpus]
        self.alike = Alike(askers, gpus)
        self.harms = Harms(askers, gpus, measured) if measured.says else None
        self._rooms: dict[bool, Ints] = {}

    def join(self, row: int, column: int, grant_mib: int) -> None:
        """Asker `row` is on GPU `column` from now on, with so much memory."""
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
        for harvested, rules in self._rooms.items():
            rules[:, column] = _room(self, column, self.needs(harvested=harvested))

    def needs(self, *, harvested: bool) -> Ints:
        """Return the memory (MiB) that each asker would be granted."""
        return self.grants if harvested else self.requests

    def rooms(self, row: int, *, harvested: bool) -> Ints:
        """Return the number of `_room`'s rule for each GPU, which is the caller's to change. All askers' are found at once."""
        if (rules := self._rooms.get(harvested)) is None:
            needs = self.needs(harvested=harvested)
            columns = [_room(self, column, needs) for column in range(len(self.gpus))]
            shape = (len(self.askers), len(self.gpus))
            rules = np.array(columns, dtype=np.int64).T.copy() if columns else np.empty(shape, dtype=np.int64)
            self._rooms[harvested] = rules
        own: Ints = rules[row].copy()
        return own

    def order(self, row: int, keys: Floats) -> Floats:
        """Return a policy's keys of the GPUs as they count for an asker: where it is slowed, or slows, comes later."""
        return keys if self.harms is None or not self.harms.measured else keys + self.harms.steps(row)

    def regrant(self, column: int, more_mib: int) -> None:
        """Say that one of those on a GPU holds so much more of its memory (less where it is below 0)."""
        self.left_mib[column] -= more_mib
        self._rooms.clear()


def _room(board: Board, column: int, needs_mib: Ints) -> Ints:
    """Return for each asker: ALONE or FITS where the GPU's ledger has room, else what is lacking. For every policy alike.

    Grants never come to more than a GPU's memory, nor compute to more than a whole GPU, whatever a policy thinks.
    `needs_mib`: the memory that each asker would be granted. Shape (askers,).
    """
    free = Rule.FITS if board.people[column] else Rule.ALONE
    found: Ints = np.full(len(needs_mib), NUMBERS[free], dtype=np.int64)
    found[board.alike.apart[:, column]] = NUMBERS[Rule.APART]
    if free is Rule.FITS and board.harms is not None and board.harms.limited:
        found[board.harms.crowded(column)] = NUMBERS[Rule.CROWDED]
        if (slowed := board.harms.too_much(column)) is not None:
            found[slowed] = NUMBERS[Rule.SLOWED]
    found[board.left_compute[column] < board.compute] = NUMBERS[Rule.COMPUTE]
    found[board.left_mib[column] < needs_mib] = NUMBERS[Rule.MEMORY]
    return found


def _sums(gpus: Sequence[SharedGpu], what: str) -> Ints:
    def held(each: Resident) -> int:
        return each.grant_mib if what == "grant" else each.asker.compute

    return np.array([sum(held(each) for each in gpu.residents) for gpu in gpus], dtype=np.int64)


def _used_now(gpu: SharedGpu) -> float:
    return float(gpu.memory_used[-1]) if len(gpu.memory_used) else sum(each.used_mib for each in gpu.residents)


def _follows_its_past(gpu: SharedGpu) -> bool:
    """Say whether `r_1 > 0` (eq. 2): one or zero samples, or a constant, say nothing."""
    return len(gpu.memory_used) >= LEAST_SAMPLES and autocorrelation(gpu.memory_used) > 0.0


def _ahead(gpu: SharedGpu, steps: int) -> float:
    """Return the memory (MiB) forecast to be used at the horizon: from 0 to all that there is."""
    return float(np.clip(forecast(gpu.memory_used, steps), 0.0, gpu.memory_mib))
