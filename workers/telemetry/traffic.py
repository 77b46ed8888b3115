"""Traffic of a node's memory: of the whole node and of each job, in per cent of the memory's bandwidth.

On a virtual node it is simulated: a job says in its environment what it draws, `VIRTUAL_TRAFFIC=GB_S[,SENSITIVITY]`, with the
cores that it began with and while it computes; with fewer cores, or while it sleeps, it draws less in proportion. When all
jobs of the node ask for more than `SATURATED` of its bandwidth, a job on GPUs loses speed, up to its sensitivity when they
ask for twice that: the law that the simulator has for CODA's Figure 7.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from workers.telemetry.sampler import PartUse

TRAFFIC = "VIRTUAL_TRAFFIC"
SATURATED = 0.75
MOST_GB_S = 1e5


@dataclass(frozen=True, slots=True)
class Traffic:
    """One reading, in per cent of the memory's bandwidth; None: not known. `parts`: by attempt."""

    share: float | None = None
    parts: Mapping[str, float | None] = field(default_factory=dict)


class TrafficMeter(Protocol):
    def look(self, uses: Mapping[str, PartUse]) -> Traffic:
        """Return the traffic since the last call. `uses`: the parts that run, by attempt."""


def traffic_parse(text: str, *, cores: int) -> tuple[float, ...]:
    """Read VIRTUAL_TRAFFIC: (GB/s, sensitivity, the cores at which it draws that); nothing where it is not that."""
    try:
        figures = [float(part) for part in text.split(",")]
    except ValueError:
        return ()
    gb_s, sensitivity = (*figures, 0.0)[:2]
    if len(figures) > 2 or not 0 <= gb_s <= MOST_GB_S or not 0 <= sensitivity <= 1 or not cores:
        return ()
    return (gb_s, sensitivity, float(cores))


def traffic_slows(part: PartUse, asked: float) -> float:
    """Return the part of its speed that is left to a part where `asked` of the node's bandwidth is asked for."""
    if not part.traffic:
        return 1.0
    beyond = min(1.0, max(0.0, asked / SATURATED - 1.0))
    return 1.0 - part.traffic[1] * beyond


class SimulatedTraffic:
    """See `TrafficMeter`. `core_share`: the part of a real core that full work on one declared core, or GPU, takes."""

    def __init__(self, *, gb_s: float, core_share: float) -> None:
        self._gb_s, self._core_share = gb_s, core_share

    def look(self, uses: Mapping[str, PartUse]) -> Traffic:
        """Where more than the bandwidth is asked for, each part gets its proportion."""
        asked = {attempt: self._asks(use) for attempt, use in uses.items()}
        total = math.fsum(asked.values())
        scale = 100 / max(1.0, total)
        return Traffic(total * scale, {attempt: share * scale for attempt, share in asked.items()})

    def asked(self, parts: Iterable[PartUse]) -> float:
        return math.fsum(map(self._asks, parts))

    def _asks(self, part: PartUse) -> float:
        if not part.traffic:
            return 0.0
        gb_s, _, cores = part.traffic
        works = (part.cpu_cores + part.wait_cores) / self._core_share / (len(part.gpus) or part.cores or cores)
        return gb_s * min(1.0, works) * (part.cores or cores) / cores / self._gb_s
