"""A stored simulation's whole answer, in the shape that `./berth simulate` prints."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from portal.foundation.errors import Conflict
from portal.pages.laboratory.checking import cluster_checked
from portal.pages.laboratory.models import Simulation
from portal.pages.laboratory.selectors import curves_of
from portal.pages.laboratory.sources.generators import GENERATORS


class Size(NamedTuple):
    nodes: int
    gpus: int


def size_of(simulation: Simulation) -> Size:
    """Return the simulated cluster's size."""
    return _size(simulation.cluster, simulation.generator, simulation.seed)


@lru_cache(maxsize=32)
def _size(cluster: str, generator: str, seed: int) -> Size:
    """Return the size. Cached: pages ask every second, and reading a description or drawing a cluster takes time."""
    world = cluster_checked(cluster).world if cluster else GENERATORS[generator].make(seed, 1)[1]
    return Size(world.nodes_counted, sum(node.gpus_total for node in world.nodes))


def report_of(simulation: Simulation) -> dict[str, Any]:
    """Return the answer of `simulation_run`: inputs, figures and curves. Conflict while there is none."""
    if simulation.state != Simulation.State.COMPLETED:
        state = simulation.state
        detail = f"It is {state}; only a COMPLETED simulation has a report." + (
            " Ask again once it has."
            if simulation.is_open
            else " Its `error` says why, if it failed; ask for a new one."
        )
        raise Conflict("not_completed", detail)
    trace = simulation.trace
    return {
        "trace": trace.name if trace else f"{simulation.generator}, seed {simulation.seed}",
        "format": trace.format if trace else simulation.generator,
        "gpus": size_of(simulation).gpus,
        "seed": simulation.seed,
        "knobs": simulation.knobs,
        "until_h": simulation.until_h,
        "policies": {name: simulation.figures[name] for name in simulation.policies},
        "curves": curves_of(simulation),
    }
