"""The relaxation that prices come from: all nodes of a home pooled, as arrays (algorithms.md section 6).

A *home* is all nodes of one type, speed class and zone. For every size s that matters there

    GPUs of pieces of s or more    <=  idle GPUs on nodes with s or more idle
    their cores                    <=  idle cores on those nodes
    their number                   <=  sum over nodes of floor(idle / s)

hold for every plan, GPUs without a core of their own not counted; where jobs are limited to reserved cores, the same two
sums of theirs hold with those cores in place of all; the GPUs of pieces that must be on nodes of one number (see `own_speeds`)
are at most those idle there; and each tenant's quota. A few dozen rows, however many nodes and jobs there are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from scheduler.copies import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scheduler.placement.aggregated.candidates import Candidates
    from scheduler.placement.aggregated.classes import Classes, Home, Pool
    from scheduler.placement.aggregated.pricing import Cap

SIZES = (1, 2, 4, 8, 16, 32)
"""The s of the rows; for the number of pieces one more than each: two of five GPUs do not fit where one of four does."""


@dataclass(slots=True)
class Block:
    """The rows of one home, or of one tenant's quotas: their dimensions, and the use of a unit of a candidate's row."""

    dims: slice
    use: np.ndarray  # (rows of the candidates that belong here, dims)


@dataclass(slots=True)
class Relaxed:
    """The relaxation as arrays; an entry per candidate and home it could be on, groups side by side."""

    members: np.ndarray
    first: np.ndarray
    group: np.ndarray
    value: np.ndarray
    need: np.ndarray
    block: np.ndarray  # of the entry
    row: np.ndarray  # within its block
    blocks: list[Block]
    limits: np.ndarray
    quotas: list[tuple[int, np.ndarray]] = field(default_factory=list)  # dimension, weight of every entry

    def sample(self, every: int) -> Relaxed:
        """Every n-th group, and an n-th of the supply."""
        inside = self.group % every == 0
        group = self.group[inside] // every
        members = self.members[::every]
        return replace(
            self,
            members=members,
            first=np.searchsorted(group, np.arange(len(members))),
            group=group,
            value=self.value[inside],
            need=self.need[inside],
            block=self.block[inside],
            row=self.row[inside],
            limits=self.limits / every,
            quotas=[(dim, weight[inside]) for dim, weight in self.quotas],
        )

    def cost(self, prices: np.ndarray) -> np.ndarray:
        found = np.zeros(len(self.value))
        starts = np.cumsum([0] + [len(each.use) for each in self.blocks])
        rows = [(each.use * prices[each.dims]).sum(axis=1) for each in self.blocks]
        if rows:
            found = self.need * np.concatenate(rows)[starts[self.block] + self.row]
        for dim, weight in self.quotas:
            found += weight * prices[dim]
        return found


@dataclass(slots=True)
class Program:
    """The relaxation of a stage, and how a price of each of the candidates' rows follows from its prices."""

    relaxed: Relaxed
    members: list[np.ndarray]  # of each of the candidates' rows: positions in `flat` of the pieces that may serve it
    flat: list[tuple[int, int]]  # block, row in it
    labels: list[object]  # of the relaxation's rows: the same in the next planning

    def pieces(self, dual: np.ndarray) -> np.ndarray:
        """The price of a unit of each row: where it is cheapest."""
        prices = [(each.use * dual[each.dims]).sum(axis=1) for each in self.relaxed.blocks]
        of_flat = np.array([prices[block][row] for block, row in self.flat])
        return np.array([float(of_flat[own].min()) if len(own) else 0.0 for own in self.members])


def program_of(candidates: Candidates, classes: Classes, caps: Sequence[Cap]) -> Program:
    """The relaxation of these candidates on these classes under these quotas."""
    homes, limits, sizes, reserved, apart = _homes(classes)
    numbers = {home: k for k, home in enumerate(sizes)}
    blocks, uses = [], [list[np.ndarray]() for _ in sizes]
    flat: list[tuple[int, int]] = []
    members: list[np.ndarray] = []
    for key in candidates.rows:
        own: dict[tuple[Home, int], int] = {}
        for home, number in _places(key.pools, homes, classes.usual):
            k = numbers[home]
            own[home, number] = len(flat)
            flat.append((k, len(uses[k])))
            limited = key.pools[0].limited if home in reserved else None
            use = _use(key.gpus, key.cores, sizes[home], limited=limited)
            uses[k].append(np.append(use, [key.gpus * (number == each) for each in apart[home]]))
        members.append(np.array(list(own.values()), dtype=int))
    begin = 0
    for k, home in enumerate(sizes):
        width = len(limits[home])
        blocks.append(Block(slice(begin, begin + width), np.array(uses[k]).reshape(-1, width)))
        begin += width
    most = np.concatenate([*(limits[home] for home in sizes), [cap.upper for cap in caps]])
    labels: list[object] = [(home, k) for home in sizes for k in _labels(sizes[home], apart[home], len(limits[home]))]
    labels += [("quota", number) for number in range(len(caps))]
    return Program(_relaxed(candidates, caps, blocks, members, flat, most), members, flat, labels)


