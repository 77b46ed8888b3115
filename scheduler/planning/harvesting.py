"""Running batch jobs give back GPU memory that they do not use, where a job joins that needs it (Kube-Knots IV-C).

*Ours*: no more is taken than the new job needs, the largest surplus first: each of them may grow again into the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.model.parts import Regrant

if TYPE_CHECKING:
    from scheduler.sharing.board import Board


class Harvests:
    """Memory of each shared GPU that running jobs hold beyond their least. The board counts it as free from now on.

    `orders`: by job, the memory taken from it in this planning.
    """

    def __init__(self, board: Board, *, wanted: bool) -> None:
        self._board = board
        self._grants: dict[int, int] = {}
        self._spare: list[dict[int, int]] = [{} for _ in board.gpus]
        self.orders: dict[int, Regrant] = {}
        for column, gpu in enumerate(board.gpus) if wanted else ():
            self._grants |= {each.asker.key: each.grant_mib for each in gpu.residents}
            spare = {each.asker.key: each.grant_mib - each.kept_mib for each in gpu.residents}
            self._spare[column] = {job: mib for job, mib in spare.items() if mib > 0}
            if self._spare[column]:
                board.regrant(column, -sum(spare.values()))

    def take(self, column: int) -> int:
        """Take the grants beyond a GPU's memory, now that a job joined. Returns from how many jobs."""
        spare = self._spare[column]
        need = sum(spare.values()) - int(self._board.left_mib[column])
        taken = 0
        for job in sorted(spare, key=lambda job: (-spare[job], job)):
            if need <= 0:
                break
            mib = min(need, spare[job])
            need, taken = need - mib, taken + 1
            spare[job] -= mib
            self._grants[job] -= mib
            self.orders[job] = Regrant(job, self._grants[job])
        return taken
