"""Every trace format by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from scheduler.simulator.traces import openb, own, philly, sacct, shockwave, sia

if TYPE_CHECKING:
    from scheduler.simulator.traces.source import Format

_ALL: tuple[Format, ...] = (
    # ours
    own.JSON_LINES,
    own.CSV,
    # Philly
    philly.FORMAT,
    # Slurm
    sacct.FORMAT,
    # Sia
    sia.FORMAT,
    # Gavel, Shockwave
    shockwave.FORMAT,
    # openb
    openb.FORMAT,
)
FORMATS: Mapping[str, Format] = {each.name: each for each in _ALL}
