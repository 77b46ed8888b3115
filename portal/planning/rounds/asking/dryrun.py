"""A dry run: the planning of a job that is not submitted, by the same scheduler call on a snapshot, never applied."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
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
from portal.planning.rounds.read.selectors import reason_sentence
from portal.planning.rounds.record.decisions import decisions_of
from portal.planning.rounds.settings.knobs import knobs_current, scheduler_parameters
from portal.work.jobs.models import Job
from portal.work.jobs.services.asked.dependencies import dependencies_of
from portal.work.jobs.states import JobState
from scheduler.asking.forecast import forecast
from scheduler.parameters import Parameters
from scheduler.planning.plan import plan

if TYPE_CHECKING:
    from portal.work.jobs.description import JobDescription
    from scheduler.model import ClusterState, Decision, Plan

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
    age_s, age_source, start` and `at`. Of others it says only things that the job's tenant may see.
    """
    return within(ENDLESS_S, lambda: _answered(description=description, tenant=tenant, user=user))


def _answered(*, description: JobDescription, tenant: Tenant, user: User) -> dict[str, Any]:
    now, parameters = timezone.now(), scheduler_parameters(knobs_current())
    parameters = replace(parameters, time_limit_s=min(parameters.limit_s, LIMIT_S))
    asked = {"submitted_at": now, "waiting_since": now, "state": JobState.PENDING, **description.job_fields()}
    row = Job(pk=DRY_ID, tenant=tenant, owner=user, **asked)
    waits = dependencies_of(user=user, tenant=tenant, parsed=description, locked=False)
    job = unsaved_to_model_job(job=row, blocked=bool(waits), now=now, parameters=parameters)
    job = replace(job, instrumented=False)  # where it would be placed: a profile before would put that off by a minute
    state = state_load(now=now, parameters=parameters)
    resizable = [live.description for live in state.running if live.description is not None]
    known = knowledge_load([*state.jobs, *resizable, job]) if job.model_label else state.knowledge
    state = replace(state, jobs=[*state.jobs, job], knowledge=known)
    made = plan(state, now.timestamp(), parameters, np.random.default_rng(0), time.monotonic)
    decision = next(d for d in made.decisions if d.job == DRY_ID)
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
        "start": _start(state, decision, now=now, parameters=parameters),
        "at": now,
    }


def _start(state: ClusterState, decision: Decision, *, now: datetime, parameters: Parameters) -> dict[str, Any] | None:
    """Return when it would start: now when it is placed, else the range that the queue simulated forward gives; None for
    one that cannot start by itself, or only beyond what was simulated.
    """
    if decision.placement is not None:
        return {"earliest_at": now, "median_at": now, "latest_at": now}
    known = experience_read(now=now, parameters=parameters)
    rng = np.random.default_rng(0)
    found = forecast(state, now.timestamp(), parameters, rng, time.monotonic, limit_s=LIMIT_S, experience=known)
    own = found.get(DRY_ID)
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
