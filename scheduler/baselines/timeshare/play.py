"""One round of time-sharing: everybody who may be moved and everybody who waits compete for all GPUs anew, then nodes.

A round begins with a re-plan; between rounds nothing is given out but to CPU jobs, which Gavel does not have and which are
placed as under Hops. Whoever runs on goes on without a stop (the lease is renewed); the others are stopped, and what they
free is promised to who comes. Speeds are the common estimator's, by GPU type, on as few nodes as can hold the job.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from statistics import median_low
from typing import TYPE_CHECKING

from scheduler.baselines.timeshare.placing import Want, place
from scheduler.errors import InvalidJob
from scheduler.estimator.layers import EntityLayer, Estimator
from scheduler.model import Configuration, Placement, Share
from scheduler.placement import turn
from scheduler.placement.feasibility import Level, Offer, usable
from scheduler.replan.participants import Participant, present_configuration, released
from scheduler.replan.realise import realise
from scheduler.work import Chosen, Outcome, Ranked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from scheduler.model import Job, Node, Running
    from scheduler.placement.ledger import Ledger
    from scheduler.work import Work

    Chooser = Callable[["Round"], Mapping[int, str]]


def play(work: Work, choose: Chooser) -> Outcome:
    """The planning's outcome. `choose`: the GPU type of each job that shall run in the round that begins."""
    outcome = Outcome(window_gpus=work.ledger.gpus_up)
    if work.replan:
        begins = Round(work, outcome)
        began_s = work.clock()
        chosen = choose(begins)
        outcome.solver = replace(outcome.solver, solve_s=work.clock() - began_s, participants=len(begins.running))
        begins.give(chosen)
    turn.place_cpu_jobs((ranked for ranked in work.queue if ranked.job.is_cpu), work, outcome)
    return outcome


def size_of(job: Job) -> int:
    """What a job of several sizes is given, always: the median, the smaller one of two."""
    return median_low(job.requirement)


