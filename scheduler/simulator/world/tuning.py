"""The simulated service tunes the cores of running training jobs (CODA V-B; algorithms.md section 8), if the world says so.

A job with `hints` begins with the cores of `estimator.cores.begin_cores`, as in the service, by its owner's past when it arrives.
None of its cores is a hard need, because the cores in a trace are what another system gave the job, not what its tenant wished.
The search is `estimator.tuner.step`, as in the service: a step each `tune_step_s` from the start on. It takes idle cores of the
job's node and gives cores back at once. The result is used for the job's restarts and for its owner's later jobs. A job is
searched again when it runs with another number of GPUs or on another node, and when a slowing there has ended. An attempt that is
spread over nodes is not tuned: it can use at most two cores per GPU. Utilisation is the law's rate, which for such jobs is the
part of full speed (CODA V-B: both change together), without the attempt's noise. CPU use follows the law of such a job; of others
it is not known.

The law (`CoreBound`; CODA III-B, IV): with c cores a GPU and the optimum c*, a job works at `c/c*` of its full speed up to c*
("a linear relationship", V-B) and loses `OVER` of it for each core beyond ("drops slightly"). Spread over nodes it needs at most
two cores per GPU, and the network slows it by 25 to 30 % (IV-B.2). If the jobs on a node together ask for more than `SATURATED`
of its memory bandwidth, the job loses speed, up to its `sensitivity` when they ask for twice that (IV-C.2, Fig. 7). One unit of
work is one second at full speed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.estimator import tuner
from scheduler.estimator.cores import begin_cores, is_corrected, start_cores
from scheduler.estimator.tuner import AGAIN_S, Room, search_begin
from scheduler.parameters import Parameters
from scheduler.simulator.world.truth import Spot

if TYPE_CHECKING:
    from scheduler.simulator.cluster import Cluster
    from scheduler.simulator.load import Load
    from scheduler.simulator.past import Past


OVER = 0.004
SATURATED = 0.75
SPREAD_FACTOR, SPREAD_CORES = 0.725, 2


@dataclass(frozen=True, slots=True)
class CoreBound:
    """`optimum`: cores a GPU; `sensitivity`: the part of the speed that memory traffic can take."""

    optimum: int
    sensitivity: float = 0.0

    def rate(self, spots: Sequence[Spot]) -> float:
        spread = len(spots) > 1
        optimum = min(self.optimum, SPREAD_CORES) if spread else self.optimum
        speed = min(self._speed(spot, optimum) for spot in spots)
        return speed * (SPREAD_FACTOR if spread else 1.0)

    def used(self, cores: float) -> float:
        """Return the busy ones of a GPU's loading cores: speed rises in a line to the optimum, so none beyond works."""
        return min(cores, float(self.optimum))

    def _speed(self, spot: Spot, optimum: int) -> float:
        cores = spot.cores / spot.gpus
        by_cores = cores / optimum if cores <= optimum else max(0.5, 1.0 - OVER * (cores - optimum))
        beyond = min(1.0, max(0.0, spot.pressure / SATURATED - 1.0))
        return by_cores * spot.speed * (1.0 - self.sensitivity * beyond)


def is_tuned(load: Load) -> bool:
    """Whether the present attempt is tuned."""
    attempt = load.attempt
    if load.cores is None or attempt is None or len(attempt.pieces) != 1:
        return False
    return load.tuned_on != (attempt.pieces[0].node, attempt.gpus)


def wish(load: Load, past: Past, tuning: Mapping[str, int]) -> int | None:
    """The cores per GPU to ask for when the job arrives; None = as many as its tenant asked for.

    `tuning`: see `estimator.cores.is_corrected`.
    """
    job, hints = load.traced.job, load.traced.hints
    if hints is None or job.is_cpu:
        return None
    start = start_cores(
        category=job.category,
        tuned=past.tuned_cores(job.tenant if job.owner is None else job.owner),
        pipelined=hints.pipelined,
        model_parameters=hints.model_parameters,
        heavy_between_iterations=hints.heavy_between_iterations,
    )
    corrected = is_corrected(job.requirement, job.gpu_types, tuning)
    return begin_cores(start, asked=job.cores, corrected=corrected)


def step(load: Load, cluster: Cluster, utilisation: float, parameters: Parameters, now_s: float) -> bool:
    """End a step with this utilisation, and take or give back cores for the next. Returns whether the search is over."""
    attempt = load.attempt
    assert attempt is not None
    assert load.cores is not None
    piece = attempt.pieces[0]
    if attempt.tuning is None:
        fast, there = parameters.tune_faster == "on", cluster.nodes[piece.node].cores_total
        attempt.tuning = search_begin(load.cores, len(piece.cores), there, attempt.gpus, fast=fast)
        load.searched_s = now_s - parameters.tune_step_s
    room = Room(attempt.gpus, len(piece.cores), len(cluster.idle[piece.node].cores))
    law = load.traced.law
    used = law.used(room.held / room.gpus) * room.gpus if isinstance(law, CoreBound) else None
    attempt.tuning, cores = tuner.step(
        attempt.tuning, room, min(1.0, utilisation), band=parameters.noise_band, used=used
    )
    attempt.exchange(cluster, cores, load.traced.job.tenant)
    load.cores = attempt.tuning.wish
    load.tuned_on = (piece.node, attempt.gpus) if attempt.tuning.is_done else None
    return attempt.tuning.is_done


def again(load: Load, node: int, now_s: float) -> bool:
    """Forget the search of an attempt on the node, where a slowing has ended now. Returns whether it is to be made again."""
    attempt = load.attempt
    if attempt is None or load.tuned_on != (node, attempt.gpus) or len(attempt.pieces) != 1:
        return False
    if now_s - load.searched_s < AGAIN_S or attempt.pieces[0].node != node:
        return False
    load.tuned_on = attempt.tuning = None
    return True
