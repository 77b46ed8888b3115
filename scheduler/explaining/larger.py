"""Why a placed job did not get more GPUs: the speed of the next larger size, and the job that waits for such GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.explaining.candidates import Alike
    from scheduler.model import Chosen, Job, Ranked
    from scheduler.placement.outcome import DraftPlan

MOST_LOOKED_AT = 256
"""The most waiting jobs, the first ones, that are looked at for one that could use the GPUs."""


def next_larger(
    job: Job, chosen: Chosen, gpu_type: str, found: Sequence[Alike], queue: Sequence[Ranked], draft: DraftPlan
) -> dict[str, Any] | None:
    """{gpus, adds, job}, or None if no job waits for such GPUs.

    `gpus`: the next larger size on the job's GPU type among its candidates. `adds`: the part of its speed that it would add.
    `job`: the first job that waits for as many GPUs; its id if it is of the same tenant, else None.
    """
    made = chosen.configuration
    larger = [each for each in found if each.gpu_type == gpu_type and each.gpus > made.gpus]
    if not larger:
        return None
    best = min(larger, key=lambda each: (each.gpus, -each.throughput))
    waits = _first_waiting(best.gpus - made.gpus, gpu_type, queue, draft)
    if waits is None or best.throughput <= made.throughput:
        return None
    own = waits.job.id if waits.job.tenant == job.tenant else None
    return {"gpus": best.gpus, "adds": best.throughput / made.throughput - 1.0, "job": own}


def _first_waiting(gpus: int, gpu_type: str, queue: Sequence[Ranked], draft: DraftPlan) -> Ranked | None:
    without = (each for each in queue if not each.job.is_cpu and not draft.has(each.job.id))
    for _, each in zip(range(MOST_LOOKED_AT), without, strict=False):
        if each.job.min_gpus <= gpus and each.job.may_use(gpu_type):
            return each
    return None
