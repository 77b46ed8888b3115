"""CBP+PP: where CBP refuses, the peak predictor looks ahead (Kube-Knots IV-D, algorithm 1, eq. 2 and 3).

If a GPU's used memory follows its own past (first autocorrelation above 0), it is forecast by a line through each sample and the
next, step by step to the horizon. The job joins if that leaves room for what it needs; else the next GPU is tried.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scheduler.sharing.cbp import Cbp
from scheduler.sharing.model import Rule
from scheduler.sharing.rules import NUMBERS

if TYPE_CHECKING:
    from scheduler.sharing.board import Board
    from scheduler.sharing.series import Numbers

REFUSED = (NUMBERS[Rule.CORRELATED], NUMBERS[Rule.UNKNOWN])


class CbpPeak(Cbp):
    """As CBP, with a second look at those that it refuses for correlation or for want of a run."""

    name = "cbp-pp"

    def rules(self, board: Board, row: int) -> Numbers:
        found = super().rules(board, row)
        refused = ((found == REFUSED[0]) | (found == REFUSED[1])).nonzero()[0]
        if not len(refused):
            return found
        fits = board.total_mib[refused] - board.ahead_mib[refused] >= self.need_mib(board, row)  # False for NaN
        ahead = np.where(fits, NUMBERS[Rule.FORECAST], NUMBERS[Rule.PEAK])
        found[refused] = np.where(board.follows[refused], ahead, NUMBERS[Rule.NO_TREND])
        return found
