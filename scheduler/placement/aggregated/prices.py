"""Prices first: the price of a GPU, a core and a place for a large piece on each home of nodes, in milliseconds.

The dual of the pooled relaxation (see `pooled`), smoothed (the best of a group's candidates by a soft maximum at a temperature of
`eps` times the group's largest value), is minimised by Newton steps within prices >= 0 while the temperature falls: first on
every n-th group with an n-th of the supply, then on all. At any prices the hard dual bounds every plan. In the manner of
CvxCluster (Nnorom, Boyd, Levis, 2026), whose prices come from a relaxation too; ours knows sizes of pieces.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.aggregated.pooled import Relaxed, program_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from scheduler.placement.aggregated.candidates import Candidates
    from scheduler.placement.aggregated.classes import Classes
    from scheduler.placement.aggregated.pricing import Cap

SAMPLED_GROUPS = 400
COARSE, FINE, FALL = 0.5, 0.02, 0.6
"""The temperatures of the first step and of the last, and the factor by which it falls at each."""
COARSE_STEPS, FINE_STEPS, WARM_STEPS, HALVINGS = 9, 5, 8, 5
KNOWN = 0.5
"""The share of the rows that must have earlier prices to start from them."""
SWEEPS = 40
NEGLIGIBLE = 9.0
"""A candidate that lies this number of temperatures behind its group's best has no part in it (e^-9)."""
LAST_DIGITS = 1e-10
"""A smaller part of a difference of two sums of a few thousand numbers may be rounding only."""
MOST_AT_ONCE = 250_000
"""Multiplications that a matrix library does on one thread: more would wait for other cores, which are others' to use."""


@dataclass(frozen=True, slots=True)
class Prices:
    """`dual`: of the relaxation's rows; `pieces`: of a unit of each of the candidates' rows; the proven bound of all plans."""

    dual: np.ndarray
    pieces: np.ndarray
    quotas: np.ndarray
    bound: float
    labels: Sequence[object] = ()

    def by_label(self) -> dict[object, float]:
        """To start the next planning's from."""
        return dict(zip(self.labels, self.dual.tolist(), strict=True))


def prices_of(
    candidates: Candidates,
    classes: Classes,
    caps: Sequence[Cap],
    *,
    start: Mapping[object, float] = MappingProxyType({}),
    late: Callable[[], bool] = lambda: False,
) -> Prices:
    """The prices of a stage's relaxation.

    `start`: those of an earlier one, by label; where they are not of most of these rows, they are left aside.
    """
    program = program_of(candidates, classes, caps)
    relaxed = program.relaxed
    known = np.array([label in start for label in program.labels], dtype=bool)
    if start and known.mean() >= KNOWN:
        dual = np.array([start.get(label, 0.0) for label in program.labels])
        dual, bound = _minimised(relaxed, dual, FINE / FALL, WARM_STEPS, late)
    else:
        dual, every = np.zeros(len(relaxed.limits)), len(relaxed.members) // SAMPLED_GROUPS
        if every > 1:
            dual, _ = _minimised(relaxed.sample(every), dual, COARSE, COARSE_STEPS, late)
        eps, steps = (FINE / FALL, FINE_STEPS) if every > 1 else (COARSE, COARSE_STEPS + FINE_STEPS)
        dual, bound = _minimised(relaxed, dual, eps, steps, late)
    return Prices(dual, program.pieces(dual), dual[len(dual) - len(caps) :], bound, program.labels)


def _minimised(
    relaxed: Relaxed, prices: np.ndarray, eps: float, steps: int, late: Callable[[], bool]
) -> tuple[np.ndarray, float]:
    """Newton steps from these prices on; the last prices, and the least bound on the way."""
    bound = np.inf
    for _ in range(steps):
        here = _Soft.at(relaxed, prices, eps)
        bound = min(bound, here.hard)
        if late():
            break
        slope, curve = here.bent()
        step = _step(curve, slope, prices)
        length, down = 1.0, float((slope * step).sum())
        if -down <= 1e-7 * max(abs(here.value), 1e-12) and eps <= FINE:
            break
        for _ in range(HALVINGS):
            ahead = np.maximum(prices + length * step, 0.0)
            if _Soft.at(relaxed, ahead, eps).value <= here.value + 1e-4 * length * down:
                break
            length *= 0.5
        prices, eps = ahead, max(FINE, eps * FALL)
    return prices, min(bound, _Soft.at(relaxed, prices, eps).hard)


