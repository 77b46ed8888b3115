"""How fast a job that is not submitted yet would run, by GPU type and size: the planner's estimator, asked once a type.

The node with the most GPUs of a type stands for all of them, so a thousand nodes cost what one costs. A size that one node
cannot hold is asked over as few nodes as hold it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from django.db.models import Count, F
from django.db.models.functions import Coalesce

from portal.cluster.models import Gpu
from portal.people.tenants.models import Tenant
from portal.planning.estimation.models import AttemptSpeed
from portal.planning.estimation.selectors import knowledge_load
from portal.planning.rounds.settings.knobs import knobs_current, scheduler_parameters
from scheduler import model
from scheduler.estimator.estimator import estimator_for
from scheduler.estimator.measured import cell_key, signature
from scheduler.model.placements import is_instance
from scheduler.model.speeds import Knowledge

MEASURED = "type"
"""The layer of a figure that was measured on the type at this very size."""
COLUMNS, TYPES = 6, 8
"""The most sizes, and the most GPU types, of an answer."""
PAST, PAST_LEAST = 200, 3
"""Predictions of the tenant's latest attempts that are compared, and how many of one layer say something."""


class SizeSpeed(NamedTuple):
    """`speed`: of all its GPUs together, in the unit of `Scaling`. `error`: plus or minus, as a share of it; None: not known.

    `offered`: plannings offer it: it is on one node, or several nodes cost less than the knob `sigma`.
    """

    gpus: int
    nodes: int
    speed: float
    source: str
    error: float | None
    offered: bool


@dataclass(frozen=True, slots=True)
class TypeScaling:
    """`total`: GPUs of the type here. `one`: the speed of one. `sizes`: by number of GPUs, without those above `total`."""

    gpu_type: str
    total: int
    one: float
    sizes: dict[int, SizeSpeed]


@dataclass(frozen=True, slots=True)
class Scaling:
    """`unit_type`: None where speeds are samples a second; where nothing is known of the job, the type one GPU of which is 1."""

    sizes: list[int]
    types: list[TypeScaling]  # the fastest GPU first
    left_out: int  # types beyond `TYPES`
    unit_type: str | None
    sigma: float


def scaling(*, tenant: Tenant, label: str | None, accepted: Collection[int], gpu_types: Collection[str]) -> Scaling:
    """Return the predicted speed of a tenant's job on each GPU type (of `gpu_types`, or all). Seven queries at most.

    All knowledge is the tenant's own: its jobs' figures with this label, and how its earlier predictions fared.
    """
    speeds, there = _gpus_there(gpu_types)
    sizes = sizes_shown(accepted, max((sum(counts) for counts in there.values()), default=0))
    job = model.Job(id=0, tenant=tenant.pk, requirement=tuple(sizes) or (1,), model_label=label or None)
    nodes = [model.Node(id=0, name=name, gpu_type=name, gpus_total=max(counts)) for name, counts in there.items()]
    knowledge = knowledge_load([job]) if label else Knowledge()
    estimator = estimator_for(knowledge, speeds, nodes)
    known = estimator.is_known(job)
    sigma = scheduler_parameters(knobs_current()).sigma
    errors = _past_errors(tenant) if known else {}
    ones = {node.name: estimator.throughput(job, [node], 1).value for node in nodes}
    unit_type = None if known or not ones else min(ones, key=lambda name: (ones[name], name))
    unit = ones[unit_type] if unit_type else 1.0
    shown = sorted(nodes, key=lambda node: (-ones[node.name], node.name))

    def answer(node: model.Node, gpus: int) -> SizeSpeed:
        count = -(-gpus // node.gpus_total)
        given = estimator.throughput(job, [node] * count, gpus)
        error = errors.get(given.source)
        if given.source == MEASURED:  # the deviation of the measurements as a share of their mean
            cell = knowledge.cells[cell_key(signature(job), node.name, gpus, count)]
            error = None if cell.variance is None else math.sqrt(cell.variance) / cell.mean
        offered = count == 1 or estimator.sensitivity(job) <= sigma
        return SizeSpeed(gpus, count, given.value / unit, given.source, error, offered)

    found = []
    for node in shown[:TYPES]:
        total = sum(there[node.name])
        most = 1 if is_instance(node.name) else total  # several instances are no larger GPU
        answers = {size: answer(node, size) for size in sizes if size <= most}
        found.append(TypeScaling(node.name, total, ones[node.name] / unit, answers))
    return Scaling(sizes, found, len(shown[TYPES:]), unit_type, sigma)


def sizes_shown(accepted: Collection[int], most: int) -> list[int]:
    """Return the sizes to show: those accepted that exist here, evenly thinned out, and powers of two while there is room."""
    wanted = sorted({size for size in accepted if 0 < size <= most})
    if len(wanted) > COLUMNS:
        wanted = [wanted[place * (len(wanted) - 1) // (COLUMNS - 1)] for place in range(COLUMNS)]
    powers = (2**power for power in range(max(0, most).bit_length()))
    more = [size for size in powers if size not in wanted]
    return sorted([*wanted, *more[: max(0, COLUMNS - len(wanted))]])


def _gpus_there(gpu_types: Collection[str]) -> tuple[dict[str, float], dict[str, list[int]]]:
    """Return by GPU type (of these, or all) its relative speed, and how many GPUs each living node has. One query."""
    alive = Gpu.objects.present().filter(node__dead_at=None).with_type().exclude(type_name=None).order_by()
    speed = Coalesce("gpu_type__relative_speed", "node__gpu_type__relative_speed")
    rows = alive.filter(type_name__in=gpu_types) if gpu_types else alive
    speeds: dict[str, float] = {}
    counts: dict[str, list[int]] = defaultdict(list)
    for name, own, _, count in rows.values_list("type_name", speed, "node_id").annotate(count=Count("pk")):
        speeds[name] = own
        counts[name].append(count)
    return speeds, counts


def _past_errors(tenant: Tenant) -> dict[str, float]:
    """Return by layer the median of |measured / predicted - 1| over the tenant's latest attempts. One query."""
    told = AttemptSpeed.objects.filter(
        attempt__job__tenant=tenant, predicted_samples_per_s__gt=0, samples__gt=0, seconds__gt=0
    ).order_by("-pk")
    measured = F("samples") / F("seconds")
    errors: dict[str, list[float]] = defaultdict(list)
    for source, predicted, own in told.values_list("predicted_source", "predicted_samples_per_s", measured)[:PAST]:
        errors[source].append(abs(own / predicted - 1))
    return {source: median(each) for source, each in errors.items() if len(each) >= PAST_LEAST}
