"""Let rooms above this one hear of a node's changes. They register in their `apps.ready()`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from portal.cluster.models import Node


class Follower:
    """The reaction of a room to a node; each call is within the caller's transaction. A room overrides some."""

    def node_lock(self, *, node: Node) -> None:
        """Lock the node's row together with the room's own that hang on it, in the one order of locks."""

    def node_described(self, *, node: Node) -> None:
        """React to the GPUs and links that a node reported."""

    def node_back(self, *, node: Node) -> None:
        """Start to count silence again: the node is in contact again, or its agent has started."""

    def gpus_failed(self, *, node: Node, indices: Collection[int] | None, detail: str) -> int:
        """Stop what runs on GPUs of a node, on all of the node where `indices` is None; return how many jobs were asked."""
        return 0

    def node_lost(self, *, node: Node, detail: str) -> int:
        """End what ran on a node that rebooted or was declared dead; return how many parts of jobs that were."""
        return 0


_followers: list[Follower] = []


def follow(follower: Follower) -> None:
    """Register a room's follower, once a process."""
    _followers.append(follower)


def node_lock(*, node: Node) -> None:
    for each in _followers:
        each.node_lock(node=node)


def node_described(*, node: Node) -> None:
    for each in _followers:
        each.node_described(node=node)


def node_back(*, node: Node) -> None:
    for each in _followers:
        each.node_back(node=node)


def gpus_failed(*, node: Node, indices: Collection[int] | None, detail: str) -> int:
    """Return how many jobs were asked to stop. The caller has called `node_lock`."""
    return sum(each.gpus_failed(node=node, indices=indices, detail=detail) for each in _followers)


def node_lost(*, node: Node, detail: str) -> int:
    """Return how many parts of jobs were lost."""
    node_lock(node=node)
    return sum(each.node_lost(node=node, detail=detail) for each in _followers)
