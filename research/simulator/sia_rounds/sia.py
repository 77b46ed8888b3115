"""Sia's side: each round its program over all jobs, with goodputs of the moment (SOSP '23, 3.4; the public simulator).

The program is `policies.rivals.typelevel.program`, with what the public simulator does beside the paper: values A^p are
rounded to 0.01; a job that is restarting keeps what it has; the restart factor counts what Sia takes a restart to cost, which
of two applications is less than it does cost; for a job that was stopped and waits it is 1.
Placing needs no search: with Sia's sizes everybody fits whom a type has GPUs for, and nodes of a type do not differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from research.simulator.sia_rounds.speeds import MOST_GPUS
from scheduler.policies.rivals.typelevel import program
from scheduler.policies.rivals.typelevel.program import Bucket, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from research.simulator.sia_rounds.job import RoundJob
    from research.simulator.sia_rounds.speeds import Places, Speeds
    from scheduler.simulator.world.profiled import Shape

TAKEN_FOR_S = {"cifar10": 30.0, "yolov3": 45.0}
"""What Sia takes a restart to cost, where that is not what it costs."""

NO_LIMIT_S = 1e6


@dataclass(frozen=True, slots=True)
class Rounded(program.Row):
    """A row whose A^p are rounded."""

    def values(self) -> dict[Kind, float]:
        exact = program.Row.values(self)
        return {
            kind: program.ALLOCATION_INCENTIVE - round(program.ALLOCATION_INCENTIVE - value, 2)
            for kind, value in exact.items()
            if value > 0
        }


class SiaRounds:
    """Sia in rounds: it decides for all jobs in every round."""

    name = "sia"

    def __init__(self, places: Places, speeds: Speeds) -> None:
        self._places, self._speeds = places, speeds
        self._buckets = {each: Bucket(each, gpus) for each, (gpus, _) in places.kinds.items()}
        self._gpus = {self._buckets[each]: gpus * count for each, (gpus, count) in places.kinds.items()}

    def decide(self, jobs: Sequence[RoundJob], now_s: float) -> Mapping[int, tuple[str, Shape]]:
        """What each of the live jobs has from now on; who is not named has nothing."""
        left, given = dict(self._gpus), {}
        for job in jobs:
            if job.shape and job.restart_left_s > 0:
                left[self._buckets[job.gpu_type]] -= job.gpus
                given[job.id] = (job.gpu_type, job.shape)
        rows = [self._row(job, now_s) for job in jobs if job.id not in given]
        chosen = program.solve(rows, left, time_limit_s=NO_LIMIT_S, seed=0)
        for number, kind in chosen.kinds.items() if chosen is not None else ():
            given[number] = (kind.bucket.gpu_type, self._places.filled(kind.bucket.gpu_type, kind.gpus))
        return given

    def _row(self, job: RoundJob, now_s: float) -> Rounded:
        goodput = self._goodput(job) or {Kind(bucket, 1): 1.0 for bucket in self._buckets.values()}
        present = Kind(self._buckets[job.gpu_type], job.gpus) if job.shape else None
        cost_s = TAKEN_FOR_S.get(job.training.name, job.training.restart_s)
        factor = program.restart_factor(now_s - job.submitted_s, job.restarts, cost_s)
        return Rounded(job.id, 1, goodput, present, 1.0 if present is None else factor)

    def _goodput(self, job: RoundJob) -> dict[Kind, float]:
        """On as few nodes as hold the GPUs; {}: nothing is known."""
        _, table = self._speeds.table(job)
        found = {}
        for gpu_type, bucket in self._buckets.items():
            for size in self._places.sizes(gpu_type, MOST_GPUS):
                where = (gpu_type, size, len(self._places.filled(gpu_type, size)))
                if where in table:
                    found[Kind(bucket, size)] = table[where]
        return found
