"""One round of Sia (SOSP '23, 3): all movable and all waiting jobs get configurations again, and then nodes are found.

A round begins with a re-plan. Between rounds only CPU jobs are placed (3.1); Sia does not have them, and they are placed as under
Hops. A job that still saves or resumes runs on, as in the public simulator. Speeds come from the common estimator, by GPU type.
Sia does not distinguish nodes of a type, so speeds measured on single nodes are not used.

If the program is not solved in time, the round changes nothing: running jobs keep their GPUs, and waiting jobs go on waiting.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scheduler.copies import replace
from scheduler.errors import InvalidJob
from scheduler.estimator.measured import signature
from scheduler.model import Configuration, Job, Node, Running, SolverFigures
from scheduler.placement import turn
from scheduler.placement.outcome import DraftPlan, Obstacles, Outcome, Standings
from scheduler.policies.reallocation import Reallocation, speeds_by_type
from scheduler.policies.rivals.typelevel import placer, program
from scheduler.policies.rivals.typelevel.program import Bucket, Kind, buckets_of, kinds_of, within_growth

if TYPE_CHECKING:
    from scheduler.estimator.estimator import Estimator
    from scheduler.placement.work import Work


def play(work: Work, *, every_size: bool) -> Outcome:
    """The round's outcome. `every_size`: configurations for each requirement, as Hops ran Sia, not Sia's own sizes."""
    draft = DraftPlan()
    figures, inside, late = SolverFigures(), set[int](), frozenset[int]()
    if work.replan:
        began_s = work.clock()
        round_ = _Round(work, draft, every_size=every_size)
        inside, built_s = round_.all_gpus.waiting, work.clock()
        taken = round_.give()
        late = frozenset(inside) if taken is None else late
        figures = replace(round_.figures(taken), build_s=built_s - began_s, solve_s=work.clock() - built_s)
    turns = turn.place_cpu_jobs((each for each in work.queue if each.job.is_cpu), work, draft)
    standings = Standings(inside | turns.came, window_gpus=work.ledger.gpus_up)
    return Outcome(draft, standings, Obstacles(out_of_time=late | turns.out_of_time), figures)


@dataclass(slots=True)
class _Round:
    work: Work
    draft: DraftPlan
    every_size: bool
    all_gpus: Reallocation = field(init=False)
    estimator: Estimator = field(init=False)
    buckets: dict[Bucket, list[Node]] = field(init=False)
    rows: list[program.Row] = field(init=False)
    _speeds: dict[tuple[str, tuple[int, ...], frozenset[str]], dict[Kind, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.buckets = buckets_of(free.node for free in self.work.ledger.free.values())
        self.estimator = speeds_by_type(self.work)
        self.all_gpus = Reallocation(self.work, self.draft, self.estimator, self._moving)
        self.rows = [row for each in self.all_gpus.jobs.values() if (row := self._row(each.job)) is not None]

    def _moving(self, live: Running, job: Job) -> float | None:
        """A job that still saves and resumes runs on, and so does one on nodes of several buckets: Sia has no such kind."""
        idle = self.work.ledger.free
        if len({_bucket(idle[piece.node].node) for piece in live.pieces}) > 1:
            return None
        self._goodput(job)
        if live.restarts and self.work.now_s - live.started_s < self._restart_s(job):
            return None
        return self._restart_factor(job)

    def _restart_s(self, job: Job) -> float:
        return self.work.parameters.restart_cost_s if job.restart_s is None else job.restart_s

    def _restart_factor(self, job: Job) -> float:
        """The program's factor; the first start costs nothing."""
        if not job.most_gpus:
            return 1.0
        return program.restart_factor(self.work.now_s - job.submitted_s, job.restarts, self._restart_s(job))

    def _row(self, job: Job) -> program.Row | None:
        try:
            speeds = self._goodput(job)
        except InvalidJob as error:
            self.draft.invalid[job.id] = error
            return None
        running = self.all_gpus.running.get(job.id)
        present = None if running is None else self._kind(running.present)
        allowed = set(within_growth(list(speeds), job.most_gpus))
        goodput = {kind: speed for kind, speed in speeds.items() if kind in allowed}
        if running is not None and present is not None:
            goodput.setdefault(present, running.present.throughput)
        if not goodput:
            return None
        return program.Row(job.id, job.min_gpus, goodput, present, self._restart_factor(job))

    def _goodput(self, job: Job) -> dict[Kind, float]:
        """By configuration; worked out once for all jobs of a signature with the same requirement set and GPU types."""
        key = (signature(job), job.requirement, job.gpu_types)
        if key not in self._speeds:
            self._speeds[key] = {
                kind: self.estimator.per_gpu(job, self.buckets[kind.bucket][0], kind.gpus, kind.nodes).per_gpu
                * kind.gpus
                for kind in kinds_of(job, self.buckets, every_size=self.every_size)
            }
        return self._speeds[key]

    def _kind(self, present: Configuration) -> Kind:
        return Kind(_bucket(self.work.ledger.free[present.shares[0].node].node), present.gpus)

    def give(self) -> program.Chosen | None:
        """Solve, place, and turn the differences to the running jobs into stops, promises and starts; None = no time for it."""
        idle = self.all_gpus.idle.free
        free = {each: {node.id: len(idle[node.id].gpus) for node in nodes} for each, nodes in self.buckets.items()}
        seed = int(self.work.rng.integers(2**31))
        taken = program.solve(
            self.rows,
            {each: sum(gpus.values()) for each, gpus in free.items()},
            time_limit_s=max(0.0, self.work.remaining_s),
            seed=seed,
        )
        if taken is None:
            return None
        for bucket, gpus in free.items():
            chosen = {job: kind for job, kind in taken.kinds.items() if kind.bucket == bucket}
            # In the queue's order, running jobs first.
            wants = [self._want(number, chosen[number]) for number in self.all_gpus.jobs if number in chosen]
            for job, spots in placer.place(wants, gpus, bucket.node_gpus).items():
                least = min(self._goodput(self.all_gpus.jobs[job].job).values(), default=None)
                self.all_gpus.take(job, spots, least)
        self.all_gpus.realise()
        return taken

    def figures(self, taken: program.Chosen | None) -> SolverFigures:
        return SolverFigures(
            formulation="type-level",
            status="time-limit" if taken is None else "gap" if taken.gap else "optimal",
            incumbent="none" if taken is None else "ilp",
            candidates=0 if taken is None else taken.columns,
            variables=0 if taken is None else taken.columns,
            constraints=0 if taken is None else taken.rows,
            objective=None if taken is None else taken.objective,
            gap=None if taken is None else taken.gap,
            gap_allowed=program.GAP if taken is None else taken.gap_allowed,
            participants=len(self.all_gpus.running),
        )

    def _want(self, number: int, kind: Kind) -> placer.Want:
        running, job = self.all_gpus.running.get(number), self.all_gpus.jobs[number].job
        keeps = running is not None and self._kind(running.present) == kind
        held = {share.node: share.gpus for share in running.present.shares} if running and keeps else None
        return placer.Want(number, kind.gpus, held, self.all_gpus.usable(job, self.buckets[kind.bucket]))


def _bucket(node: Node) -> Bucket:
    return Bucket(node.gpu_type or "", node.gpus_total)
