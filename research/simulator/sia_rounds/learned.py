"""Speeds that a job has shown itself: its step model, fitted anew with each configuration that it has run with.

Before a job has run nothing is known of it, and one GPU is open to it. Then twice the GPUs that it has had are, on each GPU type.
On a type where it has not run it is as much faster as single GPUs of the two types are, which is known of the application.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from research.simulator.sia_rounds.fitted import best, fitted
from research.simulator.sia_rounds.speeds import MOST_GPUS

if TYPE_CHECKING:
    from research.simulator.sia_rounds.fitted import StepModel
    from research.simulator.sia_rounds.job import RoundJob
    from research.simulator.sia_rounds.speeds import Places, Table
    from research.simulator.sia_rounds.training import EpochTraining, Steps

GROWTH = 2


class Learned:
    """What each job's own measurements tell."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._models: dict[tuple[object, ...], StepModel] = {}
        self._tables: dict[int, tuple[object, Table]] = {}

    def table(self, job: RoundJob) -> tuple[object, Table]:
        key = (job.id, job.noise, sum(map(len, job.seen.values())))
        if job.id not in self._tables or self._tables[job.id][0] != key:
            self._tables[job.id] = (key, self._table(job))
        return self._tables[job.id]

    def _table(self, job: RoundJob) -> Table:
        known = {each: self._model(job, each) for each in self._places.kinds if job.seen.get(each)}
        if job.noise is None or not known:
            return {}
        training, most = job.training, most_gpus(job, list(self._places.kinds))
        found: dict[tuple[str, int, int], float] = {}
        for gpu_type in self._places.kinds:
            source = gpu_type if gpu_type in known else next(iter(known))
            ratio = single_gpu(training, gpu_type) / single_gpu(training, source)
            for size in self._places.every_size(min(most, self._places.all_gpus(gpu_type))):
                tried = training.tried(size, *training.shares(source))
                for shape in self._places.shapes(gpu_type, size, training.application.speeds[gpu_type].most_nodes):
                    nodes = max(len(shape), len(self._places.filled(source, size)))
                    rate, _ = best(known[source], job.noise, training.smallest, nodes, size, tried)
                    found[gpu_type, size, len(shape)] = rate * ratio / training.application.slowdown
        return found

    def is_sure(self, job: RoundJob, where: tuple[str, int, int]) -> bool:
        gpu_type, gpus, nodes = where
        return any(seen[:2] == (nodes, gpus) for seen in job.seen.get(gpu_type, ()))

    def steps(self, job: RoundJob) -> Steps:
        training, gpus = job.training, job.gpus
        least, _ = training.shares(job.gpu_type)
        most = training.application.speeds[job.gpu_type].blend(job.shape).largest
        if job.noise is None or not job.seen.get(job.gpu_type):
            return training.steps(min(training.largest, max(training.smallest, least * gpus)), gpus, most)
        model = self._model(job, job.gpu_type)
        return best(model, job.noise, training.smallest, len(job.shape), gpus, training.tried(gpus, least, most))[1]

    def _model(self, job: RoundJob, gpu_type: str) -> StepModel:
        """Measurements are the same for each job of an application, so that the model is, too."""
        key = (job.training.name, gpu_type, *job.seen[gpu_type])
        if key not in self._models:
            self._models[key] = fitted(job.seen[gpu_type])
        return self._models[key]


def most_gpus(job: RoundJob, gpu_types: list[str]) -> int:
    """The GPUs that are open to the job on any type: twice the most that it has had on one."""
    training = job.training
    return max(
        min(GROWTH * max((gpus for _, gpus, _ in job.seen.get(each, ())), default=0), MOST_GPUS, training.room(each))
        for each in gpu_types
    )


def single_gpu(training: EpochTraining, gpu_type: str) -> float:
    """Samples a second of one GPU with the most samples a step."""
    curve = training.application.speeds[gpu_type].shapes[(1,)]
    return curve.batches[-1] / max(curve.steps_s)
