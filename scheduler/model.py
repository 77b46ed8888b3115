"""What the scheduler is told and what it answers: frozen values, no behaviour beyond arithmetic on their own fields.

Ids are the caller's integers; they order nodes ("id order" of section 5) and break ties. Times are seconds on the
caller's clock, memory is MiB. Whoever builds these values fills them; `scheduler.validation` checks them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from enum import StrEnum
from typing import Any

from scheduler.estimator.tables import Knowledge

Clock = Callable[[], float]
"""A monotonic clock in seconds. The core times its solves with it and never reads one of its own."""

Figures = Mapping[str, Any]
"""JSON-able figures behind a reason; they never hold an id or a name of another tenant."""


class Reason(StrEnum):
    """Why a job is not placed (algorithms.md section 7): the fixed vocabulary, verbatim on page, REST and CLI."""

    OUTSIDE_WINDOW = "outside-window"
    TENANT_QUOTA = "tenant-quota"
    NO_NODE_WITH_TYPE = "no-node-with-type"
    NOT_ENOUGH_IDLE_GPUS = "not-enough-idle-gpus"
    NOT_ENOUGH_MEMORY = "not-enough-memory"
    NOT_ENOUGH_CORES = "not-enough-cores"
    GPUS_SCATTERED = "gpus-scattered"
    LOST_TO_HIGHER_PRIORITY = "lost-to-higher-priority"
    DEPENDENCY = "dependency"
    HELD = "held"
    PROFILING = "profiling"
    SOLVER_LIMIT = "solver-limit"
    INVALID = "invalid"
    NOT_PLANNED_YET = "not-planned-yet"
    NODES_UNAVAILABLE = "nodes-unavailable"
    RESERVED = "reserved"
    TENANT_NOT_TRUSTED = "tenant-not-trusted"
    CHECKPOINT_ELSEWHERE = "checkpoint-elsewhere"


class Result(StrEnum):
    """What a planning decided about a job."""

    PLACED = "placed"
    WAITING = "waiting"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class Node:
    """One server. `idle_*` is what this planning may hand out there; not `schedulable` = it gets no new jobs now."""

    id: int
    name: str
    gpu_type: str | None = None
    gpus_total: int = 0
    idle_gpus: tuple[int, ...] = ()
    cores_total: int = 0
    idle_cores: tuple[int, ...] = ()
    memory_total_mib: int = 0
    idle_memory_mib: int = 0
    storage_domain: str = ""  # "" = the node's own disk, read by nobody else
    schedulable: bool = True
    unavailable_because: str = ""  # e.g. "unreachable", "draining"; shown with `nodes-unavailable`
    single_account: bool = False  # every job there runs as one account
    trusts_tenants: bool = True  # the operator declared that tenants may share that account
    tenants: frozenset[int] = frozenset()  # whose jobs are on the node now
    speed: float = 1.0  # entity factor: median over jobs of its throughput over its type's; used in 5 % steps

    @property
    def domain(self) -> str:
        """The storage domain in which a checkpoint written here can be read."""
        return self.storage_domain or f"node:{self.id}"

    @property
    def exclusive_tenant(self) -> bool:
        """One tenant at a time: a shared account without declared trust (architecture.md, single-account mode)."""
        return self.single_account and not self.trusts_tenants


@dataclass(frozen=True, slots=True)
class Share:
    """A configuration's part of one node, in numbers only."""

    node: int
    gpus: int
    cores: int
    memory_mib: int


@dataclass(frozen=True, slots=True)
class Promise:
    """Resources kept for a job until it starts there: idle ones, and those that stopping attempts will free.

    `given_s`: when, on the snapshot's clock; `cause`: the stop's, as in `StopOrder`. See `scheduler.replan.promises`.
    """

    shares: tuple[Share, ...]
    given_s: float
    cause: str

    @property
    def gpus(self) -> int:
        return sum(share.gpus for share in self.shares)

    @property
    def cores(self) -> int:
        return sum(share.cores for share in self.shares)


@dataclass(frozen=True, slots=True)
class Span:
    """Time that a job has had on GPUs of a type: an attempt that is over."""

    gpu_type: str | None
    gpus: int
    began_s: float
    ended_s: float


