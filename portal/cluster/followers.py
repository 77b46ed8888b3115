"""Let rooms above this one hear of a node's changes, each within the caller's transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from portal.foundation.events.followers import Followers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from portal.cluster.models import Node

node_lock = Followers()
"""Lock the row of `node` together with the room's own that hang on it, in the one order of locks."""
node_described = Followers()
"""React to the GPUs and links that `node` reported."""
node_joined = Followers()
"""React to the joining of `node` with `join_token`."""
node_back = Followers()
"""Start to count silence again: `node` is in contact again, or its agent has started."""
gpus_failed = Followers()
"""Stop the jobs on GPUs of `node`, everywhere there where `indices` is None, because of `detail`; return how many were asked.

The caller has called `node_lock`.
"""
parts_lost = Followers()
"""End what ran on `node`, because of `detail`; return how many parts of jobs that were."""

possible_gpus: list[Callable[[], Iterable[Mapping[str, int]]]] = []
"""Each returns the GPUs by type that allocations of other schedulers may have at most, for each such scheduler."""


def gpus_may_come() -> list[Mapping[str, int]]:
    return [each for reader in possible_gpus for each in reader()]


def node_lost(*, node: Node, detail: str) -> int:
    """Say that a node rebooted or was declared dead; return how many parts of jobs were lost."""
    node_lock(node=node)
    return parts_lost(node=node, detail=detail)
