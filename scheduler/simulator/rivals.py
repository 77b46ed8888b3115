"""Policies that exist to be measured against, and the lookup by name of any policy, theirs and ours.

Operators choose among `scheduler.policies.registry.POLICIES`; a rival runs only in simulations. Both have the same interface.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scheduler.copies import replace
from scheduler.parameters import Parameters
from scheduler.policies.registry import POLICIES
from scheduler.policies.rivals import gavel, gavel_hops, sia, sia_hops, sjf, tetris
from scheduler.simulator.world.truth import SimulationError

if TYPE_CHECKING:
    from scheduler.policies.policy import Policy

RIVALS: Mapping[str, Policy] = {
    each.POLICY.name: each.POLICY for each in (gavel, gavel_hops, sia, sia_hops, sjf, tetris)
}


def policy_named(name: str) -> Policy:
    """The policy of that name. SimulationError names all there are."""
    policy = POLICIES.get(name) or RIVALS.get(name)
    if policy is None:
        raise SimulationError(f"there is no policy {name!r}; the policies are {', '.join([*POLICIES, *RIVALS])}")
    return policy


def parameters_for(name: str, knobs: Mapping[str, Any] | None = None) -> Parameters:
    """The knobs (by their names, without `policy`), checked, for that policy; its published rounds where they say nothing of it.

    InvalidParameter names the one at fault.
    """
    policy = policy_named(name)
    published = {} if policy.round_s is None else {"replan_s": policy.round_s}
    return replace(Parameters.from_mapping({**published, **(knobs or {})}), policy=policy.name)
