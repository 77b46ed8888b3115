"""The input of a planning, kept up to date between plannings: only what an event has changed is written again.

It gives the same answers as `SnapshotInput` of `scheduler.planning.inputs` on a snapshot taken now. `state` has no nodes and no
waiting jobs: the ledger knows the idle resources, and the queue which jobs wait. A planning takes from the ledger; the resources
are really taken when the plan is applied. Before the next planning the changed rooms are read from the cluster again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from scheduler.errors import InvalidJob
from scheduler.estimator.estimator import Estimator, estimator_for
from scheduler.explaining.foresight import Foresight
from scheduler.fairness.priorities import Moment, Priority, first_in_first_out
from scheduler.intake.take_in import take_in
from scheduler.intake.validation import check_job, is_plainly_sound
from scheduler.model import ArrayHistory, ClusterState, Job, Ranked, Running
from scheduler.placement.ledger import Ledger
from scheduler.placement.work import NOTHING
from scheduler.planning.inputs import gpus_by_type, known_ages, known_types, lined_up, sound_nodes
from scheduler.simulator.observe import beside, job_now, running_in, running_of
from scheduler.simulator.world.truth import SimulationError

if TYPE_CHECKING:
    from scheduler.explaining.figures import Why
    from scheduler.fairness.lrf import Age
    from scheduler.simulator.load import Load
    from scheduler.simulator.simulated import SimulatedCluster


class _Live(Sequence[Running]):
    """The running jobs, made into a list only when more than their number is needed."""

    def __init__(self, simulated: SimulatedCluster, now_s: float) -> None:
        self._simulated, self._now_s = simulated, now_s
        self._all: list[Running] | None = None

    def __len__(self) -> int:
        return len(self._simulated.running) + len(self._simulated.profiles)

    def __getitem__(self, place: Any) -> Any:
        return self._together()[place]

    def __iter__(self) -> Iterator[Running]:
        return iter(self._together())

    def _together(self) -> list[Running]:
        if self._all is None:
            self._all = running_in(self._simulated, self._now_s)
        return self._all


class LiveInput:
    """The input over a simulated cluster. `open` it before a planning."""

    def __init__(self, simulated: SimulatedCluster) -> None:
        world = simulated.world
        self._simulated = simulated
        self.memory = NOTHING  # a driver that keeps one between plannings puts it here
        nodes = list(simulated.cluster.nodes.values())
        whole = ClusterState(
            nodes, (), tenants=world.tenants, gpu_speeds=world.gpu_speeds, gpu_weights=world.gpu_weights
        )
        for wrong in (*sound_nodes(whole)[1], *take_in(whole).faults):
            raise SimulationError(f"the world is unsound: {wrong}")
        self._known_types = known_types(whole, nodes)
        self._version = simulated.knowing.version
        self._count_nodes()
        self.state = whole
        self._now_s = 0.0
        self._sound_shapes: set[tuple[object, object]] = set()
        self._aside: dict[int, Why] = {}  # jobs that wait and never fit
        self._by_order_of_arrival = not any(
            tenant.gpu_quota is not None or tenant.core_quota is not None for tenant in world.tenants
        )

    def _count_nodes(self) -> None:
        """Read the nodes that there are."""
        simulated, nodes = self._simulated, list(self._simulated.cluster.nodes.values())
        self._gone, self._gpus_by_type = len(simulated.cluster.gone), gpus_by_type(nodes)
        self.ledger = Ledger(nodes, simulated.world.tenants, ())
        self._never: dict[tuple[object, ...], Why | None] = {}
        self._foresight = Foresight(self.ledger, self._never)
        self.estimator: Estimator = estimator_for(simulated.knowing.knowledge, simulated.world.gpu_speeds, nodes)

    def open(self, now_s: float, arrays: ArrayHistory, replanned_s: float | None = None) -> None:
        """Bring them up to the present time."""
        simulated, cluster, ledger = self._simulated, self._simulated.cluster, self.ledger
        self._now_s = now_s
        if len(cluster.gone) != self._gone:
            self._count_nodes()
            ledger, cluster.changed = self.ledger, set(cluster.nodes)
            self._by_order_of_arrival = False  # who never fits now did before
        if cluster.has_bays:
            waiting = [job_now(load, simulated, now_s) for load in simulated.waiting.values()]
            promises = (load.promise.shares for load in simulated.promised.values() if load.promise is not None)
            ledger.renew(cluster.deal(waiting, promises))
        for number in ledger.changed | cluster.changed:
            idle = cluster.idle[number]
            ledger.reset(number, idle.gpus, idle.cores, idle.memory_mib, idle.tenants)
        if ledger.changed or cluster.changed:
            ledger.reset_held(cluster.held)
        ledger.changed.clear()
        cluster.changed.clear()
        if ledger.limited:
            ledger.limit((), {})
        if simulated.knowing.version != self._version:
            self._version = simulated.knowing.version
            nodes = list(cluster.nodes.values())
            self.estimator = estimator_for(simulated.knowing.knowledge, simulated.world.gpu_speeds, nodes)
        self.state = ClusterState((), (), _Live(simulated, now_s), **beside(simulated, arrays, now_s, replanned_s))

    def join(self, load: Load, now_s: float) -> bool:
        """Check a job that waits from now on, for the first time or again; False if it cannot be planned."""
        job = job_now(load, self._simulated, now_s)
        if not load.starts:
            try:
                if not is_plainly_sound(job, self._sound_shapes):
                    check_job(job, self._known_types)
                    self._sound_shapes.add((job.requirement, job.gpu_types))
            except InvalidJob:
                return False
        self._by_order_of_arrival &= not job.priority
        why = self._foresight.why_aside(job) if self._by_order_of_arrival else None
        if why is None:
            self._aside.pop(load.id, None)
        else:
            self._aside[load.id] = why
            self._simulated.line.leave(load)
        return True

    @property
    def promised(self) -> list[Job]:
        loads = self._simulated.promised.values()
        return [job_now(load, self._simulated, self._now_s) for load in loads if load.attempt is None]

    @property
    def stopping(self) -> list[Running]:
        simulated = self._simulated
        promised = {number: load for number, load in simulated.promised.items() if load.attempt is not None}
        return [running_of(load, simulated, self._now_s) for load in (simulated.stopping | promised).values()]

    def foresight(self, ledger: Ledger) -> Foresight:
        return Foresight(ledger, self._never)

    def ages(self, tick_s: float) -> Callable[[Job], Age]:
        return known_ages(self.estimator, self.state, self._gpus_by_type, tick_s)

    def line_up(
        self,
        foresight: Foresight,
        priority: Priority,
        moment: Callable[[int], Moment],
        age: Callable[[Job], Age],
    ) -> tuple[Sequence[Ranked], Mapping[int, Why]]:
        simulated, now_s = self._simulated, self._now_s
        if self._by_order_of_arrival and priority is first_in_first_out:
            return simulated.line.at(now_s, lambda load: job_now(load, simulated, now_s), age), self._aside
        jobs = [job_now(load, simulated, now_s) for load in simulated.waiting.values()]
        return lined_up(jobs, foresight, priority, moment, age)

    def check(self, job: Job) -> None:
        """Jobs were looked at when they came."""
