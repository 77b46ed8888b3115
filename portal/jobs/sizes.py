"""How many sizes a range of GPUs is cut into: an operator's knob. `rounds` has the knobs, and registers how to read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from portal.jobs.description import R_NUM

if TYPE_CHECKING:
    from collections.abc import Callable

_readers: list[Callable[[], int]] = []


def r_num_read_by(reader: Callable[[], int]) -> None:
    """Register what reads the knob; called once, in `apps.ready()`."""
    _readers[:] = [reader]


def r_num() -> int:
    """Return the knob's value in force; its default when nothing was registered."""
    return _readers[0]() if _readers else R_NUM
