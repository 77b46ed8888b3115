"""A policy's outcome: its draft plan, and the material of explanations, pages and the next planning.

Each part is made by the step that knows it, and the policy puts the parts together at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from scheduler.model import Configuration, ShareView, Side, SolverFigures, Standing, WindowView
from scheduler.placement.objective import Objective

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from scheduler.errors import InvalidJob
    from scheduler.model import Chosen, Job, Promise, Promised, Ranked, Reservation, StopOrder
    from scheduler.placement.aggregated.candidates import Group
    from scheduler.placement.aggregated.classes import Pool
    from scheduler.placement.aggregated.memory import Solved
    from scheduler.placement.aggregated.skeletons import PieceRow, SharedRow


@dataclass(frozen=True, slots=True)
class Classed:
    """A job's candidates by class of node: its group's candidates, the piece of each row, and the pools' nodes."""

    group: Group
    rows: Sequence[PieceRow | SharedRow]
    nodes_of: Mapping[Pool, Sequence[int]]


@dataclass(slots=True)
class DraftPlan:
    """The plan while it is made. Each step adds to it, so that whatever stands here when time is up is the plan."""

    chosen: dict[int, Chosen] = field(default_factory=dict)  # job id -> the configuration with which it starts
    stops: list[StopOrder] = field(default_factory=list)
    promises: list[Promised] = field(default_factory=list)  # given by this planning
    invalid: dict[int, InvalidJob] = field(default_factory=dict)  # job id -> what a step found wrong with it
    objective: Objective = field(default_factory=Objective)
    # The candidates that the steps looked at, by job id: explanations read them.
    candidates: dict[int, tuple[Configuration, ...]] = field(default_factory=dict)
    classed: dict[int, Classed] = field(default_factory=dict)  # candidates by class, where they were not located
    had_turns: set[int] = field(default_factory=set)  # jobs that took the best of the rest, with no candidates listed

    def has(self, job: int) -> bool:
        """Whether the job is placed, promised a place, or cannot be planned."""
        if job in self.chosen or job in self.invalid:
            return True
        return bool(self.promises) and any(given.job == job for given in self.promises)


@dataclass(frozen=True, slots=True)
class Staged:
    """The outcome of stages placed jointly, beside the draft plan."""

    figures: SolverFigures = field(default_factory=SolverFigures)
    out_of_time: frozenset[int] = frozenset()  # job ids: time ended before their candidates were made
    left: tuple[Solved, ...] = ()  # to the next planning, by stage solved by class


@dataclass(frozen=True, slots=True)
class Standings:
    """Each job's standing when places were given out, and each tenant's."""

    window: set[int] = field(default_factory=set)  # job ids that could have been placed now
    sated: set[int] = field(default_factory=set)  # not in it, because the tenant's jobs ahead ask for its whole quota
    window_gpus: int = 0
    window_s: float = 0.0  # spent on filling the windows
    turns: Mapping[int, Standing] = field(default_factory=dict)  # of those picked, where turns are taken
    home: Callable[[Job], str] | None = None  # a GPU job's array, where there are arrays; the same for a whole kind
    windows: Sequence[WindowView] = ()
    shares: Sequence[ShareView] = ()
    turn_shares: Mapping[int, float] = field(default_factory=dict)  # job -> its tenant's weighted share at its turn

    def of(self, ranked: Ranked) -> Standing:
        """Where the job stood. A policy without arrays has one window, whose jobs are all its front."""
        job = ranked.job
        known = self.turns.get(job.id)
        if known is not None:
            return known
        return self.of_kind(job, inside=job.id in self.window)

    def of_kind(self, job: Job, *, inside: bool) -> Standing:
        """The standing of all jobs of this one's kind that had no turn, `inside` the window or not."""
        if job.is_cpu:
            return _standing("cpu", inside)
        return _standing(self.home(job) if self.home is not None else "gpu-small", inside)


@cache
def _standing(array: str, inside: bool) -> Standing:
    return Standing(array, Side.FRONT if inside else Side.OUTSIDE)


@dataclass(frozen=True, slots=True)
class Obstacles:
    """The obstacles of waiting jobs, where a step knows them."""

    out_of_time: frozenset[int] = frozenset()  # inside the window, but time ended before their turn
    unswept: frozenset[int] | None = None  # fit what is idle, but time ended; None = there was no sweep
    blocked_by: Ranked | None = None  # strict order: the job that no other may pass
    blocked_tenants: Mapping[int, Ranked] = field(default_factory=lambda: MappingProxyType({}))  # within each tenant
    kept: Mapping[int, Mapping[str, object]] = field(default_factory=lambda: MappingProxyType({}))
    """Job id -> the figures of the jobs for which the idle GPUs that it would fit are kept."""

    def jobs(self) -> set[int]:
        """The ids of the jobs for which a step knows it."""
        return {*self.out_of_time, *(self.unswept or ()), *self.kept}


def greedy_figures(draft: DraftPlan) -> SolverFigures:
    """The figures of a policy that solves nothing."""
    return SolverFigures(incumbent="greedy") if draft.chosen else SolverFigures()


@dataclass(frozen=True, slots=True)
class Outcome:
    """A policy's draft plan with all that belongs to it."""

    draft: DraftPlan = field(default_factory=DraftPlan)
    standings: Standings = field(default_factory=Standings)
    obstacles: Obstacles = field(default_factory=Obstacles)
    solver: SolverFigures = field(default_factory=SolverFigures)
    reservations: tuple[Reservation, ...] = ()
    promised: Mapping[int, Promise] = field(default_factory=lambda: MappingProxyType({}))  # given before, not free yet
    left: tuple[Solved, ...] = ()  # to the next planning, by stage
    pressing: Mapping[int, float] = field(default_factory=lambda: MappingProxyType({}))
    """Job id -> from when on it is urgent: see `replan.early`."""
    may_end_round: bool = False  # the policy wants re-plans before their round is over
