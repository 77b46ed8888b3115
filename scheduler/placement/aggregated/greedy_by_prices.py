"""A plan by prices, in one pass over the queue: each job takes the candidate whose value is most above its price (see `prices`).

Jobs that gain most go first, each to its best candidate or one nearly as good, on the node whose value it lowers least: the value
of a node is that of the best pieces that its idle GPUs and cores can be cut into, so cores are not taken from GPUs that others
could use. The jobs left out take the rest that fits, most value for their price first. A few numpy calls a job, none over nodes
and jobs together; the present state is a plan at any time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.aggregated.knapsack import Capacity, PieceKinds, best_values
from scheduler.placement.aggregated.skeletons import PieceRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from scheduler.model import Configuration, Ranked
    from scheduler.placement.aggregated.candidates import Candidates, Group
    from scheduler.placement.aggregated.classes import Classes, Home, Pool
    from scheduler.placement.aggregated.idle_columns import IdleColumns
    from scheduler.placement.aggregated.prices import Prices
    from scheduler.placement.aggregated.pricing import Cap

    Taken = tuple[Ranked, Configuration, Group, int]

NEARLY = 0.2
"""A job accepts this part of a candidate's price less than its best before every job has had a turn."""
MOST_PIECES = 1 << 20
"""No job asks for more GPUs."""
DIGITS = 9
"""Values are compared to this number of digits of the largest, so that rounding decides nothing."""


class Outlook:
    """The value of nodes at these prices, by their idle resources: a piece taken from one costs the others its loss."""

    def __init__(self, classes: Classes, candidates: Candidates, prices: Prices, idle_columns: IdleColumns) -> None:
        members: dict[Home, set[Pool]] = {}
        home_of: dict[int, Home] = {}
        dual, own_prices = prices.by_label(), dict[int, float]()
        for each in classes.all:
            home = each.key.home
            members.setdefault(home, set()).update(pool for offer in each.offers for pool in offer)
            home_of |= dict.fromkeys(each.nodes, home)
            own_prices |= dict.fromkeys(each.nodes, dual.get((home, ("own", each.key.own)), 0.0))
        numbers = {home: k for k, home in enumerate(members)}
        self._table = np.array([numbers[home_of[int(node)]] for node in idle_columns.nodes], dtype=int)
        self._own = np.array(
            [own_prices[int(node)] for node in idle_columns.nodes]
        )  # of a GPU, for jobs' own speeds there
        self._unit = 10.0**DIGITS / max(float(prices.pieces.max(initial=0.0)), 1e-9)
        self._tables = []
        for home, pools in members.items():
            own = self._table == numbers[home]
            usual = {pool for pool in pools if pool.own == classes.usual[home]}
            apart = len(usual) < len(pools)
            pieces = [
                (row, key.gpus, key.cores, 0)
                for key, row in candidates.rows.items()
                if (isinstance(key, PieceRow) or apart) and usual & set(key.pools)
            ]
            most = max((cores for _, _, cores, _ in pieces), default=0)
            cores = min(int(idle_columns.cores[own].max()), int(idle_columns.gpus[own].max()) * most)
            capacity = Capacity(int(idle_columns.gpus[own].max()), cores, 0)
            self._tables.append(best_values(PieceKinds.of(pieces, capacity), prices.pieces)[:, :, 0])

    def loss(self, idle_columns: IdleColumns, at: np.ndarray, gpus: int, cores: int) -> np.ndarray:
        """The loss of each of these nodes of one home by such a piece, in whole units of the last digit that counts."""
        values = self._tables[self._table[at[0]]]
        most, idle, left = values.shape[1] - 1, idle_columns.gpus[at], idle_columns.cores[at]
        lost = values[idle, np.minimum(left, most)] - values[idle - gpus, np.minimum(left - cores, most)]
        lost += self._own[at] * gpus
        found: np.ndarray = np.rint(lost * self._unit).astype(np.int64)
        return found


def seat_by_prices(
    candidates: Candidates,
    prices: Prices,
    caps: Sequence[Cap],
    idle_columns: IdleColumns,
    late: Callable[[], bool],
) -> Iterator[Taken]:
    """Seat the waiting jobs on idle nodes one after another."""
    turn = _Turn(candidates, prices, caps, idle_columns)
    waiting = np.array([group.running is None for group in candidates.groups])
    willing = np.flatnonzero(waiting & (turn.best > -1e-9))
    dense = np.flatnonzero(waiting)
    ways = (
        (willing[np.lexsort((willing, -turn.best[willing]))], NEARLY),
        (dense[np.lexsort((dense, -turn.density[dense]))], np.inf),
    )
    for groups, nearly in ways:
        for position, g in enumerate(groups):
            if position % 16 == 15 and late():
                return
            yield from turn.of(int(g), nearly)


class _Turn:
    def __init__(self, candidates: Candidates, prices: Prices, caps: Sequence[Cap], idle_columns: IdleColumns) -> None:
        self._candidates, self._idle_columns = candidates, idle_columns
        cost = candidates.need * prices.pieces[candidates.row]
        for cap, price in zip(caps, prices.quotas, strict=True):
            np.add.at(cost, cap.candidates, cap.weights * price)
        self._cost, self._surplus = cost, candidates.value - cost
        firsts = candidates.first[:-1]
        self.best = np.maximum.reduceat(self._surplus, firsts)
        self.density = np.maximum.reduceat(candidates.value / np.maximum(cost, 1e-12), firsts)
        self._order = np.lexsort((-self._surplus, candidates.group))
        self._seated = np.zeros(len(candidates.groups), dtype=int)
        # The pieces asked, of a row and their number; and the memory from which on there is no capacity for it.
        _, self._asked = np.unique(candidates.row * MOST_PIECES + candidates.need.astype(int), return_inverse=True)
        self._gone = np.full(len(candidates.row), np.inf)

    def of(self, g: int, nearly: float) -> Iterator[Taken]:
        """Seat what is left of the group, by candidates at most `nearly` worse than its best."""
        group, candidates = self._candidates.groups[g], self._candidates
        if self._seated[g] == len(group.members):
            return
        numbers = self._order[candidates.first[g] : candidates.first[g + 1]]
        least = max(0.0, self.best[g]) - nearly * self._cost[numbers] if np.isfinite(nearly) else -np.inf
        numbers = numbers[self._surplus[numbers] >= np.minimum(least, self.best[g]) - 1e-9]
        memory = group.job.memory_mib
        for ranked in group.members[self._seated[g] :]:
            numbers = numbers[memory < self._gone[self._asked[numbers]]]
            for number in numbers.tolist():
                if (made := self._try(ranked, group, number)) is not None:
                    self._seated[g] += 1
                    yield ranked, made, group, number
                    break
            else:
                return

    def _try(self, ranked: Ranked, group: Group, number: int) -> Configuration | None:
        candidate = group.candidates[self._candidates.position[number]]
        if not self._idle_columns.quota_admits(ranked.job, candidate):
            return None
        made = self._idle_columns.seat(ranked.job, candidate)
        if made is None:
            asked = self._asked[number]
            self._gone[asked] = min(self._gone[asked], ranked.job.memory_mib)
        return made
