"""What the estimator says of a run before its own first record: the figure that the measured one is shown beside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from portal.cluster.models import GpuType
from portal.planning.estimation.selectors import knowledge_load
from portal.work.jobs.models import Allocation
from scheduler import model
from scheduler.estimator.estimator import estimator_for

if TYPE_CHECKING:
    from portal.planning.estimation.runs import Run


def prediction_make(run: Run) -> tuple[float | None, str]:
    """(samples a second over all GPUs, layer). The assumed layer knows relative speeds only, so its figure is None."""
    if not run.gpus:
        return None, ""
    job = run.part.attempt.job
    asked = model.Job(id=job.pk, tenant=job.tenant_id, requirement=tuple(job.gpus), model_label=job.model or None)
    speeds, names = {}, {}
    for pk, name, speed in GpuType.objects.values_list("pk", "name", "relative_speed"):
        speeds[name], names[pk] = speed, name
    beside = names.get(run.beside or 0)
    held = Allocation.objects.filter(attempt=run.part.attempt).select_related("node__gpu_type").order_by("rank")
    nodes = [
        model.Node(
            id=model.bay_id(part.node_id, run.beside or 0),
            name=part.node.name,
            gpu_type=beside or (part.node.gpu_type and part.node.gpu_type.name),
        )
        for part in held
    ]
    answer = estimator_for(knowledge_load([asked]), speeds, nodes).throughput(asked, nodes, run.gpus)
    return (answer.value, answer.source) if answer.source != "assumed" else (None, "assumed")
