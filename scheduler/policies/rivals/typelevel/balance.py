"""Sia's integer program solved from the prices of its linear relaxation, exactly or within a gap.

    loss_ij = max_k (V_ik - u_k r_k) - (V_ij - u_j r_j)     V: value, r: GPUs, u: price of the option's type; nothing: 0
    sum V   = bound - sum loss - sum_t u_t idle_t           bound = sum_i max_k (V_ik - u_k r_k) + sum_t u_t GPUs_t

A plan falls short of the relaxation's bound by its jobs' losses and by the worth of its idle GPUs. With a few types and some
hundred jobs the best plan misses the bound by a part of one job's value, so few jobs have options with a loss that such a plan
can bear. From everybody's option without a loss, a dynamic program changes one job after another. Its states are how many GPUs
of each type are given out too many (> 0) or too few, and each keeps its least loss. The same program over each single type,
forth and back, limits how far off a state may be: no plan within the limit passes the others. The limit grows until a plan is
found, which then is the best.

A general solver takes 20 to 100 times as long for these knapsacks, with a tail of minutes. Where the states are too many for
this one (many types, very large sizes) `solve` gives None.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from scheduler.policies.rivals.typelevel import states
from scheduler.policies.rivals.typelevel.states import Box, Change, Losses, Picks

FIRST_LIMIT, GROWTH = 2e-4, 2.0
"""The loss that is looked within first, over the bound, and how it grows."""

REACH = 160
"""The most GPUs of a type given out too many that are a state of their own."""

MOST_STEPS = 30_000_000
"""Changes tried at a state, of all jobs and states together: some 4 ns each. A larger program is looked at only within `NEAR`
GPUs of an even balance: the plan may then not be the best, and says how far from it it may be."""

NEAR = (64, 32, 24, 16, 12, 8)

COARSE_GAP = 0.02
"""The part by which such a plan may fall short of the proven bound."""

MOST_CHANGES = 255
"""The most changes of a job: a byte counts them."""


@dataclass(frozen=True, slots=True)
class Option:
    """An allocation that a job may get: its value, and how many GPUs of which type."""

    value: float
    gpu_type: int
    gpus: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The option of each job (None = nothing), the sum of the values, and the proven bound of any plan's."""

    taken: tuple[int | None, ...]
    value: float
    bound: float


def solve(
    jobs: Sequence[Sequence[Option]],
    gpus: Sequence[int],
    prices: Sequence[float],
    start: Sequence[int | None],
    *,
    gap: float,
) -> Plan | None:
    """The best plan, or one within the relative gap. `prices` >= 0 of the types; `start`: an option of each job that loses
    least at these prices. None: too many states.
    """
    balance = _Balance(jobs, gpus, prices, start)
    limit, proven = max(FIRST_LIMIT * balance.bound, 1e-9), 0.0
    near, allowed = False, gap
    while True:
        passed = balance.within(limit, near=near)
        if passed is None and near:
            return None
        if passed is None:
            near, allowed = True, max(gap, COARSE_GAP)
            continue
        loss, taken = passed
        if not near:
            proven = min(limit, loss)
        if loss - proven <= allowed * (balance.bound - loss) or (not near and loss <= limit):
            value = sum(options[k].value for options, k in zip(jobs, taken, strict=True) if k is not None)
            return Plan(taken, value, max(value, balance.bound - proven))
        if near and loss <= limit:
            return None
        limit = min(GROWTH * limit, loss)


def loses_least(options: Sequence[Option], prices: Sequence[float]) -> int | None:
    """The option that is worth most above its price; None = nothing is."""
    worth = [each.value - prices[each.gpu_type] * each.gpus for each in options]
    best = max(range(len(options)), key=worth.__getitem__, default=None)
    return None if best is None or worth[best] <= 0 else best


def _cut(span: tuple[int, int], off: int, far: int) -> tuple[int, int]:
    """The part of a span from the start to within `far` of an even balance; its nearest end when it has no such part."""
    low, high = span
    least = min(max(low, min(off, -far)), high)
    return least, max(least, min(high, max(off, far)))


