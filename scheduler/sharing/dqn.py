"""DqnGPU serves: who was seen to run joins where the learned network would start it now (section 12, DqnGPU 3.3).

For each GPU the network sees what is used there, the asker in the first slot and those behind it in the others. Of the
subsets that the mask allows it prefers one: the asker joins if it is in it. Memory counts by the most that each will use until
its end, so no decision leads out of memory. Whoever was never seen to run for a known time, or has such a neighbour, is CBP+PP's
to decide; all are, where there is no network.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scheduler.sharing.learned.images import RESOURCES, STEPS, WAIT, ahead, state
from scheduler.sharing.learned.masks import Limits, Reach, allowed, taken
from scheduler.sharing.learned.seen import phases_of_profile
from scheduler.sharing.model import Rule
from scheduler.sharing.peak import CbpPeak
from scheduler.sharing.policy import NUMBERS

if TYPE_CHECKING:
    from scheduler.sharing.board import Board
    from scheduler.sharing.learned.record import Stored
    from scheduler.sharing.model import Asker, Profile
    from scheduler.sharing.series import Floats, Ints

    Own = tuple[Floats, Reach]

FITTING = (NUMBERS[Rule.UNCORRELATED], NUMBERS[Rule.CORRELATED])
"""What CBP says where the ledgers have room and both were seen to run."""


class Dqn(CbpPeak):
    """`stored`: a policy's file; None decides as CBP+PP. With one, grants are what is asked for: less could end a job."""

    name = "dqn"

    def __init__(self, stored: Stored | None = None) -> None:
        self.harvests = stored is None
        self._network = None if stored is None else stored.network
        self._seen: dict[tuple[int, int], tuple[Profile | None, Own | None]] = {}
        if stored is not None:
            self._limits = Limits(np.inf, stored.limits.longest, stored.limits.in_time)
            self._step_s = float(stored.about["step_s"])
            self._most = stored.limits.longest // 2

    def rules(self, board: Board, row: int) -> Ints:
        found = super().rules(board, row)
        if self._network is None:
            return found
        columns = np.flatnonzero(np.isin(self._plain(board, row), FITTING))
        for column in columns:
            rule = self._learned(board, row, int(column))
            if rule is not None:
                found[column] = NUMBERS[rule]
        return found

    def _plain(self, board: Board, row: int) -> Ints:
        """What CBP says, without the second look."""
        found: Ints = super(CbpPeak, self).rules(board, row)
        return found

    def _learned(self, board: Board, row: int, column: int) -> Rule | None:
        """Say whether the network would start the asker on the GPU now; None where it cannot judge."""
        memory_mib = board.gpus[column].memory_mib
        running = self._running(board, column)
        asker = self._of(board.askers[row], memory_mib)
        if asker is None or running is None:
            return None
        assert self._network is not None
        frame = self._network.frame
        slots = [asker, *self._behind(board, row, memory_mib, frame.slots - 1)]
        image, reach, remaining = running
        may = allowed(reach, taken(frame, [each.ahead() for _, each in slots]))
        with_asker = frame.members[:, 0] > 0.0
        if not (may & with_asker).any():
            return Rule.EXCEEDS
        seen = state(frame, image, remaining, [(ahead(uses), float(len(uses))) for uses, _ in slots], 0)
        shares, _ = self._network.judged(seen[None], may[None])
        action = int(np.argmax(shares[0]))
        return Rule.LEARNED if action != WAIT and with_asker[action] else Rule.DECLINED

    def _running(self, board: Board, column: int) -> tuple[Floats, Floats, list[float]] | None:
        """Return image, reach and remaining phases of those on a GPU; None where one was never seen to run."""
        image, reach = np.zeros((STEPS, RESOURCES)), np.zeros((self._limits.longest, RESOURCES))
        remaining = []
        here = {each.asker.key: each.ran_s for each in board.gpus[column].residents}
        for other in board.alike.people(column):
            own = self._of(other, board.gpus[column].memory_mib)
            if own is None:
                return None
            uses, reached = own
            done = min(here.get(other.key, 0.0) / self._step_s, len(uses) - 1.0)
            image += ahead(uses, int(done))
            reach += reached.ahead(done)
            remaining.append(len(uses) - done)
        return image, reach, remaining

    def _behind(self, board: Board, row: int, memory_mib: int, count: int) -> list[Own]:
        """The next askers that were seen to run."""
        found = []
        for other in board.askers[row + 1 : row + 1 + count]:
            own = self._of(other, memory_mib)
            if own is not None:
                found.append(own)
        return found

    def _of(self, asker: Asker, memory_mib: int) -> Own | None:
        if asker.critical:
            return None
        key = (id(asker.profile), memory_mib)
        if key not in self._seen:
            uses = phases_of_profile(asker.profile, memory_mib, self._step_s, self._most)
            self._seen[key] = asker.profile, None if uses is None else (uses, Reach(uses, self._limits))
        return self._seen[key][1]
