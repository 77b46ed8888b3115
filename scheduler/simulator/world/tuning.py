"""The simulated service tunes training jobs' cores on line (CODA V-B; algorithms.md section 8), where the world says so.

A job with `hints` asks for N_start cores a GPU, by its owner's past, and none of them is hard: what a trace says of its
cores is what another system gave it, no tenant's wish. The search itself is `estimator.tuner.step`, as in the service.
Where it started with fewer, for want of idle ones, it gets more at each step as they become idle. With all it asked for
it is searched for the optimum, a step each `tune_step_s`, cores being taken from what is idle on its node and given back at
once; what cannot be had ends the search. The result serves the job's restarts and its owner's later jobs. An attempt
that is spread over nodes is left as it is: at most two cores a GPU serve it. Utilisation is the law's rate, which for
such jobs is the part of full speed (CODA V-B: they move alike), without the attempt's noise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.estimator import tuner
from scheduler.estimator.cores import start_cores
from scheduler.estimator.tuner import Room, Way, gather

if TYPE_CHECKING:
    from scheduler.parameters import Parameters
    from scheduler.simulator.cluster import Cluster
    from scheduler.simulator.load import Load
    from scheduler.simulator.past import Past


def is_tuned(load: Load) -> bool:
    """Whether the present attempt is one that steps are made for."""
    attempt = load.attempt
    return load.cores is not None and not load.tuned and attempt is not None and len(attempt.pieces) == 1


def wish(load: Load, past: Past, large_model_parameters: int) -> int | None:
    """The cores a GPU to ask for at the job's arrival; None = what its tenant asked."""
    job, hints = load.traced.job, load.traced.hints
    if hints is None or job.is_cpu:
        return None
    return start_cores(
        category=job.category,
        tuned=past.tuned_cores(job.tenant if job.owner is None else job.owner),
        pipelined=hints.pipelined,
        model_parameters=hints.model_parameters,
        large_model_parameters=large_model_parameters,
        heavy_between_iterations=hints.heavy_between_iterations,
    )


def step(load: Load, cluster: Cluster, utilisation: float, parameters: Parameters) -> bool:
    """One step is over, at this utilisation; take or give cores for the next. Whether the search is over."""
    attempt = load.attempt
    assert attempt is not None
    assert load.cores is not None
    piece = attempt.pieces[0]
    if attempt.tuning is None:
        fast = parameters.tune_faster == "on"
        attempt.tuning = gather(load.cores, cluster.nodes[piece.node].cores_total, attempt.gpus, fast=fast)
    room = Room(attempt.gpus, len(piece.cores), len(cluster.idle[piece.node].cores))
    attempt.tuning, cores = tuner.step(attempt.tuning, room, min(1.0, utilisation), band=parameters.tune_band)
    attempt.exchange(cluster, cores, load.traced.job.tenant)
    if attempt.tuning.way is not Way.GATHER:
        load.cores, load.tuned = attempt.tuning.best, attempt.tuning.is_done
    return load.tuned
