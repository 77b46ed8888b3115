"""The parts of `coda` and `berth` that can be off."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mode:
    """Which parts are on. `rigid`: every job asks only for its smallest size. `reserve_lr` None: no reservations.

    `sweep`: see `fairness.sweep`.
    """

    arrays: bool
    fair: bool
    borrow: bool
    joint: bool
    rigid: bool
    reserve_lr: float | None
    efficient: bool = False  # a size has less value the worse the jobs scale
    sweep: bool = False
