"""The changes that would start a waiting job, or have it over sooner (algorithms.md section 7): re-solves with one each.

Each change is a whole planning by the same code, on the same snapshot, with one thing about the job changed
(`scheduler.asking.tries`). A change that its tenant may take while the job waits is simulated forward too, as is the queue
as it stands, with the same seed, so that their ranges compare. `scheduler.asking.over` decides whether it gains.
A change that there was no time for says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from scheduler.asking.changes import CHANGED, OFFERED, Change, Kind
from scheduler.asking.forecast import forecast
from scheduler.asking.over import GAIN_S, GAIN_SHARE, NOTHING, Pace, asked_pace, pace_of, pace_placed, standing_of
from scheduler.asking.starts.ranges import LONGEST_S, StartRange
from scheduler.asking.tries import cluster_at, tries
from scheduler.copies import replace
from scheduler.errors import InvalidJob
from scheduler.model import Clock, ClusterState, Job, Reason
from scheduler.planning.plan import plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.random import Generator

    from scheduler.asking.over import Standing
    from scheduler.asking.starts.scene import Experience
    from scheduler.parameters import Parameters

TRIES_MAX = 8
LIMIT_S = 8.0
"""The limit of all plannings and forecasts of one question."""
PLAN_SHARE = 0.5
"""The plannings get this part of the time, the forecasts the rest."""
PLAN_MIN_S, FORECAST_MIN_S = 0.05, 0.1
"""With less time than this left, no planning and no forecast begins."""


@dataclass(frozen=True, slots=True)
class Answer:
    """`changes`: those that start the job now and gain come first, then by throughput; one `none`: it starts as it stands.

    `start`: its simulated range as it stands; `over_s`: when it is expected to be over then. None: not known.
    """

    changes: tuple[Change, ...]
    start: StartRange | None = None
    over_s: float | None = None

    @property
    def offers(self) -> list[Change]:
        """The changes that its tenant may take, best end first; those that gain nothing come last."""
        found = [(each.verdict, each) for each in self.changes if each.is_offer and each.verdict]
        found.sort(key=lambda pair: (not pair[0].gains, pair[0].ends_s, -(pair[1].of_asked or 0.0)))
        return [change for _, change in found]


def what_would_start(
    state: ClusterState,
    job_id: int,
    parameters: Parameters,
    rng: Generator,
    clock: Clock,
    *,
    now_s: float,
    experience: Experience = NOTHING,
    only: tuple[Kind, Any] | None = None,
) -> Answer:
    """The changes that could start the waiting job, and their effects. `only`: the one change to try.

    One seed from `rng` serves all, so the same arguments give the same answer unless the time runs out.
    KeyError: no such waiting job; InvalidJob: it cannot be planned at all.
    """
    job = next((each for each in state.jobs if each.id == job_id), None)
    if job is None:
        raise KeyError(f"no waiting job {job_id} in the snapshot")
    began_s = clock()
    question = _Question(state, job, parameters, int(rng.integers(2**31 - 1)), clock, now_s, experience)
    question.until_s = began_s + PLAN_SHARE * LIMIT_S
    stands = question.planned(Kind.NONE, None, TRIES_MAX + 1)
    if stands.starts:
        return Answer((stands,))
    asked = [only] if only else tries(state, job, now_s)[:TRIES_MAX]
    found = [question.planned(*each, len(asked) - done) for done, each in enumerate(asked)]
    question.until_s = began_s + LIMIT_S
    return question.judged(found)


@dataclass
class _Question:
    """One question. Each planning and forecast gets one of `left` equal parts of the time until `until_s`."""

    state: ClusterState
    job: Job
    parameters: Parameters
    seed: int
    clock: Clock
    now_s: float
    experience: Experience
    until_s: float = 0.0

    def planned(self, kind: Kind, value: Any, left: int) -> Change:
        """The change with where its planning places the job."""
        change, share_s = Change(kind, value), self._share_s(left)
        if share_s < PLAN_MIN_S:
            return change
        then_s = self.now_s + value if kind is Kind.WAIT else self.now_s
        knobs = replace(self.parameters, time_limit_s=min(self.parameters.limit_s, share_s))
        made = plan(self._state_with(kind, value), then_s, knobs, np.random.default_rng(self.seed), self.clock)
        decision = next(each for each in made.decisions if each.job == self.job.id)
        if decision.reason is Reason.INVALID and kind is Kind.NONE:
            raise InvalidJob(self.job.id, str(decision.figures.get("detail", "")))
        placed = decision.placement
        if placed is None:
            return replace(change, starts=False, reason=str(decision.reason))
        names, speed = {node.id: node.name for node in self.state.nodes}, pace_placed(decision).throughput
        asked = self._asked.throughput if self._asked else None
        return replace(
            change,
            starts=True,
            nodes={names[piece.node]: len(piece.gpus) for piece in placed.pieces},
            gpus=placed.gpus,
            cores=placed.cores,
            throughput=speed,
            source=None if speed is None else str(decision.figures["source"]),
            of_asked=speed / asked if speed and asked else None,
        )

    def judged(self, planned: list[Change]) -> Answer:
        """The answer, once the queue was simulated as it stands and with each change that may be taken."""
        offered = [each.kind in OFFERED and each.starts is not None for each in planned]
        base = self._ranges(self.state, sum(offered) + 1) or {}
        own, known = base.get(self.job.id), self.experience
        standing = standing_of(self.state, self.job, self.parameters, now_s=self.now_s, found=own, experience=known)
        found = [self._judged(each, standing, base, sum(offered[done:])) for done, each in enumerate(planned)]
        order = {True: 0, False: 1, None: 2}
        found.sort(key=lambda each: (order[each.starts], bool(each.no_gain), -(each.throughput or 0.0)))
        return Answer(tuple(found), own, standing.over_s)

    def _judged(self, change: Change, standing: Standing, base: Mapping[int, StartRange], left: int) -> Change:
        offered = change.kind in OFFERED
        if self.job.part is not None or change.kind is Kind.WAIT or change.starts is None:
            return change
        found = self._ranges(self._state_with(change.kind, change.value), left) if offered else None
        start = (found or {}).get(self.job.id)
        if change.starts:
            # As in `pace_placed`: cores a GPU, of a CPU job in all.
            pace = Pace(change.throughput, (change.cores or 0) / (change.gpus or 1))
            verdict = standing.judged(self.now_s, pace, anew=change.kind is Kind.CHECKPOINT)
            start = None
        elif start is None:  # it cannot be taken, or there was no time
            return change
        else:
            starts_s = self.now_s + LONGEST_S if start.median_s is None else start.median_s
            verdict = standing.judged(starts_s, pace_of(start.on, self.job))
        later = {} if not verdict.gains else None if found is None else self._later(found, base)
        return replace(change, start=start, verdict=verdict, later=later)

    @cached_property
    def _asked(self) -> Pace | None:
        """Asked for once a planning placed the job: an unsound job is never placed."""
        return asked_pace(self.state, self.job)

    def _share_s(self, left: int) -> float:
        return (self.until_s - self.clock()) / max(1, left)

    def _state_with(self, kind: Kind, value: Any) -> ClusterState:
        if kind is Kind.WAIT:
            return cluster_at(self.state, self.now_s, self.now_s + value)
        if kind is Kind.NONE:
            return self.state
        changed = CHANGED[kind](self.job, value)
        return replace(self.state, jobs=[changed if each is self.job else each for each in self.state.jobs])

    def _ranges(self, state: ClusterState, left: int) -> Mapping[int, StartRange] | None:
        """The queue of `state` simulated forward; None without time."""
        if (share_s := self._share_s(left)) < FORECAST_MIN_S:
            return None
        rng, known = np.random.default_rng(self.seed), self.experience
        return forecast(state, self.now_s, self.parameters, rng, self.clock, limit_s=share_s, experience=known)

    def _later(self, found: Mapping[int, StartRange], base: Mapping[int, StartRange]) -> dict[int, float]:
        """The other jobs that would start later, and by how much."""
        later = {}
        for job, before in base.items():
            after = found.get(job)
            if job == self.job.id or after is None or before.median_s is None or after.median_s is None:
                continue
            if after.median_s - before.median_s > max(GAIN_S, GAIN_SHARE * (after.median_s - self.now_s)):
                later[job] = after.median_s - before.median_s
        return later
