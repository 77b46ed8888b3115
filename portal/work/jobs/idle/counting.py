"""Read a job's use from a node's measurements: it was used, it was not, or it is not known. Pure.

A stretch (one batch of a node, five seconds mostly) counts as idle when the job's mean use of cores and of GPUs in it lies
below the limits. Idle time is the sum of such stretches since the last one in which the job was used. So only time that was
measured counts: not what a clock says, nor the hours in which node, agent or portal were away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LONGEST_S = 60.0
"""More than this of one batch counts as this: an agent sends five seconds, and after a while away not many more."""


@dataclass(frozen=True, slots=True)
class Limits:
    """From this use on a job is used: cores, and percent of its GPUs' time."""

    cores: float
    gpu_percent: float


@dataclass(frozen=True, slots=True)
class Part:
    """An attempt's part on one node. `gpus`: their indices; `is_alone`: it shares none of them."""

    key: str
    gpus: tuple[str, ...]
    is_alone: bool


def idle_after(before_s: float, batch: Mapping[str, Any], part: Part, limits: Limits) -> tuple[float, str]:
    """Return the seconds for which the part was idle after this batch, and its kind of use; "": no known one."""
    own = (batch.get("attempts") or {}).get(part.key)
    cores = _mean((own or {}).get("cpu_cores"))
    if cores is None:
        return before_s, ""
    if cores >= limits.cores:
        return 0.0, "cores"
    busy = _gpu_percent(own or {}, batch.get("gpus") or {}, part, limits)
    if busy is None:
        return before_s, ""
    if busy >= limits.gpu_percent:
        return 0.0, "GPUs"
    return before_s + min(LONGEST_S, max(0.0, batch["count"] * batch["period_s"])), ""


def _gpu_percent(own: Mapping[str, Any], gpus: Mapping[str, Any], part: Part, limits: Limits) -> float | None:
    """Return how much of its GPUs' time it used, 0 of a job without GPUs; None: not measured.

    Its own processes' use where the node tells them apart, else that of its GPUs. Of a shared GPU that is at work it is
    then not known whose work it is.
    """
    if not part.gpus:
        return 0.0
    alone = _mean(own.get("gpu_utilisation"))
    if alone is not None:
        return alone
    all_of_them = [_mean((gpus.get(index) or {}).get("utilisation")) for index in part.gpus]
    known = [each for each in all_of_them if each is not None]
    if len(known) < len(all_of_them):
        return None
    busiest = max(known)
    return busiest if part.is_alone or busiest < limits.gpu_percent else None


def _mean(series: Sequence[float | None] | None) -> float | None:
    known = [value for value in series or () if value is not None]
    return sum(known) / len(known) if known else None
