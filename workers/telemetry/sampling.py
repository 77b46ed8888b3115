"""Reads everything once a second: the parts from their shims, the GPUs from their sampler, and the host."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from workers.system.procs import boottime
from workers.telemetry.sampler import GpuSampler, PartUse
from workers.telemetry.window import Measure, Second

if TYPE_CHECKING:
    from workers.controls.usage import Usage
    from workers.telemetry.host import HostSampler

# A shim measures each second. Figures older than this say nothing about now.
STALE_S = 3.0


@dataclass(frozen=True, slots=True)
class Running:
    """A running part as the sampling sees it."""

    attempt: str
    gpus: tuple[int, ...]
    usage: Usage | None
    cores: int = 0
    response: tuple[float, ...] = ()


class Sampling:
    """Keeps each part's last totals, to compute rates from."""

    def __init__(self, *, gpus: GpuSampler, host: HostSampler | None) -> None:
        self._gpus = gpus
        self._host = host  # None on a virtual node: its host figures are its own parts'
        self._before: dict[str, Usage] = {}
        self._uses: dict[str, PartUse] = {}

    def second(self, at_unix: float, running: list[Running]) -> Second:
        uses = {r.attempt: use for r in running if (use := self._use(r)) is not None}
        self._uses = uses
        self._before = {k: v for k, v in self._before.items() if k in {r.attempt for r in running}}
        values: dict[Measure, float | None] = {}
        for index, sample in self._gpus.sample(list(uses.values())).items():
            values |= {("gpus", str(index), name): value for name, value in asdict(sample).items()}
        for attempt, use in uses.items():
            values["attempts", attempt, "cpu_cores"] = round(use.cpu_cores, 3)
            values["attempts", attempt, "memory_mib"] = round(use.memory_mib, 1)
        cores, memory_mib = self._host_values(list(uses.values()))
        values["host", "", "cpu_cores"] = cores
        values["host", "", "memory_mib"] = memory_mib
        return Second(at_unix, values)

    def _host_values(self, uses: list[PartUse]) -> tuple[float | None, float]:
        if self._host is not None:
            return self._host.sample()
        return round(sum(u.cpu_cores for u in uses), 3), round(sum(u.memory_mib for u in uses), 1)

    def _use(self, part: Running) -> PartUse | None:
        """Return the part's rates between its shim's last two readings. Without a newer reading, repeat them for STALE_S."""
        usage, before = part.usage, self._before.get(part.attempt)
        if before is not None and (usage is None or usage.at <= before.at):
            return self._uses.get(part.attempt) if boottime() - before.at <= STALE_S else None
        if usage is None:
            return None
        self._before[part.attempt] = usage
        if before is None:
            return None
        span_s = usage.at - before.at
        cpu_cores = max(0.0, usage.cpu_s - before.cpu_s) / span_s
        wait_cores = max(0.0, usage.wait_s - before.wait_s) / span_s
        return PartUse(part.gpus, cpu_cores, wait_cores, usage.memory_mib, part.cores, part.response)
