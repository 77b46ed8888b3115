"""Berth's side: its own planning, with its own rounds, on a snapshot of the jobs in Sia's simulator.

As in our engine: a planning when jobs came or ended, or when the last one asked for the next; a re-plan each `replan_s`, or
when a planning ends the round early; one more at once when stops freed what is promised. All that happens at the ends of
Sia's rounds. One tenant. A job tells its whole work and how far it is, which Sia does not ask for. Speeds that a fit foretells
are told as such (`Cell.count` 0).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scheduler.copies import replace
from scheduler.estimator.measured import cell_key, signature_of
from scheduler.fairness.arrays import LARGE_FROM_GPUS, PastJob, peak_gpus
from scheduler.fairness.lrf import BY_SAMPLES, is_guess
from scheduler.model import ArrayHistory, ClusterState, Job, Promise, Running
from scheduler.model.speeds import Cell, CellKey, Knowledge
from scheduler.planning.inputs import SnapshotInput
from scheduler.planning.plan import REPEATS, decide
from scheduler.policies.registry import POLICIES
from scheduler.simulator.cluster import Cluster
from scheduler.simulator.rounds import Rounds
from scheduler.simulator.world.truth import World

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from research.simulator.sia_rounds.job import RoundJob
    from research.simulator.sia_rounds.speeds import Places, Speeds
    from scheduler.fairness.lrf import Age
    from scheduler.model import Node, Placement
    from scheduler.parameters import Parameters
    from scheduler.planning.decided import Decided
    from scheduler.simulator.world.profiled import Shape

TENANT = 1
NO_LIMIT_S = 1e9


@dataclass(slots=True)
class _Seen:
    """A job as Berth knows it, beside what the simulator knows. `began_s`: since when it has had its placement."""

    job: RoundJob
    placement: Placement | None = None
    began_s: float = 0.0
    promise: Promise | None = None
    age_s: float | None = None
    age_guessed: bool = False


class BerthRounds:
    """Berth in rounds."""

    name = "berth"

    def __init__(self, nodes: Sequence[Node], places: Places, speeds: Speeds, parameters: Parameters) -> None:
        self._places, self._speeds = places, speeds
        self._parameters = replace(parameters, time_limit_s=NO_LIMIT_S)
        self._cluster = Cluster(World(nodes))
        self._rounds = Rounds(parameters.replan_s)
        self._seen: dict[int, _Seen] = {}
        self._past: dict[int, PastJob] = {}  # all jobs so far: no trace lasts for a week
        self._arrays = ArrayHistory()
        self._cells: dict[object, dict[CellKey, Cell]] = {}
        self._due_s, self._plannings = math.inf, 0

    def decide(self, jobs: Sequence[RoundJob], now_s: float) -> Mapping[int, tuple[str, Shape]]:
        """What each of the live jobs has from now on; who is not named has nothing."""
        live = {job.id: job for job in jobs}
        changed = live.keys() ^ self._seen.keys()
        for gone in self._seen.keys() - live.keys():
            self._free(self._seen.pop(gone))
            self._past[gone] = replace(self._past[gone], ended_s=now_s)
        for number in live.keys() - self._seen.keys():
            self._seen[number] = _Seen(live[number])
            self._past[number] = PastJob(now_s, None, self._sizes(live[number])[0])
        if changed or min(self._rounds.next_s, self._due_s) <= now_s:
            self._due_s = math.inf
            for _ in range(REPEATS):
                if not self._plan_once(now_s):
                    break
        return {number: self._held(seen.placement) for number, seen in self._seen.items() if seen.placement is not None}

    def _held(self, placement: Placement) -> tuple[str, Shape]:
        nodes = self._cluster.nodes
        return nodes[placement.pieces[0].node].gpu_type or "", tuple(len(piece.gpus) for piece in placement.pieces)

    def _free(self, seen: _Seen) -> None:
        if seen.placement is not None:
            self._cluster.give(seen.placement.pieces, TENANT)
            seen.placement = None

    def _plan_once(self, now_s: float) -> bool:
        """Make a planning and do what it says. Returns whether another should follow at once."""
        replan = now_s >= self._rounds.next_s
        if replan:
            self._rounds.begin(now_s)
            large = (past for past in self._past.values() if past.gpus >= LARGE_FROM_GPUS)
            self._arrays = ArrayHistory(large_gpus_peak=peak_gpus(large) if self._past else None)
        rng = np.random.default_rng([0, self._plannings])
        self._plannings += 1
        inputs, policy = SnapshotInput(self._state(now_s)), POLICIES[self._parameters.policy]
        decided = decide(inputs, now_s, self._parameters, policy, rng, _standing, replan=replan, began_s=0.0)
        again = self._apply(decided, now_s)
        if decided.replan:
            self._rounds.replanned_s = now_s
        if decided.round_is_over(now_s):
            self._rounds.end_early(now_s)
            return True
        if decided.replan_s is not None:
            self._due_s = min(self._due_s, decided.replan_s)
        return again

    def _apply(self, decided: Decided, now_s: float) -> bool:
        draft = decided.outcome.draft
        for number in decided.lapsed:
            self._seen[number].promise = None
        again = decided.window_ran_out and bool(draft.chosen)
        for number, chosen in draft.chosen.items():
            self._start(self._seen[number], chosen.placement, decided, now_s)
        for order in draft.stops:
            self._free(self._seen[order.job])
        for given in draft.promises:
            self._seen[given.job].promise = Promise(given.shares, now_s, given.cause)
        return again or bool(draft.stops)

    def _start(self, seen: _Seen, placement: Placement, decided: Decided, now_s: float) -> None:
        if seen.age_s is None or seen.age_guessed:
            age: Age = decided.line.age(self._waiting(seen))
            if seen.age_s is None or age.source == BY_SAMPLES:
                seen.age_s, seen.age_guessed = age.age_s, is_guess(seen.job.training.samples, age.source)
        self._cluster.take(placement.pieces, TENANT)
        seen.placement, seen.promise, seen.began_s = placement, None, now_s
        if self._held(placement) == (seen.job.gpu_type, seen.job.shape):
            seen.began_s = seen.job.placed_s

    def _state(self, now_s: float) -> ClusterState:
        every = self._seen.values()
        return ClusterState(
            nodes=[self._cluster.node_now(number) for number in self._cluster.nodes],
            jobs=[self._waiting(seen) for seen in every if seen.placement is None],
            running=[_running(seen, self._waiting(seen), now_s) for seen in every if seen.placement is not None],
            array_history=self._arrays,
            knowledge=Knowledge(self._known(every)),
            replanned_s=self._rounds.replanned_s,
        )

    def _known(self, every: Iterable[_Seen]) -> dict[CellKey, Cell]:
        found: dict[CellKey, Cell] = {}
        for seen in every:
            key, table = self._speeds.table(seen.job)
            if key not in self._cells:
                name = signature_of(TENANT, str(key), 0)
                samples = {where: rate * seen.job.training.smallest for where, rate in table.items()}
                self._cells[key] = {
                    cell_key(name, *where): Cell(int(self._speeds.is_sure(seen.job, where)), rate / where[1])
                    for where, rate in samples.items()
                }
            found |= self._cells[key]
        return found

    def _sizes(self, job: RoundJob) -> tuple[int, ...]:
        return tuple(sorted({size for _, size, _ in self._speeds.table(job)[1]})) or (1,)

    def _waiting(self, seen: _Seen) -> Job:
        """The job as it waits, or of a running one as if it waited."""
        job = seen.job
        key, _ = self._speeds.table(job)
        sizes = self._sizes(job)
        return Job(
            id=job.id,
            tenant=TENANT,
            requirement=sizes,
            submitted_s=job.submitted_s,
            wait_s=job.waited_s,
            age_s=seen.age_s,
            age_guessed=seen.age_guessed,
            model_label=str(key),
            total_samples=job.training.samples,
            movable=True,
            promise=seen.promise,
            attained_gpu_s=job.gpu_s,
            done_fraction=job.done_fraction,
            most_gpus=job.most_gpus,
            restarts=job.restarts,
            restart_s=job.training.restart_s if job.restarts else None,
        )


def _running(seen: _Seen, job: Job, now_s: float) -> Running:
    assert seen.placement is not None
    return Running(
        job.id,
        TENANT,
        seen.placement.pieces,
        seen.began_s,
        job.requirement,
        elastic=len(job.requirement) > 1,
        movable=True,
        expected_end_s=None if seen.age_s is None else now_s + seen.age_s * (1.0 - job.done_fraction),
        description=job,
        restarts=job.restarts,
        first_started_s=seen.job.first_placed_s if seen.job.first_placed_s is not None else now_s,
        restart_s=job.restart_s,
    )


def _standing() -> float:
    """The clock of a planning: it stands still."""
    return 0.0
