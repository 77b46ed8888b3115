"""A stored simulation's whole answer, in the shape that `./berth simulate` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.errors import Conflict
from portal.simulations.checking import cluster_checked
from portal.simulations.generators import GENERATORS
from portal.simulations.models import Simulation
from portal.simulations.selectors import curves_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.model import Node


def nodes_of(simulation: Simulation) -> Sequence[Node]:
    """The simulated cluster's nodes."""
    if simulation.cluster:
        return cluster_checked(simulation.cluster).world.nodes
    return GENERATORS[simulation.generator].make(simulation.seed, 1)[1].nodes


def report_of(simulation: Simulation) -> dict[str, Any]:
    """What was simulated, each policy's figures and curves: as `simulation_run` answers. Conflict while there is none."""
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
        "gpus": sum(node.gpus_total for node in nodes_of(simulation)),
        "seed": simulation.seed,
        "knobs": simulation.knobs,
        "until_h": simulation.until_h,
        "policies": {name: simulation.figures[name] for name in simulation.policies},
        "curves": curves_of(simulation),
    }
