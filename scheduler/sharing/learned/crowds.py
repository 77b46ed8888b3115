"""The jobs on each shared GPU of a planning, as the learned policy sees them, and those it would start beside them.

A GPU is judged when a job asks for it, for all askers at once, and again when a job has joined it: one by one, a thousand jobs
beside a hundred GPUs took ten times as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scheduler.sharing.learned.images import CROWD, LONG, RESOURCES, STEPS, TOLERANCE, WAIT, Limits
from scheduler.sharing.learned.paces import Beside, Course
from scheduler.sharing.learned.runs import UNSEEN, Ahead, Runs
from scheduler.sharing.model import NUMBERS, Asker, Rule
from scheduler.sharing.series import Flags, Floats, Ints, Numbers

if TYPE_CHECKING:
    from scheduler.sharing.board import Board
    from scheduler.sharing.learned.training import Network

FIRST = 1
"""The action that starts only the first slot."""
IMAGE = STEPS * RESOURCES
FULL = 1.0 + TOLERANCE
FEW = np.array([0, 4, 8, 12, 20, 30])
"""At these phases use is checked first: a job that exceeds a resource mostly does so at one of them."""
AT_ONCE = 2**16
"""This number of pairs of a GPU and an asker is judged together: more no longer fit into a processor's cache."""
UNJUDGED = np.int8(-1)
EXCEEDS, LITTLE, LEARNED, DECLINED = (
    np.int8(NUMBERS[rule]) for rule in (Rule.EXCEEDS, Rule.LITTLE, Rule.LEARNED, Rule.DECLINED)
)


class Crowds:
    """Sums over the jobs on each GPU, a row a GPU, kept as they join; a GPU with an unknown job is never `known`."""

    def __init__(self, board: Board, most: int, beside: Beside | None) -> None:
        many = len(board.gpus)
        self._board, self._beside = board, beside
        self.known: Flags = np.ones(many, dtype=bool)
        self.people: Ints = np.zeros(many, dtype=np.int64)
        self.images: Floats = np.zeros((many, STEPS, RESOURCES))
        self.in_time: Floats = np.zeros((many, 2 * most))
        self.memory: Floats = np.zeros(many)
        self.least: Floats = np.full(many, np.inf)
        self.most: Floats = np.zeros(many)

    def look(self, columns: Ints, runs: Runs) -> None:
        """Count those who are on these GPUs and were not counted before. All are GPUs of the size of `runs`."""
        new = [
            (column, other, ran_s)
            for column in columns.tolist()
            for other, ran_s in self._people(column)[int(self.people[column]) :]
        ]
        self.people[columns] = self._board.people[columns]
        numbers = runs.numbers([other.profile for _, other, _ in new])
        self.known[[column for (column, *_), number in zip(new, numbers, strict=True) if number == UNSEEN]] = False
        ran_s = np.array([each for *_, each in new], dtype=np.float64)
        ahead = runs.ahead(numbers, ran_s)
        for at, (column, other, _) in enumerate(new):
            self._add(column, other.signature, ahead, at)
        if self._beside is not None:
            self._beside.count(columns)

    def first(self, columns: Ints, preference: Preference) -> Floats:
        """Return the first layer's output for the jobs on these GPUs."""
        people, least, most = self.people[columns], self.least[columns], self.most[columns]
        return preference.of_gpus(self.images[columns], people, least, most)

    def _people(self, column: int) -> Sequence[tuple[Asker, float]]:
        ran_s = [each.ran_s for each in self._board.gpus[column].residents]
        there = self._board.alike.people(column)
        return list(zip(there, [*ran_s, *[0.0] * (len(there) - len(ran_s))], strict=True))

    def _add(self, column: int, signature: str, ahead: Ahead, at: int) -> None:
        left = float(ahead.left[at])
        self.images[column] += ahead.images[at]
        self.in_time[column] += ahead.in_time[at]
        self.memory[column] += ahead.memory[at]
        self.least[column] = min(self.least[column], left)
        self.most[column] = max(self.most[column], left)
        if self._beside is not None:
            self._beside.join(column, Course(signature, ahead.busy[at], ahead.there[at]))


class Preference:
    """Whether a network would start a job beside those on a GPU, or wait, for many of both: only the first slot is taken.

    The first layer is linear in its input, so its outputs for the jobs on a GPU and for a job are added up: each is worked out
    once, and not once a pair. Images have shape (n, STEPS, 4); answers of `of_gpus` and `of_jobs` are only for `starts`.
    """

    def __init__(self, network: Network) -> None:
        weights, self._bias, *self._between, last, bias = network.layers
        slots = (1 + network.frame.slots) * IMAGE
        gpus, jobs = np.arange(IMAGE), np.arange(IMAGE, 2 * IMAGE)
        self._of_gpus = weights[np.append(gpus, [-4, -3, -2])]
        self._of_jobs = weights[np.append(jobs, slots)]
        self._last, self._last_bias = last[:, [WAIT, FIRST]], bias[[WAIT, FIRST]]

    def of_gpus(self, images: Floats, people: Ints, least: Floats, most: Floats) -> Floats:
        """The first layer's output for the jobs on each GPU: their image, how many, the phases before the first and last end."""
        seen = [images.reshape(-1, IMAGE), (people / CROWD)[:, None], (least / LONG)[:, None], (most / LONG)[:, None]]
        found: Floats = np.concatenate(seen, axis=1) @ self._of_gpus + self._bias
        return found

    def of_jobs(self, images: Floats, phases: Floats) -> Floats:
        """The first layer's output for each job in the first slot."""
        seen = np.concatenate([images.reshape(-1, IMAGE), (phases / LONG)[:, None]], axis=1)
        found: Floats = seen @ self._of_jobs
        return found

    def starts(self, first: Floats) -> Flags:
        """Return whether to start is preferred to waiting. `first`: of a GPU and a job added up, shape (n, width); changed."""
        out = np.maximum(first, 0.0, out=first)
        for weights, bias in zip(self._between[::2], self._between[1::2], strict=True):
            out = out @ weights
            out += bias
            np.maximum(out, 0.0, out=out)
        found = out @ self._last + self._last_bias
        preferred: Flags = found[:, 1] > found[:, 0]
        return preferred


