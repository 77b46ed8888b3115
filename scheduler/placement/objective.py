"""The objective: the gain G of a configuration to its job, times the job's weight (algorithms.md section 6), computed only here.

    G = (T / least) ^ a        a in [`FLATTEST`, 1]

T: the configuration's throughput; least: the smallest of all that the job could have. `linear` (Hops 3.6): a = 1. `efficient`
(ours): the worse the jobs of a planning scale, the flatter G is:

    a = 1 - STEEPNESS * (1 - p) / p        p = mean over the elastic jobs of log(T_max / T_min) / log(R_max / R_min)

p is 1 if twice the GPUs make jobs twice as fast: then a larger size costs nothing, and a is 1. At p = 0.75 (the second four GPUs
add 68 %) a is 0.5: four times the speed has twice the value, so that GPUs go to waiting jobs rather than to jobs that would
use them badly. There is one a for all jobs of a planning: if each job had its own, those that scale well would take the cluster
from the others (docs/evidence/size-worth.md). G rises with T under every a, so a single job still takes all idle GPUs. A restart
pays exactly when it pays in throughput: the share of T that it leaves stands inside the power (`Gain.kept`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from scheduler.errors import InvalidJob
from scheduler.model import Chosen, Configuration, Job, Node, Placement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from scheduler.estimator.estimator import Estimator


STEEPNESS = 1.5
FLATTEST = 0.3
LEAST_SCALING = 0.05
STEEP = 0.8
"""From this exponent on jobs weigh as in Hops."""

SLIGHT_LR = 0.25
"""Differences of latency ratio well below this hardly count where G is flattest: see `Gain.slight`."""


@dataclass(frozen=True, slots=True)
class Gain:
    """G by one exponent."""

    exponent: float = 1.0

    def of(self, ratio: float) -> float:
        """G of throughput over the job's least."""
        return math.pow(ratio, self.exponent)

    def of_all(self, ratios: np.ndarray) -> np.ndarray:
        gains: np.ndarray = np.power(ratios, self.exponent)
        return gains

    @property
    def floor(self) -> float:
        """The quantile of the waiting jobs' weights below which no running job's weight falls.

        From `STEEP` on it is the median, as in Hops. The flatter G is, the lower: then all jobs gain about as much by running
        at all, and the job that waited longest goes first.
        """
        return 0.5 * self._steepness

    @property
    def slight(self) -> float:
        """The constant added to every latency ratio before it weighs (decision 0222); 0 from `STEEP` on, as in Hops.

        With a flat G weights decide sizes. Where few jobs wait, latency ratios are small, and their quotients are accidents: a
        job that came a minute before the planning would weigh sixty times as much as one that came a second before.
        """
        return SLIGHT_LR * (1.0 - self._steepness)

    @property
    def _steepness(self) -> float:
        """From 0 at the flattest G to 1 where jobs weigh as in Hops."""
        return min(1.0, max(0.0, self.exponent - FLATTEST) / (STEEP - FLATTEST))

    def kept(self, factor: float) -> float:
        """The part of G that stays when `factor` of the throughput stays."""
        return math.pow(factor, self.exponent)


LINEAR = Gain()


@dataclass(frozen=True, slots=True)
class Objective:
    """The values of the configurations of a planning: weight * G * factor."""

    gain: Gain = LINEAR
    weights: Mapping[int, float] = field(default_factory=dict)  # job id -> w; 1 for a job that is not in it
    factors: Callable[[Job, Configuration], float] | None = None  # on a borrowed value; None = no factor
    least: dict[int, float] = field(default_factory=dict)
    """Job id -> its smallest throughput, the divisor of G: a stage that generates its candidates adds it."""

    def weight(self, job: int) -> float:
        return self.weights.get(job, 1.0)

    def gain_of(self, configuration: Configuration, others: Sequence[Configuration] = ()) -> float:
        """G of the configuration; for a job that no formulation looked at, over the smallest of the others."""
        return self.gain.of(configuration.throughput / self.least_of(configuration.job, (configuration, *others)))

    def least_of(self, job: int, configurations: Sequence[Configuration]) -> float:
        """The divisor of G: the job's smallest throughput, of these where no formulation looked at it."""
        return self.least.get(job) or min(each.throughput for each in configurations)

    def chosen(self, best: Configuration, placement: Placement, found: Sequence[Configuration]) -> Chosen:
        """The configuration as the choice among those found for its job."""
        return Chosen(best, placement, self.gain_of(best, found), self.weight(best.job), len(found))


def gain_for(jobs: Iterable[Job], nodes: Sequence[Node], estimator: Estimator) -> Gain:
    """The gain for these jobs on these nodes; linear where no job has several sizes."""
    smallest_first = sorted(nodes, key=lambda node: (node.gpus_total, -node.id))
    hosts = list({node.gpu_type: node for node in smallest_first if node.gpu_type}.values())  # the largest of each type
    elastic = (job for job in jobs if len(job.requirement) > 1)
    known = [found for job in elastic if (found := scaling(job, hosts, estimator)) is not None]
    if not known:
        return LINEAR
    p = fmean(known)
    return Gain(max(FLATTEST, 1.0 - STEEPNESS * (1.0 - p) / p))


def scaling(job: Job, hosts: Iterable[Node], estimator: Estimator) -> float | None:
    """How the job scales, p, from its fewest GPUs to its most: the mean over the types it may use; None = not known.

    If its speed is only assumed: to the most GPUs on one node, because the cost of several nodes is not known.
    """
    found = []
    least, known = job.min_gpus, estimator.is_known(job)
    for host in hosts:
        most = max((size for size in job.requirement if known or size <= host.gpus_total), default=0)
        if most <= least or not job.may_use(host.gpu_type):
            continue
        try:
            small, large = (
                estimator.per_gpu(job, host, size, -(-size // host.gpus_total)).per_gpu for size in (least, most)
            )
        except InvalidJob:
            return None
        p = 1.0 + math.log(large / small) / math.log(most / least)
        found.append(min(1.0, max(LEAST_SCALING, p)))
    return fmean(found) if found else None
