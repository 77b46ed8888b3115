"""Single servers: nodes on which a job was measured at another speed than its class's (Hops 3.3; algorithms.md section 6).

A job has an *own speed* on a node where a cell of its signature, for a size that it accepts, is more than 5 % off what the
estimator says of the node's type, times the factor of its speed class. Nodes with the same own speeds, in steps of 5 % of that
speed, form classes of their own under one number. At most `own_speeds` (a knob) numbers are given, to the differences that weigh
most: w * |log(own / class's)|, w being the weight of all jobs of the signature that accept the size. The other own speeds count
only where nodes are handed out within a class.
"""

from __future__ import annotations

import math
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from scheduler.copies import replace
from scheduler.errors import InvalidJob
from scheduler.estimator.layers import EntityLayer
from scheduler.estimator.measured import signature
from scheduler.placement.core_counts import speed_of
from scheduler.placement.free_capacity import SPEED_STEP, speed_class

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scheduler.estimator.estimator import Estimator
    from scheduler.model import Job, Node, Ranked
    from scheduler.placement.aggregated.classes import Pool
    from scheduler.placement.ledger import Ledger

NO_NODE = -1
"""The id of a stand-in, so that no estimator's layer takes it for a node it has measured."""
USUAL, ROUNDING = 1.0, 1e-9


class Asked(NamedTuple):
    """A question about a signature's speed: on this number of GPUs in all, over this number of nodes."""

    signature: str
    gpus: int
    nodes: int


class _Off(NamedTuple):
    """Nodes of one type on which the answer is off by the same number of steps."""

    asked: Asked
    gpu_type: str
    steps: int


@dataclass(slots=True)
class OwnSpeeds:
    """The own speeds of a stage's jobs, as ratios to the class's."""

    cells: dict[Asked, dict[int, float]] = field(default_factory=dict)  # by node
    own: dict[int, int] = field(default_factory=dict)  # node -> its number; 0 = a node without one
    signatures: set[str] = field(default_factory=set)  # those with an own speed that is kept apart
    _ratios: dict[tuple[Asked, int], float] = field(default_factory=dict)  # by number, in whole steps
    _fastest: dict[tuple[Asked, float, str, int], Node] = field(default_factory=dict)  # by ratio, type and speed class
    _alike: dict[tuple[object, ...], list[tuple[Pool, ...]]] = field(default_factory=dict)
    _usable: dict[tuple[object, ...], list[tuple[Pool, tuple[Pool, ...]]]] = field(default_factory=dict)

    def ratio(self, asked: Asked, pool: Pool) -> float:
        """The ratio on the pool's nodes, as far as they are kept apart."""
        return self._ratios.get((asked, pool.own), USUAL)

    def alike(self, asked: Asked, pools: Sequence[Pool]) -> list[tuple[Pool, ...]]:
        """The pools, together where they differ only in the speeds of others. Shapes are many, so both answers are kept."""
        key = (asked, *map(id, pools))
        if key not in self._alike:
            found: dict[object, list[Pool]] = {}
            for pool in pools:
                found.setdefault((pool._replace(own=0), self.ratio(asked, pool)), []).append(pool)
            self._alike[key] = [tuple(own) for own in found.values()]
        return self._alike[key]

    def usable(self, asked: Asked, pools: Sequence[Pool]) -> list[tuple[Pool, tuple[Pool, ...]]]:
        """A pool of each speed there is, the fastest first, and all that are as fast or faster."""
        key = (asked, *map(id, pools))
        if key not in self._usable:
            paces = [pool.speed * self.ratio(asked, pool) for pool in pools]
            self._usable[key] = [
                (pools[paces.index(least)], tuple(pools[k] for k, pace in enumerate(paces) if pace >= least))
                for least in sorted(set(paces), reverse=True)
            ]
        return self._usable[key]

    def name_of(self, job: Job) -> str:
        """The job's signature where some of its own speeds are kept apart; else ""."""
        name = signature(job) if self.signatures else ""
        return name if name in self.signatures else ""

    def node(self, asked: Asked, pool: Pool) -> Node | None:
        """The fastest of the nodes with the pool's ratio: the estimator is asked of it. None = of the pool's stand-in."""
        return self._fastest.get((asked, self.ratio(asked, pool), pool.gpu_type, pool.speed))

    def known(self, job: Job, gpus: int, nodes: Sequence[int]) -> bool:
        """Whether the job has an own speed on one of these nodes."""
        cells = self.cells.get(Asked(signature(job), gpus, len(nodes))) if self.cells else None
        return cells is not None and any(node in cells for node in nodes)

    def tell_apart(self, off: _Off, nodes: Sequence[Node]) -> None:
        """Note an own speed of nodes that have their numbers."""
        asked, ratio = off.asked, off.steps * SPEED_STEP
        self.signatures.add(asked.signature)
        for node in nodes:
            self._ratios[asked, self.own[node.id]] = ratio
            key = (asked, ratio, off.gpu_type, speed_class(node))
            if (best := self._fastest.get(key)) is None or self.cells[asked][best.id] < self.cells[asked][node.id]:
                self._fastest[key] = node


