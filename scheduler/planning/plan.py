"""A planning (algorithms.md section 7): from a snapshot to one decision, with its reason, for every job in it.

Step 1, ends and time limits, is done when the snapshot is taken. A bad node or job is set aside and named in `faults`
(`scheduler.planning.inputs`); steps 2 to 8 are `scheduler.planning.deciding`, step 9 is `scheduler.planning.recording`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.placement.work import NOTHING, Memory
from scheduler.planning.deciding import decide
from scheduler.planning.inputs import SnapshotInput
from scheduler.planning.recording import record
from scheduler.policies.registry import POLICIES

if TYPE_CHECKING:
    from numpy.random import Generator

    from scheduler.model import Clock, ClusterState, Plan
    from scheduler.parameters import Parameters
    from scheduler.policies.policy import Policy

REPEATS = 20
"""The most plannings in a row that a driver makes at one moment, without waiting for its next tick."""


def plan(
    state: ClusterState,
    now_s: float,
    parameters: Parameters,
    rng: Generator,
    clock: Clock,
    *,
    replan: bool = False,
    policy: Policy | None = None,
) -> Plan:
    """One planning. `now_s`: the snapshot's time; `clock`: monotonic, for limit and timings; `rng`: seeds the solver.

    `policy`: None = the one that the parameters name.
    `replan`: running elastic jobs take part, so that they may be resized, moved or stopped; else only idle resources are
    handed out. The same arguments give the same plan, unless the time limit cuts the search short. Bad nodes and jobs
    never raise.
    """
    return plan_on(NOTHING, state, now_s, parameters, rng, clock, replan=replan, policy=policy)[0]


def plan_on(
    memory: Memory,
    state: ClusterState,
    now_s: float,
    parameters: Parameters,
    rng: Generator,
    clock: Clock,
    *,
    replan: bool = False,
    policy: Policy | None = None,
) -> tuple[Plan, Memory]:
    """Plan as `plan` does, with the last planning's memory; return the plan with the memory for the next one.

    Without it a planning gives as good a plan, later. A driver may pass the last planning's job objects again, with only
    `wait_s` changed.
    """
    began_s = clock()
    inputs = SnapshotInput(state, memory)
    start = inputs.ledger.copy()
    policy = policy or POLICIES[parameters.policy]
    decided = decide(inputs, now_s, parameters, policy, rng, clock, replan=replan, began_s=began_s)
    made = record(decided, inputs, start, now_s, parameters, clock, began_s=began_s)
    return made, Memory(decided.outcome.left, inputs.sound, inputs.known_types)
