"""Jobs as the scheduler knows them, waiting and running, and the reasons why a job waits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from scheduler.model.alike import Alike, alike_of
from scheduler.model.placements import GpuPart, Piece, Share, only_instances, serves

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
    RESTORED = "restored"
    SOFTWARE_MISSING = "software-missing"
    NO_SHARED_GPU = "no-shared-gpu"
    NODES_CLOSE = "nodes-close"  # the last: records keep reasons by their place here


@dataclass(frozen=True, slots=True)
class Promise:
    """Resources kept for a job until it starts there: idle ones, and those that stopping attempts will free.

    `given_s`: when, on the snapshot's clock; `cause`: the stop's, as in `StopOrder`. See `scheduler.replan.promises`.
    `cores_wanted`: the job's wish a GPU when it was given, and still when it starts there; None = not kept.
    """

    shares: tuple[Share, ...]
    given_s: float
    cause: str
    cores_wanted: int | None = None

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

    `least_cores` per GPU are a hard need. Section 5 needs one core; a scheduler that gives tenants exactly what they ask, as
    CODA's FIFO and DRF do, needs all of them.
    """

    id: int
    tenant: int
    requirement: tuple[int, ...]  # R: the GPU counts the tenant accepts, ascending
    submitted_s: float = 0.0
    gpu_types: frozenset[str] = frozenset()  # empty = any whole GPU: see `model.placements`
    cores: int = 1
    memory_mib: int = 0
    priority: int = 0  # among the tenant's own jobs only
    wait_s: float = 0.0  # eligible waiting time so far, over all attempts
    age_s: float | None = None  # fixed at the first start; None = estimated anew by each planning
    age_guessed: bool = False  # `age_s` was fixed before anything was known of its speed: it holds until something is
    owner: int | None = None  # the submitter, whose record corrects `expected_duration_s`; None = the tenant
    category: str | None = None
    model_label: str | None = None  # with the tenant: the signature under which its speeds are known
    expected_duration_s: float | None = None
    limit_s: float | None = None  # its time limit: an attempt is ended by then; None = it has none
    total_samples: float | None = None
    eligible: bool = True
    ineligible_reason: Reason | None = None  # `held`, `dependency`, `restored` or `invalid` when not eligible
    ineligible_figures: Figures = field(default_factory=dict)  # e.g. {"depends_on": [12, 13]}
    checkpoint_domain: str | None = None  # a resumed attempt may only go where its checkpoint can be read
    software: str = ""  # that its nodes must offer (`Node.offers`); "" = nothing
    movable: bool = False  # checkpointable or restartable: may be stopped, so it may always borrow (section 4)
    saves: bool = False  # it writes checkpoints, from which it goes on
    open_until_s: float = -math.inf  # on the snapshot's clock: its nodes must not close before (`planning.closing`)
    promise: Promise | None = None  # of an earlier planning, as stored with the job until it starts or it lapses
    gave_back: bool = False  # its last attempt was stopped by a call-back: it stands at the head of its array
    attained_gpu_s: float = 0.0  # GPU-seconds it has had over all attempts (LAS)
    done_fraction: float = 0.0  # of its work, 0 to 1, kept over restarts (SRTF, finish-time fairness)
    instrumented: bool = False  # it reports the times of its iterations, so its speed can be profiled (section 2)
    profiled_since_s: float | None = None  # start of its first profile, on the snapshot's clock; None = none was made
    least_cores: int = 1  # per GPU; at most `cores`
    asked_cores: int | None = None  # per GPU: what it is to have on a node without tuning; None = `cores` there too
    most_gpus: int = 0  # that any of its attempts ran on; 0 = it has not run (Sia lets a job grow from there)
    restarts: int = 0  # how often a planner has stopped it, that it starts anew (Sia's restart factor)
    restart_s: float | None = None  # the cost of a restart, measured; None = the knob `restart_cost_s`
    spans: tuple[Span, ...] = ()  # its earlier attempts of the last hours, oldest first (Gavel's rounds received)
    part: GpuPart | None = (
        None  # it goes on a shared GPU beside others, and on no other; None = it gets GPUs for itself
    )
    _alike: Alike | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Keep size 1 only where the job asks for instances."""
        if self.gpu_types.__class__ is frozenset and only_instances(self.gpu_types) and self.requirement[:1] == (1,):
            object.__setattr__(self, "requirement", (1,))

    def may_use(self, gpu_type: str | None) -> bool:
        """Whether it is placed on GPUs of the type."""
        return serves(self.gpu_types, gpu_type)

    @property
    def alike(self) -> Alike:
        """Its kind: the same object for every job of its tenant that asks for the same."""
        if (known := self._alike) is not None:
            return known
        found = alike_of(
            (
                self.requirement,
                self.gpu_types,
                self.cores,
                self.least_cores,
                self.memory_mib,
                self.bound,
                self.tenant,
                self.part,
            )
        )
        object.__setattr__(self, "_alike", found)
        return found

    @property
    def bound(self) -> tuple[str | None, str, float]:
        """Its ties to some of the nodes: its checkpoint's domain, the software that it needs, and until when they are open."""
        return self.checkpoint_domain, self.software, self.open_until_s

    @property
    def is_cpu(self) -> bool:
        return self.requirement == (0,)

    @property
    def min_gpus(self) -> int:
        """R_1."""
        return self.requirement[0]

    @property
    def min_units(self) -> float:
        """The GPUs that its smallest size holds, a part of one in thousandths."""
        return self.requirement[0] if self.part is None else self.part.compute / 1000

    @property
    def min_cores(self) -> int:
        """The hard need: `least_cores` per GPU of R_1; all of them for a CPU job."""
        return self.cores if self.is_cpu else self.min_gpus * self.least_cores


