"""The candidates of jobs of one shape on one GPU type, speeds apart: made once for all of them.

A *skeleton* is a table with a line per candidate, and the questions that the estimator must answer to know their speed, of which
several candidates share one: it depends on the number of GPUs and nodes, and missing cores scale it. A queue of thousands of jobs
costs its shapes, and the questions about each job; the rest is arithmetic on arrays.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scheduler.placement.aggregated.own_speeds import Asked
from scheduler.placement.core_counts import share_of_speed, spread_rates
from scheduler.placement.free_capacity import SPEED_STEP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from scheduler.model import Job, Node
    from scheduler.placement.access import Access
    from scheduler.placement.aggregated.classes import Classes, Pool
    from scheduler.placement.ledger import Ledger


class PieceRow(NamedTuple):
    """Pieces of `gpus` and `cores` that a pool offers. `cores` is 0 where the type has more than can ever be asked."""

    pool: Pool
    gpus: int
    cores: int

    @property
    def pools(self) -> tuple[Pool, ...]:
        return (self.pool,)


class SharedRow(NamedTuple):
    """Pieces that any of several pools may offer."""

    pools: tuple[Pool, ...]
    gpus: int
    cores: int


class Question(NamedTuple):
    """A question to the estimator about a job: on such a node, with this number of GPUs in all, over this number of nodes."""

    node: Node
    gpus: int
    nodes: int
    factor: float  # of the node's speed class


class Line(NamedTuple):
    """A candidate but for its speed: that is `share` of the answer to question `asked`, times `gpus`."""

    row: int
    need: int
    gpus: int
    cores: int
    spread: bool
    factor: float
    share: float
    asked: int


ROW, NEED, GPUS, CORES, _, FACTOR, SHARE, ASKED = range(8)


@dataclass(frozen=True, slots=True)
class Skeleton:
    """The candidates of a shape on one type: questions, and a line each in `table`, whose columns are those of `Line`."""

    questions: tuple[Question, ...]
    table: np.ndarray


@dataclass(slots=True)
class Skeletons:
    """Makes skeletons, and remembers them. `row_of`: the number of a row, a new one for a new row."""

    classes: Classes
    ledger: Ledger
    unbound: frozenset[str]
    row_of: Callable[[PieceRow | SharedRow], int]
    _made: dict[tuple[object, ...], Skeleton] = field(default_factory=dict)
    _alike: dict[tuple[object, ...], Skeleton] = field(default_factory=dict)
    _types: dict[frozenset[str], list[str]] = field(default_factory=dict)
    _pieces: dict[tuple[object, ...], list[tuple[int, int, float]]] = field(default_factory=dict)
    _rows: dict[tuple[int, ...], int] = field(default_factory=dict)
    _by_tenant: bool = False  # whether some nodes take one tenant at a time
    _memory_mib: list[int] = field(default_factory=list)  # that some node has at most: amounts between are equal

    def __post_init__(self) -> None:
        pools = self.classes.pools
        self._by_tenant = any(pool.tenant is not None for pool in pools)
        self._memory_mib = sorted({most for room in pools.values() for most in room.memory_mib})

    def of(self, job: Job, *, low_sensitivity: bool) -> list[Skeleton]:
        """By type; those without any candidate are left out."""
        access = self.classes.access[job.id]
        allowance = self.ledger.allowances.get(job.tenant)
        quota = (None, None) if allowance is None else (allowance.whole_gpus, allowance.cores)
        memory = bisect_left(self._memory_mib, job.memory_mib)
        needs = (job.requirement, job.cores, job.least_cores, memory, job.bound)
        own = self.classes.own_speeds.name_of(job)
        shape = (needs, job.tenant if self._by_tenant else None, access, quota, own)
        found = []
        if job.gpu_types not in self._types:
            self._types[job.gpu_types] = self.classes.types_for(job)
        for gpu_type in self._types[job.gpu_types]:
            spread = low_sensitivity or job.min_gpus > self.classes.largest.get(gpu_type, 0)
            key = (gpu_type, spread, *shape)
            made = self._made.get(key)
            if made is None:
                made = self._made[key] = self._make(job, access, gpu_type, quota, own, spread=spread)
            if len(made.table):
                found.append(made)
        return found

    def pieces(self, job: Job, pools: Sequence[Pool], size: int, most: int | None) -> list[tuple[int, int, float]]:
        """(row, cores, share of speed) of each piece of `size` GPUs in the pools for jobs that want `most` cores in all."""
        key = (tuple(map(id, pools)), size, job.cores, job.least_cores, most)
        if key not in self._pieces:
            room, first = self.classes.pools, pools[0]
            self._pieces[key] = [
                (self.row(able, size, cores), cores, share_of_speed(cores, job.cores, size))
                for cores in self.classes.core_counts[first.limited].of(first.gpu_type, size, job, most)
                if (able := tuple(pool for pool in pools if cores <= room[pool].cores[size]))
            ]
        return self._pieces[key]

    def row(self, pools: tuple[Pool, ...], gpus: int, cores: int) -> int:
        """The number of the row of pieces that any of these pools of a type may offer."""
        key = (*map(id, pools), gpus, cores)
        if key not in self._rows:
            cores = 0 if pools[0].gpu_type in self.unbound else cores
            numbers = [self.row_of(PieceRow(pool, gpus, cores)) for pool in pools]
            self._rows[key] = numbers[0] if len(pools) == 1 else self.row_of(SharedRow(pools, gpus, cores))
        return self._rows[key]

    def _make(
        self, job: Job, access: Access, gpu_type: str, quota: tuple[int | None, int | None], own: str, *, spread: bool
    ) -> Skeleton:
        pools = self.classes.pools_for(job, gpu_type)
        maker = _Maker(self, job, access, quota[1], own)
        for size in job.requirement:
            if quota[0] is not None and size > quota[0]:
                continue
            for alike in maker.alike(pools, size):
                maker.on_one_node(alike, size)
            if spread and size > 1 and pools:
                maker.over_nodes(pools, size)
        # Of tuples within a list numpy looks at each one's kind first, which takes three times as long.
        table = np.fromiter(chain.from_iterable(maker.lines), float).reshape(-1, len(Line._fields))
        made = Skeleton(tuple(maker.questions), table)
        return self._alike.setdefault((*maker.known, table.tobytes()), made)


@dataclass(slots=True)
class _Maker:
    """One skeleton in the making."""

    skeletons: Skeletons
    job: Job
    access: Access
    most_cores: int | None
    own: str  # its signature, where it has speeds of its own on some nodes
    questions: list[Question] = field(default_factory=list)
    known: dict[tuple[str, int, int, int, int], int] = field(default_factory=dict)  # type, speed, GPUs, nodes, node
    lines: list[Line] = field(default_factory=list)

    def _asked(self, pool: Pool, gpus: int, nodes: int) -> int:
        classes = self.skeletons.classes
        node = classes.own_speeds.node(Asked(self.own, gpus, nodes), pool) or classes.stand_in(pool)
        key = (pool.gpu_type, pool.speed, gpus, nodes, node.id)
        if key not in self.known:
            self.known[key] = len(self.questions)
            self.questions.append(Question(node, gpus, nodes, pool.speed * SPEED_STEP))
        return self.known[key]

    def alike(self, pools: Sequence[Pool], size: int) -> list[tuple[Pool, ...]]:
        """The pools that hold such a piece, those together on which the job is as fast."""
        rooms, mib = self.skeletons.classes.pools, self.job.memory_mib
        able = [each for each in pools if size < len((room := rooms[each]).cores) and room.memory_mib[size] >= mib]
        return self.skeletons.classes.own_speeds.alike(Asked(self.own, size, 1), able)

    def on_one_node(self, pools: Sequence[Pool], size: int) -> None:
        factor, asked = self.access.factor((pools[0].zone.array,)), -1
        for row, cores, share in self.skeletons.pieces(self.job, pools, size, self.most_cores):
            asked = self._asked(pools[0], size, 1) if asked < 0 else asked
            self.lines.append(Line(row, 1, size, cores, False, factor, share, asked))

    def over_nodes(self, pools: Sequence[Pool], size: int) -> None:
        """A candidate per rate, lowest speed class and set of arrays, those with only the fastest or own nodes included."""
        for arrays in [self.access.arrays[: k + 1] for k in range(len(self.access.arrays))]:
            own = [pool for pool in pools if pool.zone.array in arrays]
            if len(arrays) > 1 and not any(pool.zone.array == arrays[-1] for pool in own):
                continue
            asked = Asked(self.own, size, self._fewest(own, size))
            for host, usable in self.skeletons.classes.own_speeds.usable(asked, own):
                self.lines += self._units(usable, host, size, self.access.factor(arrays))

    def _fewest(self, pools: Sequence[Pool], size: int) -> int:
        """The fewest nodes, of two or more, that can hold a job which is spread."""
        room = self.skeletons.classes.pools
        return max(2, -(-size // max((len(room[pool].cores) - 1 for pool in pools), default=size)))

    def _units(self, usable: tuple[Pool, ...], host: Pool, size: int, factor: float) -> Iterator[Line]:
        classes, nodes = self.skeletons.classes, self._fewest(usable, size)
        rates = spread_rates(self.job)
        for rate in rates:
            fits = self.most_cores is None or rate * size <= self.most_cores
            if fits and classes.unit_gpus(usable, rate) >= size:
                share, asked = share_of_speed(rate, rates[0], 1), self._asked(host, size, nodes)
                row = self.skeletons.row(usable, 1, rate)
                yield Line(row, size, size, rate * size, True, factor, share, asked)
