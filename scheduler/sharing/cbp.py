"""CBP, correlation based provisioning (Kube-Knots IV-C; algorithms.md section 11).

A batch job is provisioned with the 80th percentile of the memory that its signature's last run used. It may join a GPU if its
memory, its use of the SMs and its PCIe traffic rise together with none of the jobs there: Spearman's correlation below 0.5. A
job that was never seen to run, and one with such a neighbour, is refused: on an idle GPU it may start. *Ours*: measurements
outweigh both guesses. Where it ran beside every job there before, and none was slowed by more than is accepted, it joins with
all the memory that it asks for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scheduler.sharing.model import NUMBERS, Rule
from scheduler.sharing.policy import LIMIT, by_memory
from scheduler.sharing.series import Floats, Ints, Numbers

if TYPE_CHECKING:
    from scheduler.sharing.board import Board

UNCORRELATED, CORRELATED = np.int8(NUMBERS[Rule.UNCORRELATED]), np.int8(NUMBERS[Rule.CORRELATED])


class Cbp:
    """GPUs in use first, of these those with most free memory; jobs by requested memory, largest first."""

    name = "cbp"
    harvests = True

    def first(self, board: Board) -> list[int]:
        return by_memory(board)

    def keys(self, board: Board) -> Floats:
        """Consolidation: a GPU with nobody stays in its lowest power state as long as another will do."""
        keys: Floats = (board.used_mib - board.total_mib) / board.most_mib
        keys[board.people == 0] += 2.0
        return keys

    def need_mib(self, board: Board, row: int) -> int:
        """Return the memory that the asker would be granted."""
        return int(board.grants[row] if self.harvests else board.requests[row])

    def rules(self, board: Board, row: int) -> Numbers:
        found = board.rooms(harvested=self.harvests).of(row)
        beside = (found == NUMBERS[Rule.FITS]).nonzero()[0]
        if len(beside):
            found[beside] = self.beside(board, row, beside)
        return found

    def beside(self, board: Board, row: int, columns: Ints) -> Numbers:
        """Return the rule's number for these GPUs, where somebody is and the ledgers have room. Shape as `columns`."""
        alike = board.alike.correlated(row, columns) < LIMIT
        seen: Numbers = np.where(alike, UNCORRELATED, CORRELATED)
        seen[board.alike.unknown[row, columns]] = NUMBERS[Rule.UNKNOWN]
        if board.harms is not None and board.harms.measured:
            fits = board.harms.known(row)[columns] & (board.left_mib[columns] >= board.requests[row])
            seen[fits & (seen != UNCORRELATED)] = NUMBERS[Rule.MEASURED]
        return seen
