"""Instances: parts into which MIG cuts a GPU. The profile at a type's end shows one, as in `scheduler.model.placements`."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

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
