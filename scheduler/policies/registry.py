"""The policies that an operator can choose. (Rivals, which only simulations run, are the simulator's.)"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.policies import berth, coda, drf, fifo, hops

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.policies.policy import Policy

POLICIES: Mapping[str, Policy] = {each.POLICY.name: each.POLICY for each in (fifo, drf, coda, hops, berth)}
