"""DqnGPU serves: who was seen to run joins where the learned network would start it now (section 12, DqnGPU 3.3).

The network sees what is used of each GPU, and the asker in the first of its slots. The planning gives jobs their turns one by
one, so the other slots are empty, as they are when a workload comes to its end. The asker joins where to start it is preferred
to waiting. Memory counts by the most that each will use until its end, so no decision leads out of memory; nor does it join
where it would gain too little (`paces`). Whoever was never seen to run for a known time, or has such a neighbour, is CBP+PP's to
decide; all are, where there is no network.

A kind of job is judged for all GPUs at once, and again only for those that somebody has joined since.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from scheduler.sharing.learned.images import RESOURCES, STEPS, WAIT, ahead, state
from scheduler.sharing.learned.masks import TOLERANCE, Reach
from scheduler.sharing.learned.paces import Beside, course
from scheduler.sharing.learned.seen import phases_of_profile
from scheduler.sharing.model import Rule
from scheduler.sharing.peak import CbpPeak
from scheduler.sharing.rules import NUMBERS

if TYPE_CHECKING:
    from scheduler.sharing.board import Board
    from scheduler.sharing.learned.record import Stored
    from scheduler.sharing.model import Asker, Profile
    from scheduler.sharing.series import Flags, Floats, Ints, Numbers

FITTING = (NUMBERS[Rule.UNCORRELATED], NUMBERS[Rule.CORRELATED], NUMBERS[Rule.MEASURED])
"""What CBP says where the ledgers have room and both were seen to run."""
FIRST = 1
"""The action that starts the first slot alone."""
UNSEEN = -1


@dataclass(slots=True)
class Own:
    """What a kind of job uses on GPUs of one size, and what was found for each GPU when so many (`people`) were on it."""

    profile: Profile | None  # held, so that its identity stays its own
    signature: str
    uses: Floats | None
    reach: Reach | None
    rules: Ints
    people: Ints


@dataclass(slots=True)
class Columns:
    """Of each GPU: the network's input without an asker, what those on it may use at each phase, whether all were seen to run.

    `beside`: those on it, and who gains by joining them; None where the policy's mask does not ask.
    """

    states: Floats
    reach: Floats
    known: Flags
    people: Ints
    beside: Beside | None


class Dqn(CbpPeak):
    """`stored`: a policy's file; None decides as CBP+PP. With one, grants are what is asked for: less could end a job."""

    name = "dqn"

    def __init__(self, stored: Stored | None = None) -> None:
        self.harvests = stored is None
        self._network = None if stored is None else stored.network
        self._board: Board | None = None
        self._owns: dict[tuple[int, str, int], Own] = {}
        if stored is not None:
            self._limits = replace(stored.limits, slowest=np.inf)
            self._step_s = float(stored.about["step_s"])
            self._most = stored.limits.longest // 2

    def rules(self, board: Board, row: int) -> Numbers:
        found = super().rules(board, row)
        asker = board.askers[row]
        if self._network is None or asker.critical or asker.profile is None or asker.profile.seconds is None:
            return found
        plain = super(CbpPeak, self).rules(board, row)
        wanted = np.isin(plain, FITTING)
        for memory_mib in np.unique(board.total_mib[wanted]):
            here = np.flatnonzero(wanted & (board.total_mib == memory_mib))
            judged = self._judged(board, asker, int(memory_mib), here)
            found[here] = np.where(judged == UNSEEN, found[here], judged)
        return found

    def _judged(self, board: Board, asker: Asker, memory_mib: int, here: Ints) -> Ints:
        """Return for these GPUs, all of one size, the number of the network's rule; UNSEEN where it cannot judge."""
        columns, own = self._columns(board), self._own(board, asker, memory_mib)
        for column in here[columns.people[here] != board.people[here]]:
            self._look(board, columns, int(column))
        stale = here[own.people[here] != board.people[here]]
        if len(stale) and own.uses is not None:
            own.rules[stale] = self._rules_of(columns, own, stale)
            own.people[stale] = board.people[stale]
        found: Ints = own.rules[here]
        return found

    def _rules_of(self, columns: Columns, own: Own, at: Ints) -> Ints:
        assert self._network is not None
        assert own.uses is not None
        assert own.reach is not None
        exceeds = (columns.reach[at] + own.reach.ahead().ravel()).max(axis=1) > 1.0 + TOLERANCE
        found: Ints = np.where(
            columns.known[at], np.where(exceeds, NUMBERS[Rule.EXCEEDS], NUMBERS[Rule.LITTLE]), UNSEEN
        )
        still = np.flatnonzero(columns.known[at] & ~exceeds)
        image = ahead(own.uses)
        if columns.beside is not None and len(still):
            still = still[columns.beside.enough(at[still], course(own.signature, image, len(own.uses)))]
        if len(still):
            found[still] = self._preferred(columns.states[at[still]], image, len(own.uses))
        return found

    def _preferred(self, states: Floats, image: Floats, phases: int) -> Ints:
        """Return the rule by what the network prefers, to start the asker or to wait. `states`: of the GPUs without it."""
        assert self._network is not None
        frame = self._network.frame
        slot = [(image, float(phases))]
        may = np.zeros((len(states), frame.actions), dtype=bool)
        may[:, [WAIT, FIRST]] = True
        whole = states + state(frame, np.zeros((STEPS, RESOURCES)), (), slot, 0)
        shares, _ = self._network.judged(whole, may)
        found: Ints = np.where(shares[:, FIRST] > shares[:, WAIT], NUMBERS[Rule.LEARNED], NUMBERS[Rule.DECLINED])
        return found

    def _columns(self, board: Board) -> Columns:
        if self._board is not board:
            assert self._network is not None
            many, self._board = len(board.gpus), board
            self._owns.clear()
            types, least = [gpu.gpu_type for gpu in board.gpus], self._limits.gain
            self._seen = Columns(
                np.zeros((many, self._network.frame.inputs)),
                np.zeros((many, self._limits.longest * RESOURCES)),
                np.zeros(many, dtype=bool),
                np.full(many, UNSEEN, dtype=np.int64),
                None if least is None else Beside(types, least, board.measured),
            )
        return self._seen

    def _look(self, board: Board, columns: Columns, column: int) -> None:
        """See who is on a GPU now."""
        assert self._network is not None
        image, reach = np.zeros((STEPS, RESOURCES)), np.zeros((self._limits.longest, RESOURCES))
        remaining, courses = [], []
        ran_s = {each.asker.key: each.ran_s for each in board.gpus[column].residents}
        owns = [(other, self._own(board, other, board.gpus[column].memory_mib)) for other in board.alike.people(column)]
        columns.people[column] = board.people[column]
        columns.known[column] = all(own.uses is not None for _, own in owns)
        for other, own in owns:
            if own.uses is None or own.reach is None:
                return
            done = min(ran_s.get(other.key, 0.0) / self._step_s, len(own.uses) - 1.0)
            coming = ahead(own.uses, int(done))
            image += coming
            reach += own.reach.ahead(done)
            remaining.append(len(own.uses) - done)
            courses.append(course(other.signature, coming, remaining[-1]))
        columns.states[column] = state(self._network.frame, image, remaining, (), 0)
        columns.reach[column] = reach.ravel()
        if columns.beside is not None:
            columns.beside.look(column, courses)

    def _own(self, board: Board, asker: Asker, memory_mib: int) -> Own:
        key = (id(asker.profile), asker.signature, memory_mib)
        if key not in self._owns:
            uses = phases_of_profile(asker.profile, memory_mib, self._step_s, self._most)
            reach = None if uses is None else Reach(uses, self._limits)
            many = len(board.gpus)
            fresh = np.full(many, UNSEEN, dtype=np.int64)
            self._owns[key] = Own(asker.profile, asker.signature, uses, reach, fresh, fresh.copy())
        return self._owns[key]
