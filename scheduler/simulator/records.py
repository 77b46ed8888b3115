"""The records of a simulation: one for each job and one for each planning. The report is computed only from these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class JobRecord:
    """The life of a job. Times are seconds on the virtual clock; None = it did not happen."""

    job: int
    name: str
    tenant: int
    category: str | None
    requirement: tuple[int, ...]
    submitted_s: float
    started_s: float | None  # of its first attempt
    ended_s: float | None
    state: str  # COMPLETED | FAILED | UNFINISHED | INVALID
    wait_s: float  # eligible and not running, over all attempts
    age_s: float | None  # expected run time as the scheduler fixed it at the first start: LR = wait_s / age_s
    ran_s: float  # running, over all attempts, restarts included
    gpu_s: float  # GPU-seconds held
    restarts: int
    gpus_first: int  # size of the first attempt
    gpus_mean: float  # time-weighted over its attempts
    ideal_s: float | None  # its time on an equal part of the cluster (finish-time fairness): see `report`


@dataclass(frozen=True, slots=True)
class PlanningRecord:
    """The cluster as a planning left it, until the next record. `solve_s` is wall time."""

    at_s: float
    replan: bool
    queue_gpu_jobs: int  # eligible and still waiting, asking for GPUs
    queue_cpu_jobs: int
    gpus_allocated: int
    cores_allocated: int
    fragments: int  # all kinds (section 10)
    placed: int
    stopped: int
    rate: float  # work done a second, in the units of the trace's laws over the job's mean: see `report`
    solve_s: float  # the whole planning
    gap: float | None = None
    fragments_cores: int = 0  # of them those of the first kind: idle for want of cores
    fragments_kept: int = 0  # of them those that a reservation or a promise keeps for another job


@dataclass(frozen=True, slots=True)
class Run:
    """One policy's simulation. `ended_s`: when the last job ended or the simulation was cut off."""

    policy: str
    seed: int
    gpus_total: int
    cores_total: int
    tick_s: float
    replan_s: float
    jobs: Sequence[JobRecord]
    plannings: Sequence[PlanningRecord]
    ended_s: float
    parameters: Mapping[str, object] = field(default_factory=dict)
