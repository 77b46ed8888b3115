"""Finds parts that take more of a shared GPU's memory than was granted: their neighbours cannot have it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from workers.telemetry.sampler import GpuLook

LOOKS = 2
"""Looks in a row in which a part has to be above its grant: a single one may be a moment's."""


class Grants:
    """Counts looks. `over`: what to say of each part that is above its grant, by attempt; `unknown`: whose use nobody tells."""

    def __init__(self) -> None:
        self._times: dict[str, int] = {}
        self._last: GpuLook | None = None
        self.over: dict[str, str] = {}
        self.unknown: set[str] = set()

    def look(self, granted: Mapping[str, int], used: Mapping[str, Mapping[int, float | None]], look: GpuLook) -> None:
        """Take a look. `granted`: MiB of each GPU, by attempt; `used`: by attempt and GPU. The same look counts once."""
        if look is self._last:
            return
        self._last = look
        most = {attempt: max(filter(None, used.get(attempt, {}).values()), default=0.0) for attempt in granted}
        self.unknown = {attempt for attempt in granted if None in used.get(attempt, {}).values()}
        self._times = {
            attempt: self._times.get(attempt, 0) + 1 for attempt, mib in most.items() if mib > granted[attempt]
        }
        self.over = {
            attempt: f"out of GPU memory: used {most[attempt]:.0f} MiB of {granted[attempt]} MiB granted (gpu_memory_mib)"
            for attempt, times in self._times.items()
            if times >= LOOKS
        }
