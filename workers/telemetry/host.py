"""Figures of the host: cores, load, memory, network, disks, and memory bandwidth where the kernel counts it (resctrl)."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from workers.telemetry.sampler import Rates
from workers.telemetry.traffic import machine_bytes

RESCTRL = Path("/sys/fs/resctrl")
_VIRTUAL_LINKS = ("lo", "veth", "docker", "br-", "virbr", "tun", "tap", "bond", "team")
"""A packet over one of these was counted on a real interface already, or never left the machine."""
_SECTOR_BYTES = 512


@dataclass(frozen=True, slots=True)
class HostSample:
    """One reading; None where the machine does not tell. Rates are 10^6 (`mb`) or 10^9 (`gb`) bytes a second."""

    cpu_cores: float | None = None
    load: float | None = None
    memory_mib: float | None = None
    net_rx_mb_s: float | None = None
    net_tx_mb_s: float | None = None
    disk_read_mb_s: float | None = None
    disk_write_mb_s: float | None = None
    memory_gb_s: float | None = None


class HostSampler:
    """Reads the whole machine, on a real node. A virtual node sums its own parts instead (see `Sampling`)."""

    def __init__(
        self, *, proc: Path = Path("/proc"), resctrl: Path = RESCTRL, blocks: Path = Path("/sys/block")
    ) -> None:
        self._proc, self._resctrl, self._blocks = proc, resctrl, blocks
        self._before: tuple[float, float] | None = None
        self._rates = Rates()

    def sample(self) -> HostSample:
        """Return the present figures; rates since the last call are None at the first."""
        now_s = time.monotonic()
        received, sent = self._network()
        read, written = self._disks()
        counters = {
            "net_rx_mb_s": (received, 1e6),
            "net_tx_mb_s": (sent, 1e6),
            "disk_read_mb_s": (read, 1e6),
            "disk_write_mb_s": (written, 1e6),
            "memory_gb_s": (machine_bytes(self._resctrl), 1e9),
        }
        rates = {name: self._rates.rate(name, value, now_s) for name, (value, _) in counters.items()}
        memory = psutil.virtual_memory()
        return HostSample(
            cpu_cores=self._cores(),
            load=round(os.getloadavg()[0], 2),
            memory_mib=round((memory.total - memory.available) / 2**20, 1),
            **{name: None if rate is None else round(rate / counters[name][1], 3) for name, rate in rates.items()},
        )

    def _cores(self) -> float | None:
        """Return the mean cores in use since the last call."""
        times = psutil.cpu_times()
        idle = times.idle + getattr(times, "iowait", 0.0)
        # Guest time is inside user time already.
        total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
        before, self._before = self._before, (idle, total)
        if before is None or total <= before[1]:
            return None
        busy_share = 1 - (idle - before[0]) / (total - before[1])
        return float(round(max(0.0, busy_share) * psutil.cpu_count(), 3))

    def _network(self) -> tuple[float | None, float | None]:
        """Return (bytes received, bytes sent) over real interfaces since the machine started."""
        try:
            lines = (self._proc / "net/dev").read_text().splitlines()[2:]
        except OSError:
            return None, None
        received = sent = 0
        for line in lines:
            name, _, figures = line.partition(":")
            fields = figures.split()
            if len(fields) >= 16 and not name.strip().startswith(_VIRTUAL_LINKS):
                received, sent = received + int(fields[0]), sent + int(fields[8])
        return received, sent

    def _disks(self) -> tuple[float | None, float | None]:
        """Return (bytes read, bytes written) of whole disks, without those that are made of others."""
        read = written = 0
        try:
            names = sorted(each.name for each in self._blocks.iterdir() if (each / "device").exists())
        except OSError:
            return None, None
        found = False
        for name in names:
            with contextlib.suppress(OSError, ValueError, IndexError):  # a disk that was taken out meanwhile
                fields = (self._blocks / name / "stat").read_text().split()
                read, written = read + int(fields[2]) * _SECTOR_BYTES, written + int(fields[6]) * _SECTOR_BYTES
                found = True
        return (read, written) if found else (None, None)
