"""The states of a GPU for a new job: the one place that decides which are idle. Boards send the numbers, so these stay.

Idle is what a job could get whole now: its node takes jobs, nobody holds it, no check, operator or stranger closes it, and it
is not set aside for jobs that share a GPU. Those are counted apart, while no job is on them.

Instances are parts into which MIG cuts a GPU. The profile at a type's end shows one, as in `scheduler.model.placements`.
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from django.db.models import Count, Exists, OuterRef

from portal.cluster.models import Gpu
from portal.foundation.bulk import among

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

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


PROFILE = re.compile(r"(?:^|[\s_:-])((?:(\d+)c\.)?(\d+)g\.\d+gb(?:[+-][a-z][a-z.]*)*)$", re.IGNORECASE)
SLICES, SLICES_OF = 7, {"A30": 4, "RTX PRO": 4}
"""The slices of compute that a GPU has, where a type differs from the others."""
ONE_EACH = "each takes jobs of one GPU"


class Instance(NamedTuple):
    """A type of instances: of which GPU, and by which profile. `share`: the part of that GPU's compute that each has."""

    whole: str
    profile: str
    share: float


@lru_cache(1024)
def instance_of(gpu_type: str | None) -> Instance | None:
    """Return the instance that a type's name describes; None: its GPUs are whole."""
    found = PROFILE.search(gpu_type or "")
    if gpu_type is None or found is None:
        return None
    whole = re.sub(r"[\s_:-]*(?:\bMIG)?$", "", gpu_type[: found.start()], flags=re.IGNORECASE)
    slices = next((count for name, count in SLICES_OF.items() if name in gpu_type.upper()), SLICES)
    return Instance(whole, found[1], max(1, min(slices, int(found[2] or found[3]))) / slices)


def only_instances(gpu_types: Iterable[str]) -> bool:
    """Say whether these types are some, and all of instances."""
    found = [instance_of(name) for name in gpu_types]
    return bool(found) and all(found)


def count_words(count: int, gpu_type: str) -> str:
    """For example: 7 instances of NVIDIA A100 (1g.10gb)."""
    found = instance_of(gpu_type)
    if found is None:
        return f"{count} \u00d7 {gpu_type}"
    of = f" of {found.whole}" if found.whole else ""
    return f"{count} instance{'s' if count != 1 else ''}{of} ({found.profile})"
