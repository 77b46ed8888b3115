"""The true speed of a job for which a trace has one run: how long it took, on how many GPUs of which type.

Elsewhere its speed follows the assumption of algorithms.md section 2 (layer 4): it is proportional to the relative speeds of the
GPU type and of the node, and the speed per GPU falls with the number of GPUs as `r^-0.1`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.simulator.world.truth import Law, Spot, Steady

EXPONENT = 0.9


@dataclass(frozen=True, slots=True)
class Scaled:
    """Seconds of the traced run, done a second: 1 on `gpus` GPUs of relative speed `speed`."""

    gpus: int
    speed: float = 1.0
    gpu_speeds: Mapping[str, float] = field(default_factory=dict)

    def rate(self, spots: Sequence[Spot]) -> float:
        slowest = min(self.gpu_speeds.get(spot.gpu_type or "", 1.0) * spot.speed for spot in spots)
        size: float = (sum(spot.gpus for spot in spots) / self.gpus) ** EXPONENT
        return size * slowest / self.speed


def law_of(gpus: int, gpu_type: str | None, gpu_speeds: Mapping[str, float], *, elastic: bool) -> Law:
    """The law of a job that was seen on `gpus` GPUs. A CPU job is as fast anywhere."""
    if gpus == 0 or not (elastic or gpu_speeds):
        return Steady()
    return Scaled(gpus, gpu_speeds.get(gpu_type or "", 1.0), gpu_speeds)
