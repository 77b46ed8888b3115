"""Small pieces of the sentences: counts, lists, minutes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from scheduler.model.instances import is_instance

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MEMORY = "MiB of memory"


def count(number: Any, word: str) -> str:
    """For example: 1 GPU, 4 GPUs; memory, which is counted in MiB, in GiB: 4 GiB of memory."""
    if word == MEMORY:
        return f"{gib(number)} of memory"
    return f"{number} {word}" if number != 1 else f"{number} {word.removesuffix('s')}"


def are(number: Any) -> str:
    return f"{number or 'none'} {'is' if number in (0, 1) else 'are'}"


def listed(names: Sequence[Any], most: int = 3) -> str:
    shown = [str(name) for name in names[:most]]
    rest = len(names) - len(shown)
    if rest:
        return f"{', '.join(shown)} and {rest} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def instant(at_s: float) -> str:
    """A time of the snapshot's clock as ISO 8601 in UTC, to the next full minute: 2026-11-22T07:14Z."""
    return f"{np.datetime64(math.ceil(at_s / 60.0), 'm')}Z"


def gib(mib: float) -> str:
    """For example: 4 GiB, 8.79 GiB."""
    return f"{round(mib / 1024, 2):g} GiB"


def the_most(by_type: Mapping[str, int], figures: Mapping[str, Any]) -> str:
    """For example: 8 of type A100 that it may use, besides 1 for jobs that share a GPU."""
    most = max(by_type.values(), default=0)
    largest = [name for name, count in by_type.items() if count == most]
    of_one = "" if len(by_type) < 2 else f" of type {largest[0]}" if len(largest) == 1 else " of one type"
    shared = figures.get("for_sharing")
    return f"{most}{of_one} that it may use" + (f", besides {shared} for jobs that share a GPU" if shared else "")


def other_types(types: Sequence[str]) -> str:
    """The cluster's GPU types, and the choices of a job that may use none of them."""
    if not types:
        return "No node of the cluster has GPUs. Ask the operator."
    there = f"The cluster has GPUs of type {' and '.join(types)}."
    if all(map(is_instance, types)):
        return (
            f"{there} These are instances (MIG), and each takes jobs of one GPU. Accept one GPU, or ask the operator."
        )
    return f"{there} Allow another type, or ask the operator."
