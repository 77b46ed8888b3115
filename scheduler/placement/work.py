"""What a planning hands to a policy, and what it gets back."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING

from scheduler.model import Configuration, ShareView, Side, SolverFigures, Standing, WindowView
from scheduler.placement.gain import LINEAR, Gain
from scheduler.placement.memory import NOTHING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.random import Generator

    from scheduler.errors import InvalidJob
    from scheduler.estimator.estimator import Estimator
    from scheduler.model import Chosen, Clock, ClusterState, Job, Promise, Promised, Ranked, Reservation, StopOrder
    from scheduler.parameters import Parameters
    from scheduler.placement.aggregated.classes import Pool
    from scheduler.placement.aggregated.options import Group, PieceRow, UnitRow
    from scheduler.placement.ledger import Ledger
    from scheduler.placement.memory import Memory, Solved
    from scheduler.placement.running import Participant


PLACING_LEAST = 0.1
"""Of the limit, what is left for placing even if checking, ordering and windows used it up: on a starved core nothing would
be placed, planning after planning. Better late by that than never."""


def taken_as_sound(_job: Job) -> None:
    """Of drivers whose running jobs were looked at when they came."""


@dataclass(frozen=True, slots=True)
class Work:
    """One planning's input to a policy: the eligible queue in order, what is idle, and the means."""

    queue: Sequence[Ranked]
    ledger: Ledger
    estimator: Estimator
    parameters: Parameters
    rng: Generator
    clock: Clock
    deadline_s: float  # on `clock`
    state: ClusterState  # the snapshot, for what runs, weights and history; what is idle is the ledger's to say
    now_s: float  # the snapshot's time
    participants: Mapping[int, Participant] = field(default_factory=dict)  # running jobs that this re-plan may change
    left_out: Mapping[int, Participant] = field(
        default_factory=dict
    )  # others that it may, on what is idle: see `better`
    replan: bool = False
    memory: Memory = NOTHING  # what the last planning left
    check: Callable[[Job], None] = taken_as_sound  # InvalidJob unless a running job can be planned with as described

    @property
    def remaining_s(self) -> float:
        return self.deadline_s - self.clock()

    def with_least(self) -> Work:
        """The same with `PLACING_LEAST` of the limit left, if what went before has used more."""
        return replace(self, deadline_s=max(self.deadline_s, self.clock() + PLACING_LEAST * self.parameters.limit_s))

    def before(self, share: float) -> Work:
        """The same for the steps before one that has so much of the limit to itself."""
        return replace(self, deadline_s=self.deadline_s - share * self.parameters.limit_s)

    def ends_s(self, share: float) -> float:
        """When that step ends, on `clock`, if it begins now: it has its time however late those before it were."""
        return max(self.deadline_s, self.clock() + share * self.parameters.limit_s)

    @property
    def changeable(self) -> Mapping[int, Participant]:
        """All running jobs that this re-plan may change."""
        return {**self.participants, **self.left_out} if self.left_out else self.participants

    @property
    def adjusts_sensitivity(self) -> bool:
        """Between re-plans, unless the operator has it off."""
        return not self.replan and self.parameters.sensitivity_adjustment == "on"


@dataclass(frozen=True, slots=True)
class Classed:
    """A job's candidates by class of node: its group's options, what each row is a piece of, and the pools' nodes."""

    group: Group
    rows: Sequence[PieceRow | UnitRow]
    nodes_of: Mapping[Pool, Sequence[int]]