@dataclass(frozen=True, slots=True)
class Job:
    """A waiting job. `cores` wanted per GPU, or in all for a CPU job (`requirement == (0,)`); `memory_mib` in all.

    `least_cores` per GPU are a hard need. Section 5 asks for one; a scheduler that takes what tenants ask as it stands, as
    CODA's FIFO and DRF do, has them all hard.
    """

    id: int
    tenant: int
    requirement: tuple[int, ...]  # R: the GPU counts the tenant accepts, ascending
    submitted_s: float = 0.0
    gpu_types: frozenset[str] = frozenset()  # empty = any
    cores: int = 1
    memory_mib: int = 0
    priority: int = 0  # among the tenant's own jobs only
    wait_s: float = 0.0  # eligible waiting time so far, over all attempts
    age_s: float | None = None  # fixed at the first start; None = estimated anew by each planning
    owner: int | None = None  # the submitter, whose record corrects `expected_duration_s`; None = the tenant
    category: str | None = None
    model_label: str | None = None  # with the tenant: the signature under which its speeds are known
    expected_duration_s: float | None = None
    total_samples: float | None = None
    eligible: bool = True
    ineligible_reason: Reason | None = None  # `held` or `dependency` when not eligible
    ineligible_figures: Figures = field(default_factory=dict)  # e.g. {"depends_on": [12, 13]}
    checkpoint_domain: str | None = None  # a resumed attempt may only go where its checkpoint can be read
    movable: bool = False  # checkpointable or restartable: may be stopped, so it may always borrow (section 4)
    promise: Promise | None = None  # what a planning kept for it, as stored with the job until it starts or it lapses
    gave_back: bool = False  # its last attempt was stopped by a call-back: it stands at the head of its array
    attained_gpu_s: float = 0.0  # GPU-seconds it has had over all attempts (LAS)
    done_fraction: float = 0.0  # of its work, 0 to 1, kept over restarts (SRTF, finish-time fairness)
    instrumented: bool = False  # it tells its iterations' times, so its speed can be profiled (section 2)
    profiled_since_s: float | None = None  # start of its first profile, on the snapshot's clock; None = none was made
    least_cores: int = 1  # per GPU; at most `cores`
    most_gpus: int = 0  # that any of its attempts ran on; 0 = it has not run (Sia lets a job grow from there)
    restarts: int = 0  # how often a planner has stopped it, that it starts anew (Sia's restart factor)
    restart_s: float | None = None  # what a restart costs it, measured; None = the knob `restart_cost_s`
    spans: tuple[Span, ...] = ()  # its earlier attempts of the last hours, oldest first (Gavel's rounds received)

    @property
    def is_cpu(self) -> bool:
        return self.requirement == (0,)

    @property
    def min_gpus(self) -> int:
        """R_1."""
        return self.requirement[0]

    @property
    def min_cores(self) -> int:
        """The hard need: `least_cores` per GPU of R_1; all of them for a CPU job."""
        return self.cores if self.is_cpu else self.min_gpus * self.least_cores


@dataclass(frozen=True, slots=True)
class Piece:
    """A job's concrete part of one node: GPU indices, core ids, memory."""

    node: int
    gpus: tuple[int, ...]
    cores: tuple[int, ...]
    memory_mib: int


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a job runs: one piece per node, in node order (rank 0 first)."""

    job: int
    pieces: tuple[Piece, ...]

    @property
    def gpus(self) -> int:
        return sum(len(piece.gpus) for piece in self.pieces)

    @property
    def cores(self) -> int:
        return sum(len(piece.cores) for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class Profiled:
    """What a profile measures: a waiting job's signature on a GPU type, and until when it may run, however it fares."""

    job: int
    signature: str
    gpu_type: str
    until_s: float


