"""Tells jobs that share virtual GPUs how fast they run: each has a file with the part of its speed that is left to it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from workers.system.files import BrokenFileError, write_atomic
from workers.telemetry.simulated import SPEED_FILE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LEAST = 0.01
"""A smaller change is not written."""


class Speeds:
    """Remembers each part's last speed; a part without one runs at its full speed."""

    def __init__(self) -> None:
        self._told: dict[str, float] = {}

    def note(self, speeds: Mapping[str, float]) -> dict[str, float]:
        self._told = {attempt: told for attempt, told in self._told.items() if attempt in speeds}
        news = {a: speed for a, speed in speeds.items() if abs(speed - self._told.get(a, 1.0)) >= LEAST}
        self._told |= news
        return news


def speeds_tell(speeds: Mapping[Path, float]) -> None:
    """Write each part's speed into its job's directory. It may be gone or full: then the next change is written."""
    for directory, speed in speeds.items():
        with contextlib.suppress(OSError, BrokenFileError):
            write_atomic(directory / SPEED_FILE, f"{speed:.3f}\n".encode(), mode=0o644, durable=False)