def own_speeds_of(
    stage: Iterable[Ranked], weight: Mapping[int, float], ledger: Ledger, estimator: Estimator, most: int
) -> OwnSpeeds:
    """The own speeds of the jobs of a stage on the idle nodes, which get `most` numbers at most."""
    layer = next((each for each in estimator.layers if isinstance(each, EntityLayer)), None)
    if layer is None or not layer.places:
        return OwnSpeeds()
    jobs: dict[str, list[Job]] = {}
    for ranked in stage:
        if (name := signature(ranked.job)) in layer.places:
            jobs.setdefault(name, []).append(ranked.job)
    found, weights = OwnSpeeds(), dict[_Off, float]()
    nodes: dict[_Off, list[Node]] = {}
    for name in sorted(jobs):
        sizes = dict[int, float]()
        for job in jobs[name]:
            sizes |= {size: sizes.get(size, 0.0) + weight[job.id] for size in job.requirement}
        with suppress(InvalidJob):  # the candidates say so
            for node, asked, ratio in _cells_apart(jobs[name], layer.places[name], ledger, estimator, sizes):
                off = _Off(asked, node.gpu_type or "", max(1, round(ratio / SPEED_STEP)))
                found.cells.setdefault(asked, {})[node.id] = ratio
                nodes.setdefault(off, []).append(node)
                weights[off] = sizes[asked.gpus] * abs(math.log(off.steps * SPEED_STEP))
    told_apart = _number(found.own, nodes, sorted(nodes, key=lambda off: (-weights[off], off)), most)
    for off in told_apart:
        found.tell_apart(off, nodes[off])
    return found


def _cells_apart(
    jobs: Sequence[Job],
    places: Iterable[tuple[int, int, int, float]],
    ledger: Ledger,
    estimator: Estimator,
    sizes: Mapping[int, float],
) -> Iterable[tuple[Node, Asked, float]]:
    """Node, question and ratio of each own speed of one signature on a node with idle GPUs."""
    name, usual = signature(jobs[0]), dict[tuple[str, int, int, int], float]()
    for number, gpus, over, mean in places:
        free = ledger.free.get(number)
        if gpus not in sizes or free is None or not free.gpus or not free.cores:
            continue
        node = free.node
        job = next((each for each in jobs if each.may_use(node.gpu_type)), None)
        if job is None:
            continue
        key = (node.gpu_type or "", speed_class(node), gpus, over)
        if key not in usual:
            stand_in = replace(node, id=NO_NODE)
            usual[key] = speed_of(estimator, job, stand_in, gpus, over, key[1] * SPEED_STEP)[0]
        ratio = mean / usual[key]
        if abs(ratio - USUAL) > SPEED_STEP + ROUNDING and math.isfinite(ratio) and ratio > 0:
            yield node, Asked(name, gpus, over), ratio


def _number(
    own: dict[int, int], nodes: Mapping[_Off, Sequence[Node]], in_turn: Iterable[_Off], most: int
) -> list[_Off]:
    """Give numbers to nodes, so that those of one number have the same own speeds of those returned, which are kept apart."""
    sizes, numbers, told_apart = Counter[int](), count(1), list[_Off]()
    for off in in_turn:
        parts: dict[int, list[int]] = {}
        for node in nodes[off]:
            parts.setdefault(own.get(node.id, 0), []).append(node.id)
        split = [part for before, part in sorted(parts.items()) if not before or len(part) < sizes[before]]
        if len(sizes) + len(split) > most:
            continue
        for part in split:
            sizes[own.get(part[0], 0)] -= len(part)
            del sizes[0]
            sizes[number := next(numbers)] = len(part)
            own |= dict.fromkeys(part, number)
        told_apart.append(off)
    return told_apart
