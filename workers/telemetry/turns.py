"""How fast jobs run that share a virtual GPU: they take turns of equal length (max-min fair), and each change of turn costs.

The law of the simulator (`scheduler/simulator/sharing/laws.py`, `InTurns`) for the one resource that a virtual GPU has, its
time: a job that wants less than its turn is not held back, the others share the rest equally. Each neighbour costs `SWITCHING` by
its own use: contexts are changed and caches emptied. A test holds both to the same figures.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

GPU_USE, SPEED_FILE = "VIRTUAL_GPU", "gpu-speed"
"""A virtual node's job declares `USE[,MIB]`: the part of a GPU that it keeps busy, and the memory that it takes
of it beside its processes' own. And the file that tells it the part of its speed that is left beside its neighbours."""
SWITCHING = 0.05
MOST_MIB = 2**24


def use_parse(text: str) -> tuple[float, ...]:
    """Read VIRTUAL_GPU: (use above 0 to 1, MiB); nothing where it is not that."""
    try:
        figures = [float(part) for part in text.split(",")]
    except ValueError:
        return ()
    use, mib = (*figures, 0.0)[:2]
    return (use, mib) if len(figures) <= 2 and 0 < use <= 1 and 0 <= mib <= MOST_MIB else ()


def speeds_in_turns(wanted: Sequence[float]) -> list[float]:
    """Return the part of its own speed at which each runs. `wanted`: the part of the GPU that each uses without neighbours."""
    total = math.fsum(wanted)
    most = _turn(wanted) if total > 1.0 else 1.0
    return [1.0 / (max(1.0, own / most) + SWITCHING * (total - own)) for own in wanted]


def _turn(wanted: Sequence[float]) -> float:
    """Return the most that each gets: `sum(min(own, turn)) = 1`. More than the whole is wanted."""
    given, rising = 0.0, sorted(wanted)
    for place, own in enumerate(rising):
        each = (1.0 - given) / (len(rising) - place)
        if each <= own:
            return each
        given += own
    return 1.0  # only by rounding: just the whole is wanted
