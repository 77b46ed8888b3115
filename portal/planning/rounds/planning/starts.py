"""The cores with which jobs begin (algorithms, section 8): the facts that the start rule needs beside a job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import Count
from django.utils import timezone

from portal.cluster.models import Gpu
from portal.work.jobs.models import Allocation
from portal.work.jobs.services.cores import cores_tuned
from portal.work.jobs.states import AttemptState
from scheduler.estimator.cores import begin_cores, is_corrected, start_cores

if TYPE_CHECKING:
    from scheduler.parameters import Parameters

ANSWER_AFTER = timedelta(minutes=2)
"""An agent that has not named a running part's order of cores by then takes none: it is of an earlier version."""


@dataclass(frozen=True, slots=True)
class Starts:
    """`tuned`: owner -> category -> the largest tuned cores a GPU of its past jobs; `tuning`: see `is_corrected`."""

    tuned: Mapping[int, Mapping[str | None, int]]
    tuning: Mapping[str, int]

    def corrects(self, job: Any) -> bool:
        """Say whether tuning will correct the cores with which a GPU job begins."""
        return not job.cores_exactly and is_corrected(tuple(job.gpus), frozenset(job.gpu_types), self.tuning)

    def cores(self, job: Any, part: float = 1.0) -> int:
        """Return the cores a GPU (of a CPU job: in all) with which a job begins. `part`: of the GPU that it shares."""
        if list(job.gpus) == [0]:
            return job.cores or 1
        start = start_cores(
            category=job.category or None,
            tuned=self.tuned.get(job.owner_id, {}),
            part=part,
            pipelined=bool(job.pipelined),
            model_parameters=job.parameters,
            heavy_between_iterations=bool(job.heavy_between_iterations),
        )
        asked, exactly = job.cores_per_gpu, job.cores_exactly
        corrected = not asked or self.corrects(job)
        own = getattr(job, "cores_tuned", None)
        return begin_cores(start, own=own, asked=asked, exactly=exactly, corrected=corrected)


def starts_load(parameters: Parameters, *, owner_ids: Iterable[int] | None = None) -> Starts:
    """Read the rule's facts, of these owners or of all. Two queries."""
    return Starts(cores_tuned(owner_ids=owner_ids), _tuning() if parameters.tune_cores == "on" else {})


def _tuning() -> dict[str, int]:
    """Return by GPU type the most GPUs of one node that tunes: it is not switched off, and its agent takes orders."""
    parts = Allocation.objects.filter(released_at=None, cores_acknowledged=None)
    silent = parts.filter(
        attempt__state=AttemptState.RUNNING, attempt__started_at__lt=timezone.now() - ANSWER_AFTER
    ).values("node")
    gpus = Gpu.objects.present().filter(node__dead_at=None, node__tunes_cores=True).exclude(node__in=silent)
    counts = gpus.with_type().order_by().values_list("type_name", "node").annotate(n=Count("pk"))
    most: dict[str, int] = {}
    for name, _, count in counts:
        if name is not None:
            most[name] = max(count, most.get(name, 0))
    return most
