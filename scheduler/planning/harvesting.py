"""Running batch jobs give back GPU memory that they do not use, where somebody joins who needs it (Kube-Knots IV-C).

*Ours*: no more is taken than who joins needs, the largest surplus first: each of them may grow again into what it keeps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.model.parts import Regrant

if TYPE_CHECKING:
    from scheduler.sharing.board import Board


class Harvests:
    """What running jobs hold of each shared GPU beyond what they are left at least. The board counts it as free from now on.

    `orders`: by job, what is taken from it in this planning.
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
        """Take what the grants on a GPU come to beyond its memory, now that somebody joined. Returns from how many jobs."""
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
