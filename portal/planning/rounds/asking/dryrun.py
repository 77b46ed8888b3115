"""A dry run: the planning of a job that is not submitted, by the same scheduler call on a snapshot, never applied."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from django.utils import timezone

from portal.people.tenants.models import Tenant, User
from portal.planning.estimation.selectors import knowledge_load
from portal.planning.rounds.asking.experience import experience_read
from portal.planning.rounds.endless import within
from portal.planning.rounds.planning.model_jobs import unsaved_to_model_job
from portal.planning.rounds.planning.snapshot import state_load
from portal.planning.rounds.read.figures import JobNumbers
from portal.planning.rounds.read.lengths import similar_read
from portal.planning.rounds.read.selectors import reason_sentence
from portal.planning.rounds.record.decisions import decisions_of
from portal.planning.rounds.settings.knobs import knobs_current, scheduler_parameters
from portal.work.jobs.models import Job
from portal.work.jobs.services.asked.dependencies import dependencies_of
from portal.work.jobs.states import JobState
from scheduler.asking.forecast import forecast
from scheduler.asking.over import NOTHING, pace_placed, standing_of
from scheduler.planning.plan import plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from portal.work.jobs.description import JobDescription
    from scheduler.asking.over import Standing
    from scheduler.asking.starts.ranges import StartRange
    from scheduler.asking.starts.scene import Experience
    from scheduler.model import ClusterState, Decision, Plan
    from scheduler.model import Job as ModelJob
    from scheduler.parameters import Parameters

DRY_ID = 0
"""No real job has it."""

LIMIT_S = 3.0
"""A dry run solves no longer than this, so that people who type do not wait for half a tick."""
ENDLESS_S = 60.0
"""A dry run that used this processor time never ends."""


def dry_run(*, description: JobDescription, tenant: Tenant, user: User) -> dict[str, Any]:
    """Return the decision of a planning made now if the job (of an array: one task) were there. Changes nothing.

    Keys: `placeable, reason, sentence, figures, placement` ([{"node", "gpus", "cores"}] by node name, or None), `cores`
    (wanted, a GPU; of a CPU job in all), `array, side, queue, place, queue_length, ahead, latency_ratio,
    age_s, age_source, start, over_at` (None: its length is a guess, or its time limit ends it), `at` and `similar` (run times of
    jobs like it; None: its own length is given, or too few are like it). Of others it says only things that the job's tenant
    may see.
    """
    return within(ENDLESS_S, lambda: answer(Present.read(), description=description, tenant=tenant, user=user))


@dataclass(frozen=True)
class Present:
    """The cluster and its queue as of one moment, for one or more questions."""

    state: ClusterState
    parameters: Parameters
    now: datetime

    @classmethod
    def read(cls) -> Present:
        now, parameters = timezone.now(), scheduler_parameters(knobs_current())
        return cls(state_load(now=now, parameters=parameters), parameters, now)

    @cached_property
    def experience(self) -> Experience:
        return experience_read(now=self.now, parameters=self.parameters)


@dataclass(frozen=True, slots=True)
class Question:
    """A job that is not submitted, in a snapshot that has it. `limits_s`: its time limit, by its id."""

    state: ClusterState
    job: ModelJob
    present: Present
    limits_s: Mapping[int, float]

    @property
    def now_s(self) -> float:
        return self.present.now.timestamp()

    def planned(self, state: ClusterState, limit_s: float = LIMIT_S) -> tuple[Plan, Decision]:
        """Plan `state`, which has the job in some form, and return the decision for it too."""
        parameters = self.present.parameters
        limited = replace(parameters, time_limit_s=min(parameters.limit_s, limit_s))
        made = plan(state, self.now_s, limited, np.random.default_rng(0), time.monotonic)
        return made, next(each for each in made.decisions if each.job == DRY_ID)

    def foretold(self, limit_s: float = LIMIT_S) -> StartRange | None:
        """Return its range in the queue simulated forward; None where it cannot start by itself."""
        rng, parameters = np.random.default_rng(0), self.present.parameters
        known = self._experience()
        found = forecast(self.state, self.now_s, parameters, rng, time.monotonic, limit_s=limit_s, experience=known)
        return found.get(DRY_ID)

    def standing(self, decision: Decision, found: StartRange | None) -> Standing:
        """Return how long it runs and when it starts: now, or as foretold. A duration that a person gave is that of its place."""
        known = self._experience() if found else replace(NOTHING, limits_s=self.limits_s)  # eleven queries less
        parameters = self.present.parameters
        standing = standing_of(self.state, self.job, parameters, now_s=self.now_s, found=found, experience=known)
        if decision.placement is None:
            return standing
        asked, pace, slower = standing.pace, pace_placed(decision), 1.0
        if self.job.total_samples is not None and asked and asked.throughput and pace.throughput:
            slower = asked.throughput / pace.throughput
        run = replace(standing.run, run_s=standing.run.run_s * slower)
        return replace(standing, run=run, pace=pace, start_s=self.now_s)

    def _experience(self) -> Experience:
        known = self.present.experience
        return replace(known, limits_s={**known.limits_s, **self.limits_s})


def question_ask(
    present: Present | None = None, *, description: JobDescription, tenant: Tenant, user: User
) -> Question:
    """`present`: None reads it now."""
    present = present or Present.read()
    now, parameters, state = present.now, present.parameters, present.state
    asked = {"submitted_at": now, "waiting_since": now, "state": JobState.PENDING, **description.job_fields()}
    row = Job(pk=DRY_ID, tenant=tenant, owner=user, **asked)
    waits = dependencies_of(user=user, tenant=tenant, parsed=description, locked=False)
    job = unsaved_to_model_job(job=row, blocked=bool(waits), now=now, parameters=parameters)
    job = replace(job, instrumented=False)  # where it would be placed: a profile before would put that off by a minute
    resizable = [live.description for live in state.running if live.description is not None]
    known = knowledge_load([*state.jobs, *resizable, job]) if job.model_label else state.knowledge
    state = replace(state, jobs=[*state.jobs, job], knowledge=known)
    return Question(state, job, present, {DRY_ID: float(row.time_limit_s)} if row.time_limit_s else {})


def answer(present: Present, *, description: JobDescription, tenant: Tenant, user: User) -> dict[str, Any]:
    """Return the keys of `dry_run`, of a planning at that moment."""
    asked = question_ask(present, description=description, tenant=tenant, user=user)
    state, job, now = asked.state, asked.job, present.now
    made, decision = asked.planned(state)
    found = asked.foretold() if decision.placement is None else None
    standing = asked.standing(decision, found)
    over_s = (
        None if standing.run.run_s > standing.run.limit_s or (found and found.median_s is None) else standing.over_s
    )
    reason = str(decision.reason) if decision.reason else None
    return {
        "placeable": decision.placement is not None,
        "reason": reason,
        "sentence": reason_sentence(reason, JobNumbers().told(decision.figures)),
        "figures": dict(decision.figures),
        "placement": _placement(decision, {node.id: node.name for node in state.nodes}),
        "cores": job.cores,
        **_standing(made, decision),
        "latency_ratio": decision.latency_ratio,
        "age_s": decision.age_s,
        "age_source": decision.age_source,
        "start": _start(decision, found, now),
        "over_at": None if over_s is None else datetime.fromtimestamp(over_s, UTC),
        "at": now,
        "similar": _similar(state, job, tenant),
    }


def _similar(state: ClusterState, job: ModelJob, tenant: Tenant) -> dict[str, Any] | None:
    if job.expected_duration_s is not None or job.total_samples is not None or job.owner is None:
        return None
    asked = (job.owner, job.tenant, job.category, job.model_label, job.min_gpus)
    return similar_read(state.history, asked, of=tenant.name)


def _start(decision: Decision, own: StartRange | None, now: datetime) -> dict[str, Any] | None:
    """Return when it would start: now when it is placed, else the range that the queue simulated forward gives; None for
    one that cannot start by itself, or only beyond what was simulated.
    """
    if decision.placement is not None:
        return {"earliest_at": now, "median_at": now, "latest_at": now}
    if own is None or own.earliest_s is None:
        return None
    ends = {"earliest_at": own.earliest_s, "median_at": own.median_s, "latest_at": own.latest_s}
    return {name: None if at_s is None else datetime.fromtimestamp(at_s, UTC) for name, at_s in ends.items()}


def _placement(decision: Decision, names: dict[int, str]) -> list[dict[str, Any]] | None:
    if decision.placement is None:
        return None
    return [
        {"node": names[piece.node], "gpus": len(piece.gpus), "cores": len(piece.cores)}
        for piece in decision.placement.pieces
    ]


def _standing(made: Plan, decision: Decision) -> dict[str, Any]:
    """Return `array` and `side`, and where it would stand: `queue, place, queue_length, ahead`, None where it would not wait
    in a queue.
    """
    decisions, own = decisions_of(made), decision.standing
    place = decisions.find(decision.job) if decision.rank is not None else None
    return {"array": own and own.array, "side": own and str(own.side), **decisions.where(place)}
