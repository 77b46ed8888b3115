"""The knobs' values for one planning, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduler.errors import InvalidParameter
from scheduler.parameters.knobs import PARAMETERS

if TYPE_CHECKING:
    from collections.abc import Mapping

_BY_NAME = {parameter.name: parameter for parameter in PARAMETERS}


@dataclass(frozen=True, slots=True)
class Parameters:
    """The knobs' values, checked. Fields are named as in PARAMETERS (`lambda` is `lambda_`)."""

    policy: str = "berth"
    priority: str = "lrf"
    placement: str = "ilp"
    lambda_: float = 1.0
    gain: str = "efficient"
    sigma: float = 1.4
    arrays: str = "on"
    fair_shares: str = "on"
    borrowing: str = "on"
    reserved_cores_per_gpu: float | None = None
    large_array_share: float | None = None
    reserve_lr: float | None = 1.0
    reserve_jobs: int = 1
    sweep: str = "on"
    window_size: float = 1.0
    gap: float | None = None
    tick_s: float = 30.0
    time_limit_s: float = 0.0
    restart_cost_s: float = 60.0
    replan_s: float = 360.0
    replan_early_s: float | None = 60.0
    preemption: str = "on"
    sensitivity_adjustment: str = "on"
    profile_share: float = 0.1
    profile_limit_s: float = 60.0
    profile_again_s: float = 3600.0
    tune_cores: str = "on"
    tune_step_s: float = 90.0
    tune_band: float = 0.01
    tune_faster: str = "off"
    relieve_memory: str = "on"
    relieve_threshold: float = 0.75
    relieve_release: float = 0.60
    relieve_band: float = 0.01
    relieve_period_s: float = 30.0
    sharing_policy: str = "res-ag"
    sharing_shadow: str = "off"
    sharing_slowdown: float | None = 0.2
    raqlr_hours: float = 6.0
    large_model_parameters: int = 100_000_000
    off: tuple[str, ...] = ()
    """Rules of `scheduler.rules` that are left out, to measure what they are worth; no operator's knob."""

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Parameters:
        """Parameters from `{name: value}`; absent ones take their default. InvalidParameter names the one at fault."""
        if unknown := sorted(set(values) - set(_BY_NAME)):
            raise InvalidParameter(unknown[0], f"there is no such parameter; the parameters are {', '.join(_BY_NAME)}")
        checked = {name: _BY_NAME[name].check(value) for name, value in values.items()}
        return cls(**{"lambda_" if name == "lambda" else name: value for name, value in checked.items()})

    @property
    def limit_s(self) -> float:
        """The time limit in force: the operator's, or half a tick."""
        return self.time_limit_s or self.tick_s / 2

    def gap_for(self, gpus: int) -> float:
        """The relative gap in force on a cluster of that many GPUs (section 6)."""
        if self.gap is not None:
            return self.gap
        if gpus < 100:
            return 0.0
        return 0.0005 if gpus <= 1000 else 0.01
