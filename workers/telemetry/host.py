"""Figures of the host: cores in use since the last reading, and memory in use."""

from __future__ import annotations

import psutil


class HostSampler:
    """Reads the whole machine, on a real node. A virtual node sums its own parts instead (see `Sampling`)."""

    def __init__(self) -> None:
        self._before: tuple[float, float] | None = None

    def sample(self) -> tuple[float | None, float]:
        """Return (mean cores in use since the last call, MiB in use); None for the cores at the first call."""
        times = psutil.cpu_times()
        idle = times.idle + getattr(times, "iowait", 0.0)
        # Guest time is inside user time already.
        total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
        before, self._before = self._before, (idle, total)
        memory = psutil.virtual_memory()
        memory_mib = round((memory.total - memory.available) / 2**20, 1)
        if before is None or total <= before[1]:
            return None, memory_mib
        busy_share = 1 - (idle - before[0]) / (total - before[1])
        return round(max(0.0, busy_share) * psutil.cpu_count(), 3), memory_mib