@dataclass(slots=True)
class Outcome:
    """A policy's answer. A policy adds to it as it goes, so that whatever stands in it when time is up is the plan."""

    chosen: dict[int, Chosen] = field(default_factory=dict)  # job id ->
    window: set[int] = field(default_factory=set)  # job ids that could have been placed now
    sated: set[int] = field(default_factory=set)  # kept out of it: the tenant's jobs ahead ask for its whole quota
    window_gpus: int = 0
    gain: Gain = LINEAR  # what every G in it is made by
    window_s: float = 0.0  # spent on filling the windows
    solver: SolverFigures = field(default_factory=SolverFigures)
    candidates: dict[int, tuple[Configuration, ...]] = field(default_factory=dict)
    had_turns: set[int] = field(default_factory=set)  # who took the best of what was left, with no candidates listed
    least: dict[int, float] = field(default_factory=dict)  # job id -> its smallest throughput: what G divides by
    weights: Mapping[int, float] = field(default_factory=dict)
    out_of_time: set[int] = field(default_factory=set)  # inside the window, yet time ended before their turn
    unswept: set[int] | None = None  # who fits what is idle, yet time ended; None = no sweep offered it to everybody
    invalid: dict[int, InvalidJob] = field(default_factory=dict)  # found out while generating
    blocked_by: Ranked | None = None  # strict order: the job that nobody may pass
    blocked_tenants: dict[int, Ranked] = field(default_factory=dict)  # the same within each tenant's jobs
    reservations: list[Reservation] = field(default_factory=list)
    left: list[Solved] = field(default_factory=list)  # to the next planning, by stage
    must_start: set[int] = field(default_factory=set)  # first of an array, starving, and they fit now
    pressing: dict[int, float] = field(default_factory=dict)  # job id -> from when on it is urgent: see `replan.early`
    may_end_round: bool = False  # the policy wants re-plans before their round is over
    stops: list[StopOrder] = field(default_factory=list)
    promises: list[Promised] = field(default_factory=list)  # given by this planning
    promised: dict[int, Promise] = field(default_factory=dict)  # given before, not free yet
    kept: dict[int, dict[str, object]] = field(default_factory=dict)  # idle GPUs fit them, but are kept for others
    # What explanations read (`scheduler.explaining.detail`); a policy that leaves them empty has less to say.
    turn_shares: dict[int, float] = field(default_factory=dict)  # job -> its tenant's weighted share at its turn
    classed: dict[int, Classed] = field(default_factory=dict)  # candidates by class, where they were not located
    factors: Callable[[Job, Configuration], float] | None = None  # on the value of what is borrowed
    home: Callable[[Job], str] | None = None  # a GPU job's array, where there are arrays; alike jobs have the same
    standings: dict[int, Standing] = field(default_factory=dict)  # of those picked, where turns are taken
    windows: list[WindowView] = field(default_factory=list)
    shares: list[ShareView] = field(default_factory=list)

    def standing(self, ranked: Ranked) -> Standing:
        """Where the job stood. A policy without arrays has one window, whose jobs are all its front."""
        job = ranked.job
        known = self.standings.get(job.id)
        if known is not None:
            return known
        return self.standing_of_kind(job, inside=job.id in self.window)

    def standing_of_kind(self, job: Job, *, inside: bool) -> Standing:
        """Where all jobs stand that are like this one and had no turn: `inside` the window or not."""
        if job.is_cpu:
            return _standing("cpu", inside)
        return _standing(self.home(job) if self.home is not None else "gpu-small", inside)

    def has_answer(self, job: int) -> bool:
        """Whether the job is placed, promised a place, or cannot be planned."""
        if job in self.chosen or job in self.invalid:
            return True
        return bool(self.promises) and any(given.job == job for given in self.promises)

    def gain_of(self, configuration: Configuration, others: Sequence[Configuration] = ()) -> float:
        """G of the configuration; for a job that no formulation looked at, over the smallest of the others."""
        return self.gain.of(configuration.throughput / self.least_of(configuration.job, (configuration, *others)))

    def least_of(self, job: int, configurations: Sequence[Configuration]) -> float:
        """What G divides by: the job's smallest throughput, of these where no formulation looked at it."""
        return self.least.get(job) or min(each.throughput for each in configurations)


@cache
def _standing(array: str, inside: bool) -> Standing:
    return Standing(array, Side.FRONT if inside else Side.OUTSIDE)
