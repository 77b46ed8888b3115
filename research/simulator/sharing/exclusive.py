"""One job a GPU, in the order of arrival: what the sharing policies are compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scheduler.sharing.model import NUMBERS, Rule

if TYPE_CHECKING:
    from scheduler.sharing.board import Board
    from scheduler.sharing.series import Floats, Numbers


class Exclusive:
    """Nobody joins anybody (Kube-Knots' uniform scheduler)."""

    name = "exclusive"
    harvests = False

    def first(self, board: Board) -> list[int]:
        return list(range(len(board.askers)))

    def keys(self, board: Board) -> Floats:
        return np.zeros(len(board.gpus))

    def rules(self, board: Board, row: int) -> Numbers:
        found = board.rooms(harvested=False).of(row)
        alone: Numbers = np.where(found == NUMBERS[Rule.FITS], NUMBERS[Rule.COMPUTE], found)
        return alone
