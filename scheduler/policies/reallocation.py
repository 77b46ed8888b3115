"""The common part of policies that hand out all GPUs again in every round (Gavel's, Sia's).

All movable running jobs and all waiting jobs compete for the idle resources and those of the movable jobs. A job that gets the
GPUs that it has runs on without a stop. The others are stopped, and their resources are promised to the jobs that come. A
running job that is unsound, or has an unsound speed, runs on. Speeds come from the common estimator, by GPU type. These policies
do not distinguish nodes of a type, so speeds measured on single nodes are not used.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scheduler.copies import replace
from scheduler.errors import InvalidJob
from scheduler.estimator.estimator import Estimator
from scheduler.estimator.layers import EntityLayer
from scheduler.model import Chosen, Configuration, Job, Node, Placement, Ranked, Running, Share
from scheduler.placement.feasibility import Level, usable
from scheduler.placement.free_capacity import Offer
from scheduler.placement.running import Factors, Participant
from scheduler.replan.participants import present_configuration, released
from scheduler.replan.realise import realise

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from scheduler.placement.ledger import Ledger
    from scheduler.placement.outcome import DraftPlan
    from scheduler.placement.work import Work


def speeds_by_type(work: Work) -> Estimator:
    """The planning's estimator without speeds of single nodes."""
    known = work.estimator
    by_type = [layer for layer in known.layers if not isinstance(layer, EntityLayer)]
    return Estimator(by_type, known.nodes, known.signatures)


@dataclass(slots=True)
class Reallocation:
    """One round. `moving`: the factor on the value of a running job if it is moved; if it is None, or raises InvalidJob
    because a speed is unsound, the job runs on.
    """

    work: Work
    draft: DraftPlan
    estimator: Estimator
    moving: Callable[[Running, Job], float | None]
    running: dict[int, Participant] = field(init=False)
    idle: Ledger = field(init=False)
    """Idle resources, and those of the running jobs that take part: the round hands them out."""
    jobs: dict[int, Ranked] = field(init=False)
    """By id: first the running jobs, then the queue in its order."""

    def __post_init__(self) -> None:
        self.running = {live.job: found for live in self.work.state.running if (found := self._taking_part(live))}
        self.idle = released(self.work.ledger, (each.live for each in self.running.values()))
        waiting = [ranked for ranked in self.work.queue if not ranked.job.is_cpu]
        everybody = [*(each.ranked for each in self.running.values()), *waiting]
        self.jobs = {ranked.job.id: ranked for ranked in everybody}

    @property
    def waiting(self) -> set[int]:
        """The ids of the waiting jobs that compete."""
        return self.jobs.keys() - self.running.keys()

    def _taking_part(self, live: Running) -> Participant | None:
        job, ledger = live.description, self.work.ledger
        if job is None or not live.gpus or live.stopping or job.promise is not None:
            return None
        if not all(piece.node in ledger.free for piece in live.pieces):
            return None
        try:
            self.work.check(job)
            factor = self.moving(live, job)
            present = present_configuration(live, job, ledger, self.estimator)
        except InvalidJob:
            return None
        if factor is None or present.throughput <= 0:
            return None
        return Participant(
            live, Ranked(self.work.tied(job), 0, 0.0, 0.0, 0.0, ""), present, Factors(factor, factor), 0.0
        )

    def usable(self, job: Job, nodes: Sequence[Node]) -> set[int] | None:
        """The nodes that the job may use; None = all of these nodes, the common case."""
        capacities = [self.idle.free[node.id] for node in nodes]
        found = {
            free.node.id
            for free in capacities
            if usable(
                job, Offer(free.node, len(free.gpus), len(free.cores), free.memory_mib, free.tenants), Level.TRUST
            )
        }
        return None if len(found) == len(nodes) else found

    def stays(self, number: int, spots: Mapping[int, int]) -> bool:
        """Whether the job already has these GPUs, by node."""
        running = self.running.get(number)
        return running is not None and spots == {share.node: share.gpus for share in running.present.shares}

    def take(self, number: int, spots: Mapping[int, int], least: float | None = None) -> None:
        """Give the job these GPUs, by node. `least`: the throughput that its gain divides by; None = its own throughput.

        The job gets nothing if cores, memory or its tenant's quota are not enough, which these policies do not look at, or
        if its speed over these nodes is unsound.
        """
        job = self.jobs[number].job
        try:
            stays = self.stays(number, spots)
            configuration = self.running[number].present if stays else self._configuration(job, spots)
        except InvalidJob as error:
            if number not in self.running:
                self.draft.invalid[number] = error
            return
        if self.idle.shortfall(configuration, job.tenant) is not None:
            return
        self.idle.take(configuration, job.tenant)
        gain = 1.0 if least is None else configuration.throughput / least
        self.draft.candidates[number] = (configuration,)
        self.draft.objective.least[number] = configuration.throughput if least is None else least
        self.draft.chosen[number] = Chosen(configuration, Placement(number, ()), gain, 1.0, 1)

    def realise(self) -> None:
        """Turn the differences to the running jobs into stops, promises and starts."""
        realise(replace(self.work, participants=self.running), self.draft)

    def _configuration(self, job: Job, spots: Mapping[int, int]) -> Configuration:
        """The configuration on these GPUs: each part gets the cores that the job wants, at most its share of the node's cores."""
        capacities = [self.idle.free[node] for node in spots]
        total = sum(spots.values())
        shares = tuple(
            Share(
                free.node.id,
                gpus,
                max(
                    job.least_cores * gpus, min(job.cores * gpus, free.node.cores_total * gpus // free.node.gpus_total)
                ),
                -(-job.memory_mib * gpus // total),
            )
            for free, gpus in zip(capacities, spots.values(), strict=True)
        )
        estimate = self.estimator.per_gpu(job, capacities[0].node, total, len(spots))
        return Configuration(job.id, shares, estimate.per_gpu * total, estimate.source)
