"""The simulated service tunes training jobs' cores on line (CODA V-B; algorithms.md section 8), where the world says so.

A job with `hints` asks for N_start cores a GPU, by its owner's past, whatever its tenant asked, and none of them is hard.
Where it started with fewer, for want of idle ones, it gets more at each step as they become idle. With all it asked for
it is searched for the optimum, a step each `STEP_S`, cores being taken from what is idle on its node and given back at
once; what cannot be had ends the search. The result serves the job's restarts and its owner's later jobs. An attempt
that is spread over nodes is left as it is: at most two cores a GPU serve it. Utilisation is the law's rate, which for
such jobs is the part of full speed (CODA V-B: they move alike), without the attempt's noise.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from scheduler.estimator.cores import start_cores
from scheduler.estimator.tuner import STEP_S, Way, advance, begin

if TYPE_CHECKING:
    from scheduler.estimator.tuner import Tuning
    from scheduler.simulator.cluster import Cluster
    from scheduler.simulator.load import Load
    from scheduler.simulator.past import Past

__all__ = ["STEP_S", "is_tuned", "step", "wish"]


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


def step(load: Load, cluster: Cluster, utilisation: float) -> bool:
    """One step is over, at this utilisation; take or give cores for the next. Whether the search is over."""
    attempt = load.attempt
    assert attempt is not None
    assert load.cores is not None
    piece, gpus = attempt.pieces[0], attempt.gpus
    within = len(piece.cores) + len(cluster.idle[piece.node].cores)
    if attempt.tuning is None:
        if len(piece.cores) < load.cores * gpus:
            attempt.exchange(cluster, min(within, load.cores * gpus), load.traced.job.tenant)
            return False
        attempt.tuning = begin(load.cores, max(load.cores, cluster.nodes[piece.node].cores_total // gpus))
    attempt.tuning = _within(advance(attempt.tuning, min(1.0, utilisation)), within // gpus)
    attempt.exchange(cluster, attempt.tuning.cores * gpus, load.traced.job.tenant)
    load.cores, load.tuned = attempt.tuning.best, attempt.tuning.is_done
    return load.tuned


def _within(tuning: Tuning, most: int) -> Tuning:
    """The search goes on only with what can be had."""
    if tuning.cores <= most:
        return tuning
    return replace(tuning, cores=min(tuning.best, most), way=Way.DONE)
