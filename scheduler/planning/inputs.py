"""A planning's input, checked: nodes, waiting jobs, running jobs and idle resources.

The service reads them from a snapshot each time. The simulator keeps its own input up to date between plannings. Both answer
the same questions of `PlanningInput`, and `scheduler.planning.plan` asks no others.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from scheduler.errors import InvalidJob, InvalidNode, SchedulerError
from scheduler.estimator.estimator import Estimator, estimator_for
from scheduler.explaining.foresight import Foresight
from scheduler.fairness.lrf import Age, ages
from scheduler.fairness.priorities import Moment, Priority, order
from scheduler.intake.take_in import check_speeds, take_in
from scheduler.intake.validation import check_job, check_node, is_plain, is_plainly_sound
from scheduler.placement.ledger import Ledger
from scheduler.placement.work import NOTHING, Memory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from scheduler.explaining.figures import Why
    from scheduler.model import ClusterState, Job, Node, Ranked, Running


class PlanningInput(Protocol):
    """The questions that a planning asks. It takes from `ledger`."""

    @property
    def state(self) -> ClusterState:
        """The sound part of the snapshot: running jobs, tenants, weights and history."""
        ...

    @property
    def memory(self) -> Memory:
        """The memory of the last planning. Its own stands in its outcome."""
        ...

    @property
    def ledger(self) -> Ledger: ...

    @property
    def estimator(self) -> Estimator: ...

    @property
    def promised(self) -> Sequence[Job]:
        """The waiting jobs with a promise, those set aside included."""
        ...

    @property
    def stopping(self) -> Sequence[Running]:
        """The running jobs that are stopping or have a promise."""
        ...

    def foresight(self, ledger: Ledger) -> Foresight:
        """Tells which jobs cannot start even on an idle cluster, by the nodes and quotas of this ledger."""
        ...

    def ages(self, tick_s: float) -> Callable[[Job], Age]:
        """The ages (expected run times) of jobs, by present knowledge."""
        ...

    def line_up(
        self,
        foresight: Foresight,
        priority: Priority,
        moment: Callable[[int], Moment],
        age: Callable[[Job], Age],
    ) -> tuple[Sequence[Ranked], Mapping[int, Why]]:
        """The queue in order, and by job id why other jobs take no part. `moment` takes the number of jobs that wait."""
        ...

    def check(self, job: Job) -> None:
        """Raise InvalidJob if a running job cannot be planned as it is described."""
        ...


class SnapshotInput:
    """The input read from a snapshot. Bad nodes and jobs are set aside and named; never raises."""

    def __init__(self, given: ClusterState, memory: Memory = NOTHING) -> None:
        self.memory = memory
        intake = take_in(given)
        self.state, self._suspects = intake.state, intake.suspects
        self.nodes, faulty_nodes = sound_nodes(self.state)
        self.known_types = known_types(self.state, self.nodes)
        self.sound, self.faulty_jobs = self._sound_jobs()
        self.jobs = list(self.sound.values())
        self.faults: list[SchedulerError] = [*intake.faults, *faulty_nodes, *(error for _, error in self.faulty_jobs)]
        self.ledger = Ledger(self.nodes, self.state.tenants, self.state.running)
        self.ledger.too_small = self.state.too_small
        self.estimator = estimator_for(self.state.knowledge, self.state.gpu_speeds, self.nodes)
        self.gpus_by_type = gpus_by_type(self.nodes)

    @cached_property
    def promised(self) -> list[Job]:
        return [job for job in self.jobs if job.promise is not None]

    @cached_property
    def stopping(self) -> list[Running]:
        return [
            live
            for live in self.state.running
            if live.stopping or (live.description is not None and live.description.promise is not None)
        ]

    def foresight(self, ledger: Ledger) -> Foresight:
        return Foresight(ledger)

    def ages(self, tick_s: float) -> Callable[[Job], Age]:
        return known_ages(self.estimator, self.state, self.gpus_by_type, tick_s)

    def line_up(
        self,
        foresight: Foresight,
        priority: Priority,
        moment: Callable[[int], Moment],
        age: Callable[[Job], Age],
    ) -> tuple[Sequence[Ranked], Mapping[int, Why]]:
        return lined_up(self.jobs, foresight, priority, moment, age)

    def check(self, job: Job) -> None:
        check_job(job, self.known_types)
        check_speeds(job, self._suspects)

    def _sound_jobs(self) -> tuple[dict[int, Job], list[tuple[Job, InvalidJob]]]:
        sound: dict[int, Job] = {}
        faulty: list[tuple[Job, InvalidJob]] = []
        shapes: set[tuple[object, object]] = set()
        before = self.memory.sound if self.memory.types == self.known_types and not self._suspects else NOTHING.sound
        for job in self.state.jobs:
            if before.get(job.id) is job and job.id not in sound and is_plain(job.wait_s):
                sound[job.id] = job
                continue
            try:
                if not is_plainly_sound(job, shapes) or job.id in sound:
                    check_job(job, self.known_types, listed=sound)
                    shapes.add((job.requirement, job.gpu_types))
                if self._suspects:
                    check_speeds(job, self._suspects)
                sound[job.id] = job
            except InvalidJob as error:
                faulty.append((job, error))
        return sound, faulty


def sound_nodes(state: ClusterState) -> tuple[list[Node], list[InvalidNode]]:
    """The sound nodes, and the errors of the others."""
    sound: dict[int, Node] = {}
    faulty: list[InvalidNode] = []
    for node in state.nodes:
        try:
            check_node(node, state.gpu_speeds, listed=sound)
            sound[node.id] = node
        except InvalidNode as error:
            faulty.append(error)
    return list(sound.values()), faulty


def known_types(state: ClusterState, nodes: Sequence[Node]) -> AbstractSet[str]:
    """The GPU types that a job may name."""
    return {node.gpu_type for node in nodes if node.gpu_type} | set(state.gpu_speeds)


def gpus_by_type(nodes: Sequence[Node]) -> Mapping[str, int]:
    """N_j of eq. 9."""
    counts = Counter[str]()
    for node in nodes:
        counts[node.gpu_type or ""] += node.gpus_total
    return counts


def known_ages(
    estimator: Estimator, state: ClusterState, counts: Mapping[str, int], tick_s: float
) -> Callable[[Job], Age]:
    """The ages (expected run times) of jobs, by present knowledge."""
    return ages(state.history, tick_s=tick_s, samples_per_s=estimator.samples_per_s, gpus_by_type=counts)


def lined_up(
    jobs: Sequence[Job],
    foresight: Foresight,
    priority: Priority,
    moment: Callable[[int], Moment],
    age: Callable[[Job], Age],
) -> tuple[Sequence[Ranked], Mapping[int, Why]]:
    """The waiting jobs that could start some day, ordered by priority, and by id why the others take no part."""
    aside = foresight.aside(jobs)
    waiting = [job for job in jobs if job.id not in aside] if aside else jobs
    return order(waiting, priority, moment(len(waiting)), age), aside
