"""CBP+PP: where CBP refuses, the peak predictor looks ahead (Kube-Knots IV-D, algorithm 1, eq. 2 and 3).

If a GPU's used memory follows its own past (first autocorrelation above 0), it is forecast by a line through each sample and the
next, step by step to the horizon. The job joins if that leaves room for its need; else the next GPU is tried.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scheduler.sharing.cbp import Cbp
from scheduler.sharing.model import NUMBERS, Rule
from scheduler.sharing.series import Ints, Numbers

if TYPE_CHECKING:
    from scheduler.sharing.board import Board

REFUSED = (NUMBERS[Rule.CORRELATED], NUMBERS[Rule.UNKNOWN])


class CbpPeak(Cbp):
    """As CBP, with a second look at those that it refuses for correlation or for want of a run."""

    name = "cbp-pp"

    def beside(self, board: Board, row: int, columns: Ints) -> Numbers:
        found = super().beside(board, row, columns)
        refused = ((found == REFUSED[0]) | (found == REFUSED[1])).nonzero()[0]
        if not len(refused):
            return found
        at = columns[refused]
        fits = board.total_mib[at] - board.ahead_mib[at] >= self.need_mib(board, row)  # False for NaN
        ahead = np.where(fits, NUMBERS[Rule.FORECAST], NUMBERS[Rule.PEAK])
        found[refused] = np.where(board.follows[at], ahead, NUMBERS[Rule.NO_TREND])
        return found
