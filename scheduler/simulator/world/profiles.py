"""Profiles as they run in the simulated cluster (algorithms.md section 2): a GPU of the type for a while, then the result.

The planning chooses which profiles are made. A profile takes the world's `profiling_s` on the GPU and cores that the plan gives
it, and gives the type's entry in `TracedJob.profiles`. If it would take longer than its limit it is cut off and gives nothing.
Then the signature is not profiled again on that type for `PROFILE_AGAIN_S`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.model import Profiled, ProfileOrder, Running
from scheduler.planning.profiling import PROFILE_AGAIN_S

if TYPE_CHECKING:
    from scheduler.simulator.cluster import Cluster
    from scheduler.simulator.load import Load
    from scheduler.simulator.world.knowing import Knowing
    from scheduler.simulator.world.truth import World


@dataclass(frozen=True, slots=True)
class _Run:
    order: ProfileOrder
    load: Load
    started_s: float


class Profiles:
    """The running profiles, with ids from -1 downwards, and the failed ones."""

    def __init__(self, world: World, cluster: Cluster, knowing: Knowing) -> None:
        self._profiling_s, self._cluster, self._knowing = world.profiling_s, cluster, knowing
        self._running: dict[int, _Run] = {}
        self._begun = 0
        self._until: dict[tuple[str, str], float] = {}  # (signature, type) -> not again before
        self.gpu_s = 0.0  # held by all of them so far

    def __len__(self) -> int:
        return len(self._running)

    def start(self, order: ProfileOrder, load: Load, now_s: float) -> tuple[int, float]:
        """Begin a profile. Returns its id, and when it ends."""
        self._begun += 1
        self._cluster.take((order.piece,), load.traced.job.tenant)
        self._running[-self._begun] = _Run(order, load, now_s)
        if load.profiled_since_s is None:
            load.profiled_since_s, load.described = now_s, None
        return -self._begun, now_s + min(self._profiling_s, order.limit_s)

    def end(self, number: int, now_s: float) -> None:
        """End the profile: its GPU is free, and its result is known."""
        run = self._running.pop(number)
        order = run.order
        self._cluster.give((order.piece,), run.load.traced.job.tenant)
        self.gpu_s += (now_s - run.started_s) * len(order.piece.gpus)
        told = self._profiling_s <= order.limit_s and self._knowing.learn(run.load, order.gpu_type)
        if not told:
            self._until[order.signature, order.gpu_type] = now_s + PROFILE_AGAIN_S

    def running(self) -> list[Running]:
        """The running profiles as a snapshot shows them."""
        return [
            Running(
                number,
                run.load.traced.job.tenant,
                (run.order.piece,),
                run.started_s,
                (1,),
                expected_end_s=run.started_s + run.order.limit_s,
                profiled=Profiled(
                    run.order.job, run.order.signature, run.order.gpu_type, run.started_s + run.order.limit_s
                ),
            )
            for number, run in self._running.items()
        ]

    def tried(self, now_s: float) -> frozenset[tuple[str, str]]:
        """The pairs that are not to be profiled again yet."""
        self._until = {key: until_s for key, until_s in self._until.items() if until_s > now_s}
        return frozenset(self._until)
