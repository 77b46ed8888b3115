"""The simulator's engine in the tests' spelling: a cluster, jobs of so much work, and whole histories of plans.

A job has an amount of work, in seconds on one GPU of speed 1; r GPUs do r * r^-0.1 of it a second, the speed that the
core assumes. A stop takes `stop_s`; a restart costs the knob `restart_cost_s`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scheduler.simulator.engine import Engine
from scheduler.simulator.load import Load, count_work
from scheduler.simulator.rivals import parameters_for
from scheduler.simulator.world.truth import TracedJob, World
from tests.scheduler.builders import Orders, check_feasible, check_orders, ticking

if TYPE_CHECKING:
    from scheduler.model import Job, Node, Plan

SCALING = 0.9  # r GPUs are worth r^0.9


@dataclass(frozen=True)
class Scaled:
    def rate(self, spots) -> float:
        return sum(spot.gpus for spot in spots) ** SCALING or 1.0


class Driver:
    """`run` to a time; `log` keeps every plan, `loads` every job.

    What each planning orders is checked on a snapshot. `logged`: it is made once more from that, as the service makes it, and that
    plan is checked and kept as well. It takes as long again.
    """

    def __init__(
        self, nodes: list[Node], *, stop_s: float = 20.0, seed: int = 1, logged: bool = False, **knobs
    ) -> None:
        self.log: list[Plan] = []
        knobs = {"tick_s": 30, **knobs}
        parameters = parameters_for(knobs.pop("policy", "berth"), knobs)
        world = World(nodes, stop_s=stop_s, restart_s=parameters.restart_cost_s)
        self._logged = logged
        self.engine = Engine([], world, parameters, seed=seed, clock=ticking(), watch=self._watch)

    @property
    def loads(self) -> dict[int, Load]:
        return self.engine.simulated.loads

    def submit(self, job: Job, work: float, at_s: float = 0.0) -> None:
        self.engine.submit(TracedJob(replace(job, submitted_s=at_s, wait_s=0.0), work, Scaled()))

    def run(self, until_s: float) -> None:
        """Everything that happens up to then, that moment included."""
        self.engine.run(until_s)
        for load in self.engine.simulated.running.values():
            count_work(load, self.engine.now_s)

    def _watch(self, state, plan, decided) -> None:
        check_orders(Orders.of(decided), state)
        if self._logged:
            made = plan()
            check_feasible(made, state)
            self.log.append(made)
