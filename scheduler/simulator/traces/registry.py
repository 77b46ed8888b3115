"""Every trace format by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.simulator.traces.source import Format

_ALL: tuple[Format, ...] = (
    # ours
    # Philly
    # Slurm
    # Sia
    # Gavel, Shockwave
    # openb
)
FORMATS: Mapping[str, Format] = {each.name: each for each in _ALL}
