"""A leaf, because a table of the portal lists it, and each `./berth` loads that."""

from enum import IntEnum


class Pattern(IntEnum):
    """How a training loop overlaps its data loading; INFERENCE has no backward pass."""

    OVERLAPPED = 1
    SEQUENTIAL = 2
    INFERENCE = 3