@dataclass(slots=True)
class Round:
    """Who competes for what. `jobs`: those that run first, then the queue in its order; `gpus`: by type."""

    work: Work
    outcome: Outcome
    running: dict[int, Participant] = field(init=False)
    idle: Ledger = field(init=False)
    nodes: dict[str, list[Node]] = field(init=False)
    jobs: dict[int, Ranked] = field(init=False)
    _by_type: Estimator = field(init=False)

    def __post_init__(self) -> None:
        known = self.work.estimator
        layers = [layer for layer in known.layers if not isinstance(layer, EntityLayer)]
        self._by_type = Estimator(layers, known.nodes, known.signatures)
        self.running = {live.job: found for live in self.work.state.running if (found := self._taking_part(live))}
        self.idle = released(self.work.ledger, (each.live for each in self.running.values()))
        self.nodes = {}
        for room in self.idle.rooms.values():
            if room.node.gpus_total and room.node.gpu_type is not None:
                self.nodes.setdefault(room.node.gpu_type, []).append(room.node)
        waiting = [ranked for ranked in self.work.queue if not ranked.job.is_cpu]
        self.outcome.window |= {ranked.job.id for ranked in waiting}
        everybody = [*(each.ranked for each in self.running.values()), *waiting]
        self.jobs = {ranked.job.id: ranked for ranked in everybody}

    def _taking_part(self, live: Running) -> Participant | None:
        job, ledger = live.description, self.work.ledger
        if job is None or not live.gpus or live.stopping or job.promise is not None:
            return None
        if not all(piece.node in ledger.rooms for piece in live.pieces):
            return None
        try:
            present = present_configuration(live, job, ledger, self._by_type)
        except InvalidJob:
            return None
        return Participant(live, Ranked(job, 0, 0.0, 0.0, 0.0, ""), present, 1.0, 0.0)

    @property
    def gpus(self) -> dict[str, int]:
        """What is handed out: idle GPUs and those of who competes."""
        return {name: sum(len(self.idle.rooms[node.id].gpus) for node in nodes) for name, nodes in self.nodes.items()}

    def now_on(self, number: int) -> str | None:
        """The GPU type that the job runs on; None = it waits."""
        running = self.running.get(number)
        return None if running is None else self.idle.rooms[running.present.shares[0].node].node.gpu_type

    def throughput(self, job: Job) -> dict[str, float]:
        """By GPU type that the job may use, on its size. A job that nothing is known of is set aside as invalid."""
        size, found = size_of(job), dict[str, float]()
        try:
            for name, nodes in self.nodes.items():
                if not job.gpu_types or name in job.gpu_types:
                    parts = -(-size // max(node.gpus_total for node in nodes))
                    found[name] = self._by_type.per_gpu(job, nodes[0], size, parts).per_gpu * size
        except InvalidJob as error:
            if job.id not in self.running:
                self.outcome.invalid[job.id] = error
            return {}
        return found

    def received_s(self, number: int, since_s: float) -> dict[str, float]:
        """Seconds that the job has run on each GPU type since then."""
        job, found = self.jobs[number].job, dict[str, float]()
        for span in reversed(job.spans):
            if span.ended_s <= since_s:
                break
            name = span.gpu_type or ""
            found[name] = found.get(name, 0.0) + span.ended_s - max(span.began_s, since_s)
        if (running := self.running.get(number)) is not None and (name := self.now_on(number) or ""):
            found[name] = found.get(name, 0.0) + self.work.now_s - max(running.live.started_s, since_s)
        return found

    def give(self, chosen: Mapping[int, str]) -> None:
        """Find nodes, and turn the difference to what runs into stops, promises and starts."""
        for name, nodes in self.nodes.items():
            wants = [self._want(number, name) for number in self.jobs if chosen.get(number) == name]
            free = {node.id: len(self.idle.rooms[node.id].gpus) for node in nodes}
            # Who stays takes its own first: no core or memory of it can then be another's.
            spots_of = sorted(place(wants, free).items(), key=lambda each: not self._stays(*each))
            for number, spots in spots_of:
                self._take(number, spots)
        realise(replace(self.work, participants=self.running), self.outcome)

    def _want(self, number: int, gpu_type: str) -> Want:
        ranked, running = self.jobs[number], self.running.get(number)
        held = None
        if running is not None and running.present.gpus == size_of(ranked.job) and self.now_on(number) == gpu_type:
            held = {share.node: share.gpus for share in running.present.shares}
        return Want(number, size_of(ranked.job), held, self._usable(ranked.job, self.nodes[gpu_type]))

    def _usable(self, job: Job, nodes: Sequence[Node]) -> set[int] | None:
        rooms = [self.idle.rooms[node.id] for node in nodes]
        found = {
            room.node.id
            for room in rooms
            if usable(
                job, Offer(room.node, len(room.gpus), len(room.cores), room.memory_mib, room.tenants), Level.TRUST
            )
        }
        return None if len(found) == len(nodes) else found

    def _stays(self, number: int, spots: Mapping[int, int]) -> bool:
        running = self.running.get(number)
        return running is not None and spots == {share.node: share.gpus for share in running.present.shares}

    def _take(self, number: int, spots: Mapping[int, int]) -> None:
        job = self.jobs[number].job
        stays = self._stays(number, spots)
        configuration = self.running[number].present if stays else self._configuration(job, spots)
        if self.idle.shortfall(configuration, job.tenant) is not None:
            return  # cores, memory or the tenant's quota, which the fractions know nothing of
        self.idle.take(configuration, job.tenant)
        self.outcome.candidates[number] = (configuration,)
        self.outcome.least[number] = configuration.throughput
        self.outcome.chosen[number] = Chosen(configuration, Placement(number, ()), 1.0, 1.0, 1)

    def _configuration(self, job: Job, spots: Mapping[int, int]) -> Configuration:
        """Each part gets the cores that the job wants, at most its share of the node's."""
        rooms = [self.idle.rooms[node] for node in spots]
        total = sum(spots.values())
        shares = tuple(
            Share(
                room.node.id,
                gpus,
                max(
                    job.least_cores * gpus, min(job.cores * gpus, room.node.cores_total * gpus // room.node.gpus_total)
                ),
                -(-job.memory_mib * gpus // total),
            )
            for room, gpus in zip(rooms, spots.values(), strict=True)
        )
        estimate = self._by_type.per_gpu(job, rooms[0].node, total, len(spots))
        return Configuration(job.id, shares, estimate.per_gpu * total, estimate.source)
