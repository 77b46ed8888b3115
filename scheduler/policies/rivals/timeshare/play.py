"""One round of time-sharing: all movable and all waiting jobs compete for all GPUs again, and then nodes are found.

A round begins with a re-plan. Between rounds only CPU jobs are placed; Gavel does not have them, and they are placed as under
Hops. A job that runs in the next round too goes on without a stop (its lease is renewed). The others are stopped, and their GPUs
are promised to the jobs that come. Speeds come from the common estimator, by GPU type, on as few nodes as can hold the job.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from statistics import median_low
from typing import TYPE_CHECKING

from scheduler.copies import replace
from scheduler.errors import InvalidJob
from scheduler.model import Job, Node, Ranked, Running, SolverFigures
from scheduler.placement import turn
from scheduler.placement.outcome import DraftPlan, Obstacles, Outcome, Standings
from scheduler.policies.reallocation import Reallocation, speeds_by_type

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from scheduler.estimator.estimator import Estimator
    from scheduler.placement.running import Participant
    from scheduler.placement.work import Work

    Chooser = Callable[["Round"], "Choice"]


@dataclass(frozen=True, slots=True)
class Want:
    """A job and its GPUs. `held`: node -> GPUs that it runs on; `nodes`: where it may be, None = anywhere."""

    job: int
    gpus: int
    held: Mapping[int, int] | None = None
    nodes: Collection[int] | None = None


def place(wants: Sequence[Want], free: Mapping[int, int]) -> dict[int, dict[int, int]]:
    """Node -> GPUs of each job, as Gavel does it (OSDI '20, section 5). `free`: idle GPUs of each node, and those of these jobs.

    The largest jobs come first. Among jobs of one size those that ran on this type keep their GPUs, if no larger job has taken
    them (their lease is renewed). Then the others are placed: on one node where one has room, on the one where they displace
    fewest and that is fullest; else over as few nodes as hold them. So a job may be moved for a larger one, and no GPU of the
    round is lost to fragments.
    """
    left = dict(free)
    staying = dict.fromkeys(left, 0)  # GPUs of those who may stay and are not placed yet
    for want in wants:
        for node, gpus in (want.held or {}).items():
            staying[node] += gpus
    placed: dict[int, dict[int, int]] = {}
    by_size = sorted(wants, key=lambda each: -each.gpus)  # stable: the caller's order among equals
    for _, group in groupby(by_size, key=lambda each: each.gpus):
        same = list(group)
        for want in same:
            if want.held is not None:
                for node, gpus in want.held.items():
                    staying[node] -= gpus
                if all(left[node] >= gpus for node, gpus in want.held.items()):
                    _put(want, dict(want.held), left, placed)
        for want in same:
            if want.job not in placed and (spots := _find(want, left, staying)):
                _put(want, spots, left, placed)
    return placed


def _put(want: Want, spots: dict[int, int], left: dict[int, int], placed: dict[int, dict[int, int]]) -> None:
    placed[want.job] = spots
    for node, gpus in spots.items():
        left[node] -= gpus


def _find(want: Want, left: Mapping[int, int], staying: Mapping[int, int]) -> dict[int, int]:
    open_to = {node: gpus for node, gpus in left.items() if gpus and (want.nodes is None or node in want.nodes)}
    if sum(open_to.values()) < want.gpus:
        return {}
    one = [
        (max(0, want.gpus - (gpus - staying[node])), gpus, node) for node, gpus in open_to.items() if gpus >= want.gpus
    ]
    if one:
        return {min(one)[2]: want.gpus}
    spots: dict[int, int] = {}
    for node in sorted(open_to, key=lambda each: (-open_to[each], each)):
        if (missing := want.gpus - sum(spots.values())) <= 0:
            break
        spots[node] = min(open_to[node], missing)
    return dict(sorted(spots.items()))


def play(work: Work, choose: Chooser) -> Outcome:
    """The planning's outcome. `choose`: the GPU type of each job that shall run in the round that begins."""
    draft = DraftPlan()
    choice, inside = Choice({}), set[int]()
    if work.replan:
        begins = Round(work, draft)
        began_s = work.clock()
        choice = choose(begins)
        solve_s, inside = work.clock() - began_s, begins.all_gpus.waiting
        choice = replace(choice, figures=replace(choice.figures, solve_s=solve_s, participants=len(begins.running)))
        begins.give(choice.gpu_types)
    turns = turn.place_cpu_jobs((each for each in work.queue if each.job.is_cpu), work, draft)
    standings = Standings(inside | turns.came, window_gpus=work.ledger.gpus_up)
    late = Obstacles(out_of_time=choice.out_of_time | turns.out_of_time)
    return Outcome(draft, standings, late, choice.figures)


@dataclass(frozen=True, slots=True)
class Choice:
    """The GPU type of each job that shall run, by id, the solve's figures, and the jobs that no time was left for."""

    gpu_types: Mapping[int, str]
    figures: SolverFigures = field(default_factory=SolverFigures)
    out_of_time: frozenset[int] = frozenset()


def size_of(job: Job) -> int:
    """The one size of a job with several: the median, the smaller one of two."""
    return median_low(job.requirement)


@dataclass(slots=True)
class Round:
    """Which jobs compete for which GPUs. `nodes` and `gpus`: by type."""

    work: Work
    draft: DraftPlan
    nodes: dict[str, list[Node]] = field(init=False)
    estimator: Estimator = field(init=False)
    all_gpus: Reallocation = field(init=False)

    def __post_init__(self) -> None:
        self.nodes = {}
        for free in self.work.ledger.free.values():
            if free.node.gpus_total and free.node.gpu_type is not None:
                self.nodes.setdefault(free.node.gpu_type, []).append(free.node)
        self.estimator = speeds_by_type(self.work)
        self.all_gpus = Reallocation(self.work, self.draft, self.estimator, self._moving)

    def _moving(self, live: Running, job: Job) -> float | None:
        """Every job with sound speeds takes part, and is worth as much elsewhere: stops are not counted.

        One on nodes of several types runs on: Gavel has no such allocation.
        """
        self._throughput(job)
        idle = self.work.ledger.free
        return 1.0 if len({idle[piece.node].node.gpu_type for piece in live.pieces}) == 1 else None

    @property
    def running(self) -> Mapping[int, Participant]:
        return self.all_gpus.running

    @property
    def jobs(self) -> Mapping[int, Ranked]:
        """Those that run first, then the queue in its order."""
        return self.all_gpus.jobs

    @property
    def gpus(self) -> dict[str, int]:
        """Idle GPUs and those of the jobs that compete."""
        idle = self.all_gpus.idle.free
        return {name: sum(len(idle[node.id].gpus) for node in nodes) for name, nodes in self.nodes.items()}

    def now_on(self, number: int) -> str | None:
        """The GPU type that the job runs on; None = it waits."""
        running = self.running.get(number)
        return None if running is None else self.all_gpus.idle.free[running.present.shares[0].node].node.gpu_type

    def throughput(self, job: Job) -> dict[str, float]:
        """The throughput of the job's size by GPU type. A job with an unsound speed is noted as invalid: {}."""
        try:
            return self._throughput(job)
        except InvalidJob as error:
            self.draft.invalid[job.id] = error
            return {}

    def _throughput(self, job: Job) -> dict[str, float]:
        size, found = size_of(job), dict[str, float]()
        for name, nodes in self.nodes.items():
            if job.may_use(name):
                parts = -(-size // max(node.gpus_total for node in nodes))
                found[name] = self.estimator.per_gpu(job, nodes[0], size, parts).per_gpu * size
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
        """Find nodes, and turn the differences to the running jobs into stops, promises and starts."""
        for name, nodes in self.nodes.items():
            wants = [self._want(number, name) for number in self.jobs if chosen.get(number) == name]
            free = {node.id: len(self.all_gpus.idle.free[node.id].gpus) for node in nodes}
            # A job that stays takes its own first: no core or memory of it can then be another's.
            spots_of = sorted(place(wants, free).items(), key=lambda each: not self.all_gpus.stays(*each))
            for number, spots in spots_of:
                self.all_gpus.take(number, spots)
        self.all_gpus.realise()

    def _want(self, number: int, gpu_type: str) -> Want:
        ranked, running = self.jobs[number], self.running.get(number)
        held = None
        if running is not None and running.present.gpus == size_of(ranked.job) and self.now_on(number) == gpu_type:
            held = {share.node: share.gpus for share in running.present.shares}
        return Want(number, size_of(ranked.job), held, self.all_gpus.usable(ranked.job, self.nodes[gpu_type]))
