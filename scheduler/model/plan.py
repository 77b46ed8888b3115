"""A planning's answer: a decision for every job, with its reason and figures, and the orders that follow."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scheduler.model.cluster import LinkWish
    from scheduler.model.jobs import Figures, Reason
    from scheduler.model.placements import Piece, Placement, Regrant, Share

Clock = Callable[[], float]
"""A monotonic clock in seconds. The core times its solves with it and never reads one of its own."""


class Result(StrEnum):
    """A planning's decision about a job."""

    PLACED = "placed"
    WAITING = "waiting"
    INVALID = "invalid"


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
    """A tenant's share of the GPUs or of the CPU array's cores: its holding, and with its jobs picked in this planning.

    Units are weighted GPUs, or cores; the share is units / capacity / weight (weighted DRF, section 4).
    """

    tenant: int
    resource: str  # "gpus" | "cores"
    held: float
    with_picks: float
    capacity: float
    weight: float


@dataclass(slots=True)
class Decision:
    """The decision about one job, and its reason: the object that the job's page shows.

    Nothing changes one. It is not frozen for the same reason as `Ranked`.
    """

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
        """Shares, window, candidates and their limits: shape in `scheduler.explaining.detail`. Computed anew when asked."""
        return {} if self.explain is None else self.explain(self.job)


@dataclass(frozen=True, slots=True)
class SolverFigures:
    """How the placement was found. `incumbent`: whose plan was taken (`ilp`, `greedy`; `none` = nothing to solve)."""

    formulation: str = "none"
    status: str = "not-needed"  # optimal | gap | stalled | time-limit | failed | not-needed
    incumbent: str = "none"
    candidates: int = 0  # configurations generated
    variables: int = 0
    constraints: int = 0
    objective: float | None = None
    bound: float | None = None
    gap: float | None = None  # proven, relative: of the jobs that were looked at
    unseen: int = 0  # jobs of the window for which no time was left: objective and bound do not count them
    gap_allowed: float | None = None
    topped_up: int = 0  # jobs placed greedily on what the solve left
    participants: int = 0  # running jobs that took part in the re-plan
    left_out: int = 0  # those that were left out, because the cluster is large: see `participants.gather`
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
    gpus_for_sharing: int  # set aside for jobs that share one, with none on them
    cores_total: int
    cores_allocated: int
    gpu_active_rate: float | None
    cpu_active_rate: float | None
    fragments_cores: int  # kind 1
    fragments_scattered: int  # kind 2
    fragments_kept: int  # kept for another job by a reservation or a promise
    fragment_rate: float | None
    idle_beside_fitting: (
        int | None
    )  # invariant 11: idle GPUs where a waiting job could have started; None = not checked
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
class Blocking:
    """Under a strict order a job that does not fit: no job may pass it, or no other job of its `tenant`."""

    job: int
    tenant: int | None


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
class LinkOrder:
    """A probe of a GPU type's link, to be started on these pieces (section 2)."""

    wish: LinkWish
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """A planning's whole answer: one decision per job of the snapshot, in queue order, then those not in the queue.

    The caller starts the placements, asks the attempts of `stops` to stop, stores `promises` with their jobs and drops those of
    `lapsed`. `replan`: running jobs took part.
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
    window_ran_out: bool = False  # not every job that fits what is idle had a turn: a planning should follow
    windows: tuple[WindowView, ...] = ()
    shares: tuple[ShareView, ...] = ()
    profiles: tuple[ProfileOrder, ...] = ()  # to be started beside the placements
    blocking: tuple[Blocking, ...] = ()
    probes: tuple[LinkOrder, ...] = ()  # to be started beside them
    harvests: tuple[Regrant, ...] = ()  # to be written before the placements, which count on them
    sharing: Any = field(default=None, repr=False, compare=False)
    """A `scheduler.planning.sharing.Sharing` that a shadow is to be compared with, or None. It is no part of the plan's bytes."""

    @property
    def placements(self) -> tuple[Placement, ...]:
        return tuple(decision.placement for decision in self.decisions if decision.placement is not None)

    def as_json(self) -> str:
        """Canonical JSON, details included: the same plan is the same bytes."""
        return json.dumps(self, default=_as_mapping, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _as_mapping(value: object) -> dict[str, Any]:
    """A dataclass by its fields' names; a decision with its computed detail."""
    if not is_dataclass(value):
        raise TypeError(f"{value!r} is not part of a plan")
    names = {each.name: getattr(value, each.name) for each in fields(value)}
    if isinstance(value, Plan):
        del names["sharing"]
    if isinstance(value, Decision):
        del names["explain"]
        names["detail"] = value.detail
    return names
