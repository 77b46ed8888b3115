"""Every trace format by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.simulator.traces import sia

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.simulator.traces.source import Format

_ALL: tuple[Format, ...] = (
    # ours
    # Philly
    # Slurm
    sia.FORMAT,
    # Gavel, Shockwave
    # openb
)
FORMATS: Mapping[str, Format] = {each.name: each for each in _ALL}