@dataclass(slots=True)
class _Balance:
    jobs: Sequence[Sequence[Option]]
    gpus: Sequence[int]
    prices: Sequence[float]
    start: Sequence[int | None]
    bound: float = field(init=False)
    off: tuple[int, ...] = field(init=False)
    """GPUs of each type that the start gives out too many."""
    changes: list[list[Change]] = field(init=False)

    def __post_init__(self) -> None:
        self.bound = sum(price * count for price, count in zip(self.prices, self.gpus, strict=True))
        self.off = tuple(-count for count in self.gpus)
        self.changes = []
        for options, first in zip(self.jobs, self.start, strict=True):
            worth = [each.value - self.prices[each.gpu_type] * each.gpus for each in options]
            best = max(0.0, *worth) if worth else 0.0
            own = self._of(options, first)
            self.bound += best
            self.off = states.plus(self.off, own)
            everything: list[tuple[int | None, float]] = [(None, 0.0), *enumerate(worth)]
            changes = [
                Change(k, max(0.0, best - each), states.minus(self._of(options, k), own))
                for k, each in everything
                if k != first
            ]
            self.changes.append(sorted(changes, key=lambda change: change.loss))

    def _of(self, options: Sequence[Option], taken: int | None) -> tuple[int, ...]:
        given = [0] * len(self.gpus)
        if taken is not None:
            given[options[taken].gpu_type] = options[taken].gpus
        return tuple(given)

    def within(self, limit: float, *, near: bool) -> tuple[float, tuple[int | None, ...]] | None:
        """The least loss found and its plan: the least of all if that is within the limit and not only what is `near` an even
        balance was looked at. None: too many states.
        """
        affordable = [[change for change in changes if change.loss <= limit] for changes in self.changes]
        order = sorted((k for k, own in enumerate(affordable) if own), key=lambda k: affordable[k][0].loss)
        turns = [affordable[k] for k in order]
        if any(len(changes) > MOST_CHANGES for changes in turns) or any(off > REACH for off in self.off):
            return None
        boxes = self._boxes(turns, limit)
        if not boxes:
            return np.inf, ()
        if near:
            boxes = self._nearest(turns, boxes)
        most = max((more for changes in turns for change in changes for more in change.more), default=0)
        beyond = any(high + most > REACH for box in boxes for _, high in box)  # plans may pass states that are not kept
        if states.steps(turns, boxes) > MOST_STEPS or (not near and beyond):
            return None
        losses = np.full(states.shape(boxes[0]), np.inf)
        losses[tuple(off - low for off, (low, _) in zip(self.off, boxes[0], strict=True))] = 0.0
        picks: list[Picks] = []
        for changes, (before, after) in zip(turns, pairwise(boxes), strict=True):
            losses, pick = states.turn(losses, changes, before, after)
            picks.append(pick)
        losses += self._idle(boxes[-1])
        place = np.unravel_index(int(np.argmin(losses)), losses.shape)
        loss = float(losses[place])
        if not np.isfinite(loss):
            return np.inf, ()
        state = tuple(int(each) + low for each, (low, _) in zip(place, boxes[-1], strict=True))
        return loss, self._walk_back(state, order, turns, picks, boxes)

    def _boxes(self, turns: Sequence[Sequence[Change]], limit: float) -> list[Box]:
        """How far off a state may be before each turn and after the last; none at all when no plan is within the limit."""
        boxes: list[Box] = [[] for _ in range(len(turns) + 1)]
        for kind, (count, price) in enumerate(zip(self.gpus, self.prices, strict=True)):
            alone = [states.alone(changes, kind) for changes in turns]
            far = np.arange(-count, REACH + 1)
            forth = [np.where(far == self.off[kind], 0.0, np.inf)]
            for moves in alone:
                forth.append(states.spread(forth[-1], moves))
            back = [np.where(far <= 0, -price * far, np.inf)]
            for moves in reversed(alone):
                back.append(states.spread(back[-1], [(-more, loss) for more, loss in moves]))
            for box, there, then in zip(boxes, forth, reversed(back), strict=True):
                open_to = np.flatnonzero(there + then <= limit)
                if not len(open_to):
                    return []
                box.append((int(open_to[0]) - count, int(open_to[-1]) - count))
        return boxes

    def _nearest(self, turns: Sequence[Sequence[Change]], boxes: list[Box]) -> list[Box]:
        """The boxes cut until all states can be looked at, the start and an even balance among them."""
        cut = boxes
        for far in NEAR:
            if states.steps(turns, cut) <= MOST_STEPS:
                break
            cut = [[_cut(span, off, far) for span, off in zip(box, self.off, strict=True)] for box in boxes]
        return cut

    def _idle(self, box: Box) -> Losses:
        """The worth of each state's idle GPUs; no state has fewer than none."""
        worth = np.zeros(states.shape(box))
        for kind, (low, high) in enumerate(box):
            far = np.arange(low, high + 1)
            along = [1] * len(box)
            along[kind] = len(far)
            worth += np.where(far <= 0, -self.prices[kind] * far, np.inf).reshape(along)
        return worth

    def _walk_back(
        self,
        state: tuple[int, ...],
        order: Sequence[int],
        turns: Sequence[Sequence[Change]],
        picks: Sequence[Picks],
        boxes: Sequence[Box],
    ) -> tuple[int | None, ...]:
        taken = list(self.start)
        for job, changes, pick, box in zip(
            reversed(order), reversed(turns), reversed(picks), reversed(boxes[1:]), strict=True
        ):
            picked = int(pick[tuple(each - low for each, (low, _) in zip(state, box, strict=True))])
            if picked:
                taken[job] = changes[picked - 1].option
                state = states.minus(state, changes[picked - 1].more)
        return tuple(taken)