@dataclass(frozen=True, slots=True)
class Profiled:
    """The object of a profile: a waiting job's signature on a GPU type, and until when it may run, however it fares."""

    job: int
    signature: str
    gpu_type: str
    until_s: float


@dataclass(frozen=True, slots=True)
class Running:
    """A live attempt, starting or running. Its resources are absent from the nodes' idle ones.

    A profile is an attempt too; its `job` is an id below 0, which no job has, because the job that it measures waits. For a
    movable job `description` is the job as if it waited, with its `promise` if it has one: a job that is being stopped gets its
    promise before it waits. The service sets the description only for elastic jobs.
    """

    job: int
    tenant: int
    pieces: tuple[Piece, ...]
    started_s: float = 0.0  # start of this attempt: since then it has had its present configuration
    requirement: tuple[int, ...] = ()
    elastic: bool = False
    movable: bool = False  # may be stopped to give back what it borrowed
    expected_end_s: float | None = None  # on the snapshot's clock; None = not known
    spread: float = 0.0  # of its length (`scheduler.estimator.lengths`)
    description: Job | None = None  # None unless it is movable
    restarts: int = 0  # N: how often the job was started anew after a planner's stop
    first_started_s: float | None = None  # of the job's first attempt; T counts from it. None = this is the first
    restart_s: float | None = None  # S: the cost of a restart of this job, measured; None = the knob `restart_cost_s`
    stopping: bool = False  # a plan has ordered it to stop, and it has not ended yet
    profiled: Profiled | None = None  # set only for profiles
    owner: int | None = None  # its submitter, as of a waiting job; None = the tenant
    age_s: float | None = None  # its expected run time in all, where it is at no known point of it
    ran_s: float = 0.0  # what earlier attempts ran of it

    @property
    def is_cpu(self) -> bool:
        return self.requirement == (0,)

    @property
    def gpus(self) -> int:
        return sum(piece.gpu_count for piece in self.pieces)

    @property
    def gpu_units(self) -> float:
        """How many GPUs it holds, a part of one in thousandths."""
        return sum(piece.gpu_units for piece in self.pieces)

    @property
    def cores(self) -> int:
        return sum(len(piece.cores) for piece in self.pieces)
