"""Scores of all nodes for each class of demand, kept up to date: only nodes that changed are scored again.

A workload has few distinct demands, and a placement changes one node. So a class's scores are computed in full once,
and when it arrives again only for the nodes that changed meanwhile: the work of an arrival does not grow with the
cluster but for one search of the largest score.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.random import Generator

    from research.simulator.packing.pool import Floats, Ints, Pool
    from scheduler.simulator.traces.openb import Demand

UNFIT = -np.inf


class Packer(Protocol):
    """A rule that places one demand at a time. `ties_by_lot`: equal scores are drawn, else the first node has it."""

    ties_by_lot: bool

    def score(self, pool: Pool, nodes: Ints, demand: Demand) -> Floats:
        """How good each of these nodes is, larger is better; the demand fits on all of them."""
        ...

    def gpus(self, pool: Pool, node: int, demand: Demand, rng: Generator) -> tuple[int, ...]:
        """Which GPUs of the node it shall get: as many as it asks for, with enough idle compute each."""
        ...


@dataclass(slots=True)
class _Row:
    scores: Floats
    seen: int  # how many of the pool's changes these scores know of


@dataclass(slots=True)
class NodeScores:
    """Places demands one after another on a pool by a packer's scores."""

    packer: Packer
    pool: Pool
    rng: Generator
    rows: dict[Demand, _Row] = field(default_factory=dict)

    def place(self, demand: Demand) -> tuple[int, tuple[int, ...]] | None:
        """Find a place and take it: the node's index and its GPUs; None = it fits nowhere now."""
        node = self._best(self._scores(demand))
        if node is None:
            return None
        gpus = self.packer.gpus(self.pool, node, demand, self.rng)
        self.pool.take(node, gpus, demand)
        return node, gpus

    def _scores(self, demand: Demand) -> Floats:
        row = self.rows.get(demand)
        if row is None:
            row = self.rows[demand] = _Row(np.empty(len(self.pool.hosts)), len(self.pool.changes))
            self._score(row.scores, np.arange(len(self.pool.hosts)), demand)
        elif row.seen < len(self.pool.changes):
            self._score(row.scores, np.unique(np.array(self.pool.changes[row.seen :], dtype=np.int64)), demand)
            row.seen = len(self.pool.changes)
        return row.scores

    def _score(self, scores: Floats, nodes: Ints, demand: Demand) -> None:
        fit = self.pool.fits(demand, nodes)
        scores[nodes[~fit]] = UNFIT
        if fit.any():
            scores[nodes[fit]] = self.packer.score(self.pool, nodes[fit], demand)

    def _best(self, scores: Floats) -> int | None:
        if not len(scores) or scores.max() == UNFIT:
            return None
        if not self.packer.ties_by_lot:
            return int(np.argmax(scores))
        best = np.flatnonzero(scores == scores.max())
        return int(best[self.rng.integers(len(best))])
