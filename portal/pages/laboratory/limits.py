"""The limits of a simulation, the same for form, REST and command. Spawned processes load it: it needs no models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.pages.laboratory.errors import SimulationError
from scheduler.errors import InvalidParameter
from scheduler.simulator.rivals import parameters_for
from scheduler.simulator.world.truth import SimulationError as EngineError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.parameters import Parameters

MOST_POLICIES = 12
MOST_HOURS = 24 * 366
MOST_SEED = 2**31 - 1


def asked_check(
    *, policies: Sequence[str], seed: int, until_h: float | None, knobs: Mapping[str, Any]
) -> dict[str, Parameters]:
    """Return the knobs for each policy. SimulationError names the wrong field: policies, seed, until_h or knobs."""
    if not 1 <= len(policies) <= MOST_POLICIES:
        raise SimulationError("policies", f"Choose 1 to {MOST_POLICIES} policies.")
    if len(set(policies)) != len(policies):
        raise SimulationError("policies", "Name each policy once.")
    if not 0 <= seed <= MOST_SEED:
        raise SimulationError("seed", f"A seed is a whole number from 0 to {MOST_SEED}.")
    if until_h is not None and not 0 < until_h <= MOST_HOURS:
        raise SimulationError("until_h", f"The end must be above 0 and at most {MOST_HOURS} hours.")
    try:
        return {name: parameters_for(name, knobs) for name in policies}
    except InvalidParameter as error:
        raise SimulationError("knobs", str(error)) from error
    except EngineError as error:
        raise SimulationError("policies", str(error)) from error
