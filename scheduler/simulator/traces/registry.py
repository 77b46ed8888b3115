"""Every trace format by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.simulator.traces.own import CSV, JSON_LINES
from scheduler.simulator.traces.philly import FORMAT as PHILLY
from scheduler.simulator.traces.sacct import FORMAT as SACCT
from scheduler.simulator.traces.shockwave import FORMAT as SHOCKWAVE
from scheduler.simulator.traces.sia import FORMAT as SIA

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.simulator.traces.source import Format

_ALL: tuple[Format, ...] = (
    # ours
    JSON_LINES,
    CSV,
    # Philly
    PHILLY,
    # Slurm
    SACCT,
    # Sia
    SIA,
    # Gavel, Shockwave
    SHOCKWAVE,
    # openb
)
FORMATS: Mapping[str, Format] = {each.name: each for each in _ALL}
