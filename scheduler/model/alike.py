"""Kinds of jobs with equal needs: a queue of 100 000 jobs has a few thousand such kinds.

Each thing that depends only on a job's needs is then found once a kind. A kind is one object, compared by identity, for that is
many times quicker than to put the needs together and to hash them for each of the jobs, some ten times in a planning.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakValueDictionary


class Alike:
    """A kind: `needs` are requirement, GPU types, cores, least cores, memory, `Job.bound`, tenant, and its part of a GPU.

    Use it as a key and by `is`. Never iterate over a set of kinds: its order is another one in each process.
    """

    __slots__ = ("__weakref__", "needs")

    def __init__(self, needs: tuple[Any, ...]) -> None:
        self.needs = needs

    def __reduce__(self) -> tuple[Any, ...]:
        return alike_of, (self.needs,)  # a copy, in another process too, is the one object that is there


_kinds: WeakValueDictionary[tuple[Any, ...], Alike] = WeakValueDictionary()  # no longer than a job has them


def alike_of(needs: tuple[Any, ...]) -> Alike:
    """Return the kind of jobs with these needs."""
    found = _kinds.get(needs)
    return found if found is not None else _kinds.setdefault(needs, Alike(needs))
