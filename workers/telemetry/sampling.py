"""Puts one second together: the GPUs from the heartbeat, the parts from their shims and their processes on GPUs, and the host."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING

from workers.system.procs import boottime
from workers.telemetry.owners import OUTSIDE, Grants, Shim, name_of, owner_of
from workers.telemetry.sampler import GpuDetails, GpuProcess, GpuSample, GpuUse, PartUse, Rates
from workers.telemetry.window import Measure, Second

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from workers.controls.usage import Usage
    from workers.protocol.wire import OutsideUse
    from workers.system.gpus import Daemon
    from workers.telemetry.beat import Readings
    from workers.telemetry.host import HostSampler
    from workers.telemetry.traffic import TrafficMeter

# A shim measures each second. Figures older than this say nothing about now.
STALE_S = 3.0
GPU_NAMES = tuple(each.name for each in fields(GpuSample))
_DAEMON = "the MPS daemon"
DIGITS = {
    "memory_mib": 0,
    "gpu_memory_mib": 0,
    "energy_j": 0,
    "power_w": 1,
    "utilisation": 1,
    "gpu_utilisation": 1,
    "pcie_tx_mb_s": 1,
    "pcie_rx_mb_s": 1,
    "cpu_cores": 3,
}
"""After the point; 2 of all others."""


@dataclass(frozen=True, slots=True)
class Running:
    """A running part as the sampling sees it."""

    attempt: str
    gpus: tuple[int, ...]
    usage: Usage | None
    shim: Shim | None = None
    cores: int = 0
    response: tuple[float, ...] = ()
    traffic: tuple[float, ...] = ()
    gpu_use: tuple[float, ...] = ()
    gpu_memory_mib: int | None = None  # that it may take of each of its GPUs


@dataclass(slots=True)
class _OnGpus:
    """Use of GPUs by a part's processes; None: the driver does not say of one of them."""

    memory_mib: dict[int, float | None] = field(default_factory=lambda: defaultdict(float))
    utilisation: dict[int, float | None] = field(default_factory=lambda: defaultdict(float))

    def add(self, gpu: int, found: GpuProcess | GpuUse) -> None:
        self.memory_mib[gpu] = _sum(self.memory_mib[gpu], found.memory_mib)
        self.utilisation[gpu] = _sum(self.utilisation[gpu], found.utilisation)

    @property
    def memory_in_all_mib(self) -> float | None:
        known = [each for each in self.memory_mib.values() if each is not None]
        return sum(known) if len(known) == len(self.memory_mib) else None


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