@dataclass(slots=True)
class _Soft:
    """The smoothed dual at some prices: its value, the hard one, and of each entry that counts the share it is taken."""

    relaxed: Relaxed
    value: float
    hard: float
    heat: np.ndarray  # by group
    own: np.ndarray  # entries that count
    group: np.ndarray  # theirs
    share: np.ndarray  # theirs

    @classmethod
    def at(cls, relaxed: Relaxed, prices: np.ndarray, eps: float) -> _Soft:
        r = relaxed
        surplus = r.value - r.cost(prices)
        best = np.maximum(np.maximum.reduceat(surplus, r.first), 0.0)
        heat = np.maximum(eps * np.maximum.reduceat(r.value, r.first), 1e-12)
        behind = (surplus - best[r.group]) / heat[r.group]
        own = np.flatnonzero(behind > -NEGLIGIBLE)
        group, weight = r.group[own], np.exp(behind[own])
        total = np.bincount(group, weights=weight, minlength=len(best)) + np.exp(-best / heat)
        paid = float((r.limits * prices).sum())
        value = float((r.members * (best + heat * np.log(total))).sum()) + paid
        return cls(r, value, float((r.members * best).sum()) + paid, heat, own, group, weight / total[group])

    def bent(self) -> tuple[np.ndarray, np.ndarray]:
        """Slope and curvature."""
        r, own, group = self.relaxed, self.own, self.group
        slope, curve = r.limits.copy(), np.zeros((len(r.limits), len(r.limits)))
        mean = np.zeros((len(r.members), len(r.limits)))  # of the use of a group's candidates
        taken, stiff = self.share * r.members[group], self.share * (r.members / self.heat)[group]
        for k, block in enumerate(r.blocks):
            here = np.flatnonzero(r.block[own] == k)
            if not len(here):
                continue
            row, need, count = r.row[own[here]], r.need[own[here]], len(block.use)
            slope[block.dims] -= _weighed(block.use, np.bincount(row, weights=taken[here] * need, minlength=count))
            bent = np.bincount(row, weights=stiff[here] * need * need, minlength=count)
            curve[block.dims, block.dims] += _product(block.use, block.use * bent[:, None])
            starts = np.flatnonzero(np.concatenate(([True], np.diff(group[here]) > 0)))
            used = block.use[row] * (self.share[here] * need)[:, None]
            mean[group[here[starts]], block.dims] = np.add.reduceat(used, starts)
        for dim, weights in r.quotas:
            weight = weights[own]
            slope[dim] -= float((taken * weight).sum())
            mean[:, dim] = np.bincount(group, weights=self.share * weight, minlength=len(mean))
            self._bend(curve, dim, stiff * weight)
        return slope, _cancelled(curve, _product(mean, mean * (r.members / self.heat)[:, None]))

    def _bend(self, curve: np.ndarray, dim: int, bent: np.ndarray) -> None:
        """A quota's part of the curvature: its weights are the candidates' own, not those of the pieces that they take."""
        r, own = self.relaxed, self.own
        for k, block in enumerate(r.blocks):
            here = np.flatnonzero((r.block[own] == k) & (bent > 0))
            by_row = np.bincount(r.row[own[here]], weights=bent[here] * r.need[own[here]], minlength=len(block.use))
            curve[dim, block.dims] = curve[block.dims, dim] = _weighed(block.use, by_row)
        for other, weights in r.quotas:
            curve[dim, other] = float((bent * weights[own]).sum())


def _weighed(use: np.ndarray, by_row: np.ndarray) -> np.ndarray:
    found: np.ndarray = (use * by_row[:, None]).sum(axis=0)
    return found


def _cancelled(curve: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Return their difference, with at least the part of each row's own bend that rounding may have left.

    Where every group takes one candidate whole the two are the same but for their last digits. Steps by such a curvature, of rows
    that bend less by themselves than with others, grow without end.
    """
    found: np.ndarray = curve - mean
    own = np.diag_indices(len(curve))
    found[own] = np.maximum(found[own], LAST_DIGITS * curve[own])
    return found


def _product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The product of `left` transposed and `right`, in pieces that stay on this thread."""
    found = np.zeros((left.shape[1], right.shape[1]))
    rows = max(1, MOST_AT_ONCE // max(1, found.size))
    for begin in range(0, len(left), rows):
        found += left[begin : begin + rows].T @ right[begin : begin + rows]
    return found


def _step(curve: np.ndarray, slope: np.ndarray, prices: np.ndarray) -> np.ndarray:
    """The step that minimises the quadratic model within prices >= 0, by one coordinate after the other."""
    size = len(prices)
    own = np.diag_indices(size)  # never negative but by rounding
    curve[own] = np.maximum(curve[own], 0.0) + 1e-6 * np.abs(curve[own]).sum() / size + 1e-12
    stiffness = np.diag(curve)
    step, left = np.zeros(size), slope.copy()
    for _ in range(SWEEPS):
        largest = 0.0
        for k in range(size):
            move = max(-left[k] / stiffness[k], -prices[k] - step[k])
            if move:
                step[k] += move
                left += curve[k] * move
                largest = max(largest, abs(move) * stiffness[k] ** 0.5)
        if largest < 1e-5:
            break
    return step
