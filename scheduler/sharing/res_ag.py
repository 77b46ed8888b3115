"""Res-Ag: first fit decreasing by requested memory, blind to use (Kube-Knots IV-B); the papers' baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scheduler.sharing.policy import by_memory
from scheduler.sharing.series import Floats, Numbers

if TYPE_CHECKING:
    from scheduler.sharing.board import Board


class ResAg:
    """GPUs in their own order, jobs by requested memory; a job that fits joins."""

    name = "res-ag"
    harvests = False

    def first(self, board: Board) -> list[int]:
        return by_memory(board)

    def keys(self, board: Board) -> Floats:
        return np.zeros(len(board.gpus))

    def rules(self, board: Board, row: int) -> Numbers:
        return board.rooms(harvested=False).of(row)
