"""Where the ledgers of shared GPUs have room for each asker, for every policy.

Found for all askers of a GPU at once, and again when a job has joined it: then a look at an asker costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scheduler.sharing.model import Rule
from scheduler.sharing.rules import NUMBERS

if TYPE_CHECKING:
    from scheduler.sharing.board import Board
    from scheduler.sharing.series import Flags, Ints, Numbers


class Rooms:
    """A row an asker, a column a GPU: ALONE or FITS where the GPU's ledger has room, else the lacking resource.

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