@dataclass(frozen=True, slots=True)
class Running:
    """A live attempt, starting or running. Its resources are absent from the nodes' idle ones.

    A profile is one too; its `job` is an id that no job has (below 0), for the job that it measures waits.
    Of a movable job `description` is the job as if it waited, with its `promise` where it has one: a job that is being
    stopped has its next resources promised to it before it waits. The service sets it for elastic ones alone.
    """

    job: int
    tenant: int
    pieces: tuple[Piece, ...]
    started_s: float = 0.0  # start of this attempt: since then it has had its present configuration
    requirement: tuple[int, ...] = ()
    elastic: bool = False
    movable: bool = False  # may be stopped to give back what it borrowed
    expected_end_s: float | None = None  # on the snapshot's clock; None = not known
    description: Job | None = None  # None unless it is movable
    restarts: int = 0  # N: how often the job was started anew after a planner's stop
    first_started_s: float | None = None  # of the job's first attempt; T counts from it. None = this is the first
    restart_s: float | None = None  # S: what a restart costs this job, measured; None = the knob `restart_cost_s`
    stopping: bool = False  # a plan has ordered it to stop, and it has not ended yet
    profiled: Profiled | None = None  # set for profiles alone

    @property
    def is_cpu(self) -> bool:
        return self.requirement == (0,)

    @property
    def gpus(self) -> int:
        return sum(len(piece.gpus) for piece in self.pieces)

    @property
    def cores(self) -> int:
        return sum(len(piece.cores) for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class Configuration:
    """A possible placement `{node: (gpus, cores, memory)}` with its estimated throughput T and where that came from."""

    job: int
    shares: tuple[Share, ...]
    throughput: float
    source: str

    @property
    def gpus(self) -> int:
        return sum(share.gpus for share in self.shares)

    @property
    def cores(self) -> int:
        return sum(share.cores for share in self.shares)


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant. Quotas are hard caps on what its running jobs hold at one time; None = none."""

    id: int
    weight: float = 1.0
    gpu_quota: int | None = None
    core_quota: int | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """A job that ended, for RAQLR: its waiting time and its age."""

    ended_s: float
    wait_s: float
    age_s: float


@dataclass(frozen=True, slots=True)
class RunHistory:
    """What earlier jobs took, in medians, for the fallbacks of `age` (section 3). Absent keys mean "no such past"."""

    declared_ratio: Mapping[int, float] = field(default_factory=dict)  # owner (or tenant) -> actual / declared
    tenant_category_s: Mapping[tuple[int, str | None], float] = field(default_factory=dict)
    category_s: Mapping[str | None, float] = field(default_factory=dict)
    cluster_s: float | None = None


@dataclass(frozen=True, slots=True)
class ArrayHistory:
    """What the arrays are divided by: a summary of the last week (section 4). Empty = no history."""

    tuned_cores_per_gpu: Sequence[float] = ()  # of the GPU jobs tuned in it
    large_gpus_peak: int | None = None  # the most GPUs that jobs of 4 GPUs or more held plus queued at one time


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The snapshot a planning is made from. `gpu_speeds`: relative speed of each known GPU type (default 1).

    `gpu_weights`: what a GPU of a type counts in a tenant's share (operator's, default 1).
    """

    nodes: Sequence[Node]
    jobs: Sequence[Job]
    running: Sequence[Running] = ()
    tenants: Sequence[Tenant] = ()
    gpu_speeds: Mapping[str, float] = field(default_factory=dict)
    ended: Sequence[Ended] = ()
    history: RunHistory = field(default_factory=RunHistory)
    gpu_weights: Mapping[str, float] = field(default_factory=dict)
    array_history: ArrayHistory = field(default_factory=ArrayHistory)
    knowledge: Knowledge = field(default_factory=Knowledge)
    profiles_tried: frozenset[tuple[str, str]] = frozenset()  # (signature, GPU type) not to be profiled again yet
    replanned_s: float | None = None  # when the last re-plan was made; None = never


class Side(StrEnum):
    """On which side of its array's window a queued job stands (section 4)."""

    FRONT = "front"
    BACKFILL = "backfill"
    OUTSIDE = "outside"


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a queued job stands in its array: side of the window, and its turn there (1 = picked first; None = none)."""

    array: str
    side: Side
    turn: int | None = None


@dataclass(frozen=True, slots=True)
class WindowView:
    """An array's window as it was filled: GPUs (the `cpu` array: cores) at which it closes, idle ones, and the picks."""

    array: str
    capacity: int
    idle: int
    counted: int  # the picks' minimum requirements, as far as quotas let them be used
    jobs: int
    front_jobs: int


@dataclass(frozen=True, slots=True)
class ShareView:
    """A tenant's share of the GPUs or of the CPU array's cores: what it holds, and with its jobs picked in this planning.

    Units are weighted GPUs, or cores; the share is units / capacity / weight (weighted DRF, section 4).
    """

    tenant: int
    resource: str  # "gpus" | "cores"
    held: float
    with_picks: float
    capacity: float
    weight: float


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided about one job, and why: the very object the job's page shows."""

    job: int
    result: Result
    reason: Reason | None  # None when placed
    figures: Figures
    rank: int | None = None  # 1 = first in the queue; None = not in the queue (held, dependency, invalid ...)
    latency_ratio: float | None = None
    wait_s: float = 0.0
    age_s: float | None = None
    age_source: str = ""
    inside_window: bool = False
    eligible: bool = False  # as of the end of this planning: waiting from now on counts as wait_s
    placement: Placement | None = None
    standing: Standing | None = None  # None = not in the queue
    explain: Callable[[int], Figures] | None = field(default=None, repr=False, compare=False)

    @property
    def detail(self) -> Figures:
        """Shares, window, candidates and what bound them: shape in `scheduler.detail`. Computed anew when asked."""
        return {} if self.explain is None else self.explain(self.job)


@dataclass(frozen=True, slots=True)
class SolverFigures:
    """How the placement was found. `incumbent`: whose plan was taken (`ilp`, `greedy`; `none` = nothing to solve)."""

    formulation: str = "none"
    status: str = "not-needed"  # optimal | gap | time-limit | failed | not-needed
    incumbent: str = "none"
    candidates: int = 0  # configurations generated
    variables: int = 0
    constraints: int = 0
    objective: float | None = None
    bound: float | None = None
    gap: float | None = None  # proven, relative: of the jobs that were looked at
    unseen: int = 0  # jobs of the window that time ended before: neither objective nor bound speaks of them
    gap_allowed: float | None = None
    topped_up: int = 0  # jobs placed greedily on what the solve left
    participants: int = 0  # running jobs that took part in the re-plan
    left_out: int = 0  # those that could have, but for the size of the cluster: see `participants.gather`
    order_s: float = 0.0  # drawing up the queue
    window_s: float = 0.0  # filling the windows
    build_s: float = 0.0
    solve_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Metrics:
    """The cluster as this planning leaves it (section 10). Rates are None where there is nothing to divide by."""

    gpus_total: int
    gpus_allocated: int
    gpus_idle: int
    cores_total: int
    cores_allocated: int
    gpu_active_rate: float | None
    cpu_active_rate: float | None
    fragments_cores: int  # kind 1
    fragments_scattered: int  # kind 2
    fragment_rate: float | None
    queue_length: int  # eligible jobs still waiting
    waiting_by_reason: Mapping[str, int]
    live_lr_mean: float | None
    live_lr_max: float | None
    raqlr: float | None  # None = no job ended in the last `raqlr_hours`
    raqlr_jobs: int
    raqlr_hours: float


@dataclass(frozen=True, slots=True)
class Fault:
    """A node or job that was set aside, with the error's sentence."""

    subject: str
    key: int | str
    detail: str


@dataclass(frozen=True, slots=True)
class Kept:
    """A reservation (section 4): nodes kept for a job until it is expected to start there."""

    job: int
    nodes: tuple[int, ...]
    until_s: float


@dataclass(frozen=True, slots=True)
class StopOrder:
    """An attempt to be asked to stop; its job waits again afterwards. Causes, as the job's page says them:

    `call-back` = what it borrowed goes back to its owner `for_job`; `resize` and `move` = it gets `to_gpus` GPUs elsewhere
    or on the same nodes, promised to it; `preempt` = it gets none, for jobs that weigh more (`to_gpus` 0).
    """

    job: int
    cause: str  # call-back | resize | move | preempt
    for_job: int | None
    from_gpus: int
    to_gpus: int


@dataclass(frozen=True, slots=True)
class Promised:
    """A promise to be stored with a job, waiting or stopping, until it starts, ends or the promise lapses."""

    job: int
    shares: tuple[Share, ...]
    cause: str


@dataclass(frozen=True, slots=True)
class ProfileOrder:
    """A waiting job's few iterations on one GPU of a type, in scratch, for `limit_s` at most (section 2)."""

    job: int
    signature: str
    gpu_type: str
    piece: Piece
    limit_s: float


@dataclass(frozen=True, slots=True)
class Plan:
    """A planning's whole answer: one decision per job of the snapshot, in queue order, then those not in the queue.

    Whoever applies it starts the placements, asks the attempts of `stops` to stop, stores `promises` with their jobs and
    drops those of `lapsed`. `replan`: running jobs took part.
    """

    policy: str
    now_s: float
    decisions: tuple[Decision, ...]
    solver: SolverFigures
    metrics: Metrics
    queue_length: int  # jobs that took part in the order, before placing
    window_jobs: int
    window_gpus: int  # the GPUs that closed the window
    total_s: float = 0.0
    faults: tuple[Fault, ...] = ()
    reservations: tuple[Kept, ...] = ()
    stops: tuple[StopOrder, ...] = ()
    promises: tuple[Promised, ...] = ()
    lapsed: tuple[int, ...] = ()  # jobs whose promise is given up
    replan: bool = False
    replan_early: bool = False  # the round ends here: a re-plan should follow at once
    windows: tuple[WindowView, ...] = ()
    shares: tuple[ShareView, ...] = ()
    profiles: tuple[ProfileOrder, ...] = ()  # to be started beside the placements

    @property
    def placements(self) -> tuple[Placement, ...]:
        return tuple(decision.placement for decision in self.decisions if decision.placement is not None)

    def as_json(self) -> str:
        """Canonical JSON, details included: the same plan is the same bytes."""
        return json.dumps(self, default=_as_mapping, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _as_mapping(value: object) -> dict[str, Any]:
    """A dataclass by its fields' names; a decision with its detail in the place of what computes it."""
    if not is_dataclass(value):
        raise TypeError(f"{value!r} is no part of a plan")
    names = {each.name: getattr(value, each.name) for each in fields(value)}
    if isinstance(value, Decision):
        del names["explain"]
        names["detail"] = value.detail
    return names