def _places(
    pools: Iterable[Pool], homes: Mapping[Pool, Sequence[Home]], usual: Mapping[Home, int]
) -> dict[tuple[Home, int], None]:
    """The homes of these pools, and in each the numbers of its nodes that a piece of them is on; the usual one stands for all."""
    found: dict[Home, dict[int, None]] = {}
    for pool in pools:
        for home in homes.get(pool, ()):
            found.setdefault(home, {})[usual[home] if pool.pin is not None else pool.own] = None
    return {
        (home, number): None
        for home, numbers in found.items()
        for number in ([usual[home]] if usual[home] in numbers else numbers)
    }


def _relaxed(
    candidates: Candidates,
    caps: Sequence[Cap],
    blocks: list[Block],
    members: list[np.ndarray],
    flat: list[tuple[int, int]],
    limits: np.ndarray,
) -> Relaxed:
    ways = np.array([len(own) for own in members], dtype=int)
    times = ways[candidates.row]
    candidate = np.repeat(np.arange(len(candidates.row)), times)
    within = np.arange(len(candidate)) - np.repeat(np.cumsum(times) - times, times)
    served = np.concatenate([*members, np.zeros(0, int)])
    entry = served[(np.cumsum(ways) - ways)[candidates.row[candidate]] + within]
    places = np.array(flat, dtype=int).reshape(-1, 2)[entry]
    quotas = []
    for number, cap in enumerate(caps, start=len(limits) - len(caps)):
        weight = np.zeros(len(candidates.row))
        weight[cap.candidates] = cap.weights
        quotas.append((number, weight[candidate]))
    group = candidates.group[candidate]
    sizes = np.array([len(each.members) for each in candidates.groups], dtype=float)
    begins = np.searchsorted(group, np.arange(len(sizes)))
    value, need = candidates.value[candidate], candidates.need[candidate]
    return Relaxed(sizes, begins, group, value, need, places[:, 0], places[:, 1], blocks, limits, quotas)


def _homes(
    classes: Classes,
) -> tuple[
    dict[Pool, list[Home]], dict[Home, np.ndarray], dict[Home, tuple[int, ...]], set[Home], dict[Home, list[int]]
]:
    """The homes of each pool (a running job on several nodes may have more than one); each home's supply for its rows; the sizes
    of its rows; where some cores are reserved; and the numbers that its nodes have, but for the usual one.
    """
    nodes: dict[Home, list[tuple[int, int, int, int, int]]] = {}
    homes: dict[Pool, list[Home]] = {}
    for each in classes.all:
        key, home = each.key, each.key.home
        nodes.setdefault(home, []).append((min(key.gpus, key.cores), key.cores, key.limit, len(each.nodes), key.own))
        for pool in {pool for offer in each.offers for pool in offer} | {pin.pool for pin in key.pins}:
            own_homes = homes.setdefault(pool, [])
            if home not in own_homes:
                own_homes.append(home)
    limits: dict[Home, np.ndarray] = {}
    sizes: dict[Home, tuple[int, ...]] = {}
    reserved: set[Home] = set()
    apart: dict[Home, list[int]] = {}
    for home, found in nodes.items():
        gpus, cores, limit, count, number = np.array(found, dtype=float).T
        sizes[home] = own = tuple(s for s in SIZES if s <= gpus.max())
        rows = [((gpus * count)[gpus >= s].sum(), (cores * count)[gpus >= s].sum()) for s in own]
        numbers = [((gpus // (s + 1)) * count).sum() for s in own]
        kept = []
        if (limit < cores).any():
            reserved.add(home)
            kept = [(np.minimum(gpus, limit) * count).sum(), (limit * count).sum()]
        apart[home] = sorted({each[-1] for each in found} - {classes.usual[home]})
        kept += [(gpus * count)[number == each].sum() for each in apart[home]]
        limits[home] = np.array([*(each for row in rows for each in row), *numbers, *kept], dtype=float)
    return homes, limits, sizes, reserved, apart


def _labels(sizes: Sequence[int], apart: Sequence[int], rows: int) -> list[object]:
    """Name the rows of a home, in their order."""
    found: list[object] = [(what, s) for s in sizes for what in ("gpus", "cores")]
    found += [("number", s) for s in sizes]
    found += [("reserved", k) for k in range(rows - len(found) - len(apart))]
    return found + [("own", number) for number in apart]


def _use(gpus: int, cores: int, sizes: Sequence[int], *, limited: bool | None) -> np.ndarray:
    """The use of a piece in each row; `limited`: whether of the reserved cores too, None where none are told apart."""
    rows = [(gpus, cores) if gpus >= s else (0, 0) for s in sizes]
    kept = () if limited is None else (gpus * limited, cores * limited)
    return np.array([*(each for row in rows for each in row), *(gpus > s for s in sizes), *kept], dtype=float)