class Sampling:
    """Keeps each part's last totals, to compute rates from. `outside`: processes on GPUs that no part there accounts for."""

    def __init__(
        self,
        *,
        host: HostSampler | None,
        owner: Callable[[int, dict[int, Shim]], str | None] = owner_of,
        meter: TrafficMeter | None = None,
        daemon: Callable[[], Daemon | str] = str,
    ) -> None:
        self._host = host  # None on a virtual node: its host figures are its own parts'
        self._meter = meter
        self._owner = owner
        self._daemon = daemon  # the MPS control daemon: its servers on GPUs are no strangers there
        self._before: dict[str, Usage] = {}
        self._uses: dict[str, PartUse] = {}
        self._disk = Rates()
        self.outside: list[OutsideUse] = []
        self.grants = Grants()

    def uses(self, running: Iterable[Running]) -> dict[str, PartUse]:
        """Return each part's present use, by attempt, where its shim tells it."""
        running = list(running)
        self._uses = {r.attempt: use for r in running if (use := self._use(r)) is not None}
        names = {r.attempt for r in running}
        self._before = {k: v for k, v in self._before.items() if k in names}
        self._disk.keep({(name, way) for name in names for way in ("read", "write")})
        return self._uses

    def second(self, at_unix: float, running: list[Running], readings: Readings) -> Second:
        """Return all figures of one second. Call `uses` before."""
        values: dict[Measure, float | None] = {}
        for index, sample in readings.gpus.items():
            gpu = str(index)
            values |= {("gpus", gpu, name): getattr(sample, name) for name in GPU_NAMES}  # asdict copies each number
        for word, found in (("p80", readings.high), ("max", readings.most)):
            values |= {("gpus", str(index), f"{name}.{word}"): value for (index, name), value in found.items()}
        for attempt, use in self._uses.items():
            for name in ("cpu_cores", "memory_mib", "read_mb_s", "write_mb_s"):
                value = getattr(use, name)
                values["attempts", attempt, name] = None if value is None else round(value, 3)
        if readings.details is not None:
            values |= self._on_gpus(running, readings.details)
        values |= {("host", "", name): value for name, value in self._host_values().items()}
        if self._meter is not None:
            traffic = self._meter.read_traffic(self._uses)
            values["host", "", "memory_share"] = traffic.memory_share
            values |= {("attempts", attempt, "memory_share"): share for attempt, share in traffic.parts.items()}
        # Each digit more would be stored for all GPUs of all nodes, each second.
        digits = {measure: DIGITS.get(measure[2].partition(".")[0], 2) for measure in values}
        return Second(at_unix, {m: None if value is None else round(value, digits[m]) for m, value in values.items()})

    def _host_values(self) -> dict[str, float | None]:
        if self._host is not None:
            return asdict(self._host.sample())
        uses = self._uses.values()
        return {
            "cpu_cores": round(sum(u.cpu_cores for u in uses), 3),
            "memory_mib": round(sum(u.memory_mib for u in uses), 1),
        }

    def _on_gpus(self, running: list[Running], details: GpuDetails) -> dict[Measure, float | None]:
        """Give each process on a GPU to its part, by the line of its parents."""
        holders = {r.attempt: set(r.gpus) for r in running}
        by_part: dict[str, _OnGpus] = defaultdict(_OnGpus)
        outside: list[OutsideUse] = []
        for gpu, process, owner in self._assign(running, details):
            if owner != OUTSIDE:
                by_part[owner].add(gpu, process)
            if gpu not in holders.get(owner, ()):
                name = name_of(process.pid)
                outside.append({"gpu": gpu, "pid": process.pid, "name": name, "memory_mib": process.memory_mib})
        self.outside = outside[:64]
        for attempt, of_gpus in details.uses.items():
            for gpu, use in of_gpus.items():
                by_part[attempt].add(gpu, use)
        granted = {r.attempt: r.gpu_memory_mib for r in running if r.gpu_memory_mib is not None}
        self.grants.check(granted, {attempt: own.memory_mib for attempt, own in by_part.items()}, details)
        values: dict[Measure, float | None] = {}
        for attempt, on_gpus in by_part.items():
            uses, count = list(on_gpus.utilisation.values()), len(holders.get(attempt, ())) or len(on_gpus.utilisation)
            known = [use for use in uses if use is not None]
            values["attempts", attempt, "gpu_memory_mib"] = on_gpus.memory_in_all_mib
            if len(known) == len(uses):
                values["attempts", attempt, "gpu_utilisation"] = round(min(100.0, sum(known) / count), 2)
        return values

    def _assign(self, running: list[Running], details: GpuDetails) -> Iterator[tuple[int, GpuProcess, str]]:
        """Yield (GPU, process, owner) without ended processes and without servers of the parts."""
        shims = {r.shim.pid: r.shim for r in running if r.shim is not None}
        daemon = self._daemon() if any(details.processes.values()) else ""
        if not isinstance(daemon, str):
            shims[daemon.pid] = Shim(daemon.pid, daemon.start_ticks, _DAEMON)
        for gpu, processes in details.processes.items():
            for process in processes:
                owner = self._owner(process.pid, shims)
                if owner not in {None, _DAEMON}:
                    yield gpu, process, str(owner)

    def _use(self, part: Running) -> PartUse | None:
        """Return the part's rates between its shim's last two readings. Without a newer reading, repeat them for STALE_S."""
        usage, before = part.usage, self._before.get(part.attempt)
        if before is not None and (usage is None or usage.at <= before.at):
            return self._uses.get(part.attempt) if boottime() - before.at <= STALE_S else None
        if usage is None:
            return None
        self._before[part.attempt] = usage
        moved = {
            way: self._disk.rate((part.attempt, way), total, usage.at)
            for way, total in (("read", usage.read_bytes), ("write", usage.write_bytes))
        }
        if before is None:
            return None
        span_s = usage.at - before.at
        cpu_cores = max(0.0, usage.cpu_s - before.cpu_s) / span_s
        wait_cores = max(0.0, usage.wait_s - before.wait_s) / span_s
        read, write = (None if rate is None else rate / 1e6 for rate in (moved["read"], moved["write"]))
        memory_mib = usage.memory_mib
        return PartUse(
            part.gpus,
            cpu_cores,
            wait_cores,
            memory_mib,
            read,
            write,
            part.cores,
            part.response,
            part.traffic,
            part.attempt,
            part.gpu_use,
        )
