"""DqnGPU serves: a job that was seen to run joins where the learned network would start it now (section 12, DqnGPU 3.3).

The network sees the use of each GPU, and the asker in the first of its slots. The planning gives jobs their turns one by one, so
the other slots are empty, as they are when a workload comes to its end. The asker joins where to start it is preferred to
waiting. Memory counts by the most that each will use until its end, so no decision leads out of memory; nor does it join where
it would gain too little (`paces`). CBP+PP decides about a job that was never seen to run for a known time, or has such a
neighbour; and about all jobs where there is no network.

A GPU is judged for all askers at once, and again only where a job has joined it since (`crowds`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scheduler.copies import replace
from scheduler.sharing.learned.crowds import UNJUDGED, Judge
from scheduler.sharing.peak import CbpPeak
from scheduler.sharing.series import Ints, Numbers

if TYPE_CHECKING:
    from scheduler.sharing.board import Board
    from scheduler.sharing.learned.record import Stored


class Dqn(CbpPeak):
    """`stored`: a policy's file; None decides as CBP+PP. With one, grants are what is asked for: less could end a job."""

    name = "dqn"

    def __init__(self, stored: Stored | None = None) -> None:
        self.harvests = stored is None
        self._stored = stored
        self._judge: Judge | None = None

    def beside(self, board: Board, row: int, columns: Ints) -> Numbers:
        asker = board.askers[row]
        if self._stored is None or asker.critical or asker.profile is None:
            return super().beside(board, row, columns)
        if self._judge is None or self._judge.board is not board:
            limits = replace(self._stored.limits, slowest=np.inf)
            self._judge = Judge(board, self._stored.network, limits, float(self._stored.about["step_s"]))
        found = self._judge.of(row, columns)
        others = np.flatnonzero(found == UNJUDGED)
        if len(others):
            found[others] = super().beside(board, row, columns[others])
        return found
