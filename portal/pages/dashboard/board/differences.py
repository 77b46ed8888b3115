"""What changed between two boards: places and values, or that it must be fetched whole. Pure."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from portal.pages.dashboard.board.board import Board

COLUMNS = ("active", "use", "memory", "state", "health", "heard")
"""Columns that are compared place by place; the others but `groups` are the board's shape."""
SHAPE = ("h", "nodes", "gpus", "order", "titles")


def difference(before: Board, after: Board) -> dict[str, Any] | None:
    """Return {column: [place, value, place, value ...], "groups": ...} of what changed; {} for nothing.

    None: another shape (nodes, GPUs, groups or their order changed), which is fetched whole.
    """
    if any(before[name] != after[name] for name in SHAPE):
        return None
    found: dict[str, Any] = {}
    for name in COLUMNS:
        pairs = enumerate(zip(before[name], after[name], strict=True))
        changed = list(chain.from_iterable((place, new) for place, (old, new) in pairs if old != new))
        if changed:
            found[name] = changed
    if before["groups"] != after["groups"]:
        found["groups"] = after["groups"]
    return found
