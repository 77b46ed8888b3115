"""From GPUs of a type to nodes, as Gavel does it (OSDI '20, section 5): the largest jobs first, and whoever can stays.

Among jobs of one size those that ran on this type keep their GPUs, if no larger job has taken them (their lease is renewed);
then the others are placed: on one node where one has room, on the one where they displace fewest and that is fullest; else
over as few nodes as hold them. A job may thus be moved for a larger one, and nothing that the round gave out is lost to
fragments.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Want:
    """A job and its GPUs. `held`: node -> GPUs that it runs on; `nodes`: where it may be, None = anywhere."""

    job: int
    gpus: int
    held: Mapping[int, int] | None = None
    nodes: Collection[int] | None = None


def place(wants: Sequence[Want], free: Mapping[int, int]) -> dict[int, dict[int, int]]:
    """Node -> GPUs of each job. `free`: GPUs of each node, what these jobs hold counted in."""
    left = dict(free)
    staying = dict.fromkeys(left, 0)  # GPUs of those who may stay and are not placed yet
    for want in wants:
        for node, gpus in (want.held or {}).items():
            staying[node] += gpus
    placed: dict[int, dict[int, int]] = {}
    by_size = sorted(wants, key=lambda each: -each.gpus)  # stable: the caller's order among equals
    for _, group in groupby(by_size, key=lambda each: each.gpus):
        same = list(group)
        for want in same:
            if want.held is not None:
                for node, gpus in want.held.items():
                    staying[node] -= gpus
                if all(left[node] >= gpus for node, gpus in want.held.items()):
                    _put(want, dict(want.held), left, placed)
        for want in same:
            if want.job not in placed and (spots := _find(want, left, staying)):
                _put(want, spots, left, placed)
    return placed


def _put(want: Want, spots: dict[int, int], left: dict[int, int], placed: dict[int, dict[int, int]]) -> None:
    placed[want.job] = spots
    for node, gpus in spots.items():
        left[node] -= gpus


def _find(want: Want, left: Mapping[int, int], staying: Mapping[int, int]) -> dict[int, int]:
    open_to = {node: gpus for node, gpus in left.items() if gpus and (want.nodes is None or node in want.nodes)}
    if sum(open_to.values()) < want.gpus:
        return {}
    one = [
        (max(0, want.gpus - (gpus - staying[node])), gpus, node) for node, gpus in open_to.items() if gpus >= want.gpus
    ]
    if one:
        return {min(one)[2]: want.gpus}
    spots: dict[int, int] = {}
    for node in sorted(open_to, key=lambda each: (-open_to[each], each)):
        if (missing := want.gpus - sum(spots.values())) <= 0:
            break
        spots[node] = min(open_to[node], missing)
    return dict(sorted(spots.items()))
