"""Jobs of a long queue that get one answer, found in columns: jobs of a kind with as many takers of their places ahead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduler.model import Queue, Ranked


def passed_by(queue: Queue, at: np.ndarray, ranks_of: Callable[[Ranked], Sequence[int]]) -> np.ndarray:
    """For the jobs at these places of the queue: how many of the ranks that concern each are before its own.

    `ranks_of`: the ranks of a kind, ascending, by its first job; one list for kinds that have the same. The queue is a whole
    one, so that ranks are places.
    """
    numbers: dict[int, int] = {}
    every: list[Sequence[int]] = []
    list_of = np.zeros(len(queue.counts), np.int64)  # of each kind
    for kind in np.unique(queue.kinds[at]).tolist():
        ranks = ranks_of(queue.heads[kind])
        if id(ranks) not in numbers:
            numbers[id(ranks)] = len(every)
            every.append(ranks)
        list_of[kind] = numbers[id(ranks)]
    lists, own_ranks = list_of[queue.kinds[at]], at + 1
    found = np.zeros(len(at), np.int64)
    for number, ranks in enumerate(every):
        own = lists == number
        found[own] = np.searchsorted(ranks, own_ranks[own])
    return found


def told_apart(kinds: np.ndarray, ahead: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number the different pairs in the order in which they first come: the numbers, and where each pair comes first."""
    pairs = kinds * (int(ahead.max(initial=0)) + 1) + ahead
    _, first, number = np.unique(pairs, return_index=True, return_inverse=True)
    turns = np.argsort(first)
    return np.argsort(turns)[number], first[turns]
