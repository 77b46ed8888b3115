"""The states of a GPU for a new job: the one place that decides which are idle. Boards send the numbers, so these stay.

Idle is what a job could get whole now: its node takes jobs, nobody holds it, no check, operator or stranger closes it, and it
is not set aside for jobs that share a GPU. Those are counted apart, while no job is on them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from django.db.models import Count, Exists, OuterRef

from portal.cluster.models import Gpu
from portal.foundation.bulk import among

if TYPE_CHECKING:
    from collections.abc import Collection

    from portal.cluster.models import GpuQuerySet, Node


class GpuState(IntEnum):
    """KEPT is an idle one that is kept for a job; which of a node's, nobody has decided."""

    HELD = 0
    IDLE = 1
    KEPT = 2
    OUT = 3
    FOR_SHARING = 4


def gpu_state(*, held: bool, closed: bool, shared: bool, is_up: bool = True) -> GpuState:
    """`closed`: no new job gets it; `shared`: jobs may have parts of it; `is_up`: its node takes jobs."""
    if held and is_up:
        return GpuState.HELD
    if closed or not is_up:
        return GpuState.OUT
    return GpuState.FOR_SHARING if shared else GpuState.IDLE


class Free(NamedTuple):
    """GPUs of a node that no job holds: `idle` ones, and those `for_sharing`."""

    idle: int = 0
    for_sharing: int = 0


def unheld(gpus: GpuQuerySet) -> GpuQuerySet:
    """Return those of them that no job holds, whether or not one may have them."""
    held = Gpu.allocations.rel.related_model.objects.filter(gpu=OuterRef("pk"), released_at=None)
    return gpus.filter(~Exists(held))


def whole_gpus() -> GpuQuerySet:
    """Return those that a job may have whole: of these the unheld ones are idle, on nodes that take jobs."""
    return Gpu.objects.takes_jobs().filter(mode=Gpu.Mode.EXCLUSIVE)


def free_by_node(nodes: Collection[Node]) -> dict[int, Free]:
    """Return the free GPUs of each of these nodes, by id; a node that takes no jobs has none. One query."""
    open_gpus = unheld(Gpu.objects.takes_jobs().filter(node__in=among(node.pk for node in nodes))).order_by()
    found: dict[tuple[int, str], int] = {}
    for node, mode, count in open_gpus.values_list("node_id", "mode").annotate(n=Count("pk")):
        found[node, mode] = count
    return {
        node.pk: Free(found.get((node.pk, Gpu.Mode.EXCLUSIVE), 0), found.get((node.pk, Gpu.Mode.SHARED), 0))
        for node in nodes
        if node.is_schedulable
    }
