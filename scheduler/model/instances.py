"""Instances: the parts into which MIG cuts a GPU. NVML names each by its GPU and its profile: `NVIDIA A100-SXM4-40GB MIG
1g.5gb`.

The profile at the end of its type's name tells an instance. A process reaches one instance, and no two of them work together: an
instance takes jobs of one GPU. A job is placed on whole GPUs of the types that it names, or of any; a job that names only
instances gets those. Jobs for which no whole GPU is left may have instances (`scheduler.placement.feasibility`).
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

PROFILE = re.compile(r"(?:^|[\s_:-])((?:(\d+)c\.)?(\d+)g\.\d+gb(?:[+-][a-z][a-z.]*)*)$", re.IGNORECASE)
SLICES, SLICES_OF = 7, {"A30": 4, "RTX PRO": 4}
"""The slices of compute of a GPU, and those of other models."""


@cache
def is_instance(gpu_type: str | None) -> bool:
    return isinstance(gpu_type, str) and PROFILE.search(gpu_type) is not None


@cache
def share_of_gpu(gpu_type: str) -> float:
    """The part of its GPU's compute that an instance has, 1 for a whole GPU. A default where there is no other figure."""
    if not is_instance(gpu_type):
        return 1.0
    found = PROFILE.search(gpu_type)
    assert found is not None
    slices = next((count for name, count in SLICES_OF.items() if name in gpu_type.upper()), SLICES)
    return max(1, min(slices, int(found[2] or found[3]))) / slices


def serves(asked: AbstractSet[str], gpu_type: str | None) -> bool:
    """Whether a job that names these types, or none, is placed on GPUs of this type. `placement.instances` has the exception."""
    if not is_instance(gpu_type):
        return not asked or gpu_type in asked
    return gpu_type in asked and only_instances(asked)


def only_instances(asked: AbstractSet[str]) -> bool:
    """Whether a job that names these types asks for instances and for nothing else."""
    return bool(asked) and all(map(is_instance, asked))
