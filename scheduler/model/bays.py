"""Bays: the GPUs of one type on a node that has several types. The core plans each bay as a node of its own.

A bay's id is made of its node's id and a number, so that no table is needed to find the node again. The bay of the type that a
node has most of goes by the node's own id (`number` 0).
"""

from __future__ import annotations

NUMBERS = 1 << 32
"""Ids of nodes are below this."""


def bay_id(node: int, number: int) -> int:
    return node + number * NUMBERS


def node_of(bay: int) -> int:
    """The id of the node that the bay is of; a node's own id is itself."""
    return bay % NUMBERS if bay >= NUMBERS else bay


def number_of(bay: int) -> int:
    """The number of the bay on its node; 0: the type that the node goes by."""
    return max(0, bay) // NUMBERS