@dataclass(frozen=True, slots=True)
class Own:
    """The askers' use of GPUs of one size, a row an asker.

    `few`: of the GPU's time at the phases `FEW`, shape (phases, askers); `first`: the first layer's output for each.
    """

    runs: Runs
    seen: Flags
    ahead: Ahead
    few: Floats
    first: Floats


class Judge:
    """By which rule each asker joins each GPU, or is kept from it, as far as the network can judge."""

    def __init__(self, board: Board, network: Network, limits: Limits, step_s: float) -> None:
        """`limits`: nobody's pace is bounded (`slowest` counts for nothing)."""
        self.board = board
        self._limits, self._step_s = limits, step_s
        self._preference, self._most = Preference(network), limits.longest // 2
        types, names = [gpu.gpu_type for gpu in board.gpus], [asker.signature for asker in board.askers]
        self._beside = None if limits.gain is None else Beside(types, names, limits.gain, board.measured)
        self._crowds = Crowds(board, self._most, self._beside)
        self._rules: Numbers = np.zeros((len(names), len(types)), dtype=np.int8, order="F")
        self._judged: Ints = np.zeros(len(types), dtype=np.int64)
        self._owns: dict[int, Own] = {}
        self._few = FEW[self._most > FEW]

    def of(self, row: int, columns: Ints) -> Numbers:
        """Return the rules for an asker on these GPUs; somebody is on each, and their ledgers have room. Shape as `columns`."""
        stale = columns[self._judged[columns] != self.board.people[columns]]
        if len(stale):
            self._renew(stale)
        found: Numbers = self._rules[row, columns]
        return found

    def _renew(self, columns: Ints) -> None:
        sizes = self.board.total_mib[columns]
        each = max(1, AT_ONCE // len(self.board.askers))
        for memory_mib in set(sizes.tolist()):
            here = columns[sizes == memory_mib]
            for at in range(0, len(here), each):
                self._judge(self._own(memory_mib), here[at : at + each])
        self._judged[columns] = self.board.people[columns]

    def _own(self, memory_mib: int) -> Own:
        if memory_mib not in self._owns:
            runs = Runs(memory_mib, self._step_s, self._most, self._limits.in_time)
            numbers = runs.numbers([asker.profile for asker in self.board.askers])
            ahead = runs.ahead(numbers, np.zeros(len(numbers)))
            first = self._preference.of_jobs(ahead.images, ahead.left)
            few = np.ascontiguousarray(ahead.in_time[:, self._few].T)
            self._owns[memory_mib] = Own(runs, numbers != UNSEEN, ahead, few, first)
        return self._owns[memory_mib]

    def _judge(self, own: Own, columns: Ints) -> None:
        """Judge these GPUs, all of one size, for all askers for which their ledgers have room."""
        self._crowds.look(columns, own.runs)
        seen = own.seen & self._crowds.known[columns, None]
        may = seen & self.board.rooms(harvested=False).fits(columns).T
        self._rules[:, columns] = np.where(may, EXCEEDS, UNJUDGED).T
        at, rows = self._holding(own, columns, may)
        gpus = columns[at]
        self._rules[rows, gpus] = LITTLE
        if self._beside is not None and len(rows):
            gain = self._beside.enough(gpus, rows, own.ahead.busy[rows], own.ahead.there[rows])
            at, rows, gpus = at[gain], rows[gain], gpus[gain]
        if len(rows):
            first = self._crowds.first(columns, self._preference)
            starts = self._preference.starts(first[at] + own.first[rows])
            self._rules[rows, gpus] = np.where(starts, LEARNED, DECLINED)

    def _holding(self, own: Own, columns: Ints, may: Flags) -> tuple[Ints, Ints]:
        """Return the pairs that may, and with which no resource is exceeded: the places of GPUs in `columns`, and the askers."""
        crowds, ahead = self._crowds, own.ahead
        held = crowds.in_time[columns]
        fits = may & (crowds.memory[columns, None] + ahead.memory <= FULL)
        for there, more in zip(held[:, self._few].T, own.few, strict=True):
            fits &= there[:, None] + more <= FULL
        at, rows = np.nonzero(fits)
        most = (held[at] + ahead.in_time[rows]).max(axis=1, initial=0.0)
        return at[most <= FULL], rows[most <= FULL]
