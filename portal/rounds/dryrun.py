"""What a planning would do with a job that is not submitted: the same scheduler call on a snapshot, never applied."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from django.utils import timezone

from portal.rounds.knobs import knobs_current, scheduler_parameters
from portal.rounds.selectors import reason_sentence
from portal.rounds.snapshot import cores_wanted, state_load
from scheduler import model
from scheduler.planning import plan

if TYPE_CHECKING:
    from portal.jobs.description import JobDescription
    from portal.tenants.models import Tenant, User

DRY_ID = 0
"""No real job has it."""


def dry_run(*, description: JobDescription, tenant: Tenant, user: User) -> dict[str, Any]:
    """Return what the next planning would decide now if the job were there.

    Keys: `placeable, reason, sentence, figures, placement` ([{"node", "gpus", "cores"}] by node name, or None), `cores`
    (wanted, a GPU; of a CPU job in all) and `at`.
    """
    parameters = scheduler_parameters(knobs_current())
    now = timezone.now()
    state = state_load(now=now, parameters=parameters)
    wanted = cores_wanted(job=description, parameters=parameters)
    job = _hypothetical(description=description, tenant=tenant, user=user, cores=wanted, now_s=now.timestamp())
    names = {node.id: node.name for node in state.nodes}
    made = plan(
        replace(state, jobs=[*state.jobs, job]),
        now.timestamp(),
        parameters,
        np.random.default_rng(0),
        time.monotonic,
    )
    decision = next(d for d in made.decisions if d.job == DRY_ID)
    placement = None
    if decision.placement is not None:
        placement = [
            {"node": names[piece.node], "gpus": len(piece.gpus), "cores": len(piece.cores)}
            for piece in decision.placement.pieces
        ]
    reason = str(decision.reason) if decision.reason else None
    return {
        "placeable": placement is not None,
        "reason": reason,
        "sentence": reason_sentence(reason, dict(decision.figures)),
        "figures": dict(decision.figures),
        "placement": placement,
        "cores": wanted,
        "at": now.isoformat(),
    }


def _hypothetical(*, description: JobDescription, tenant: Tenant, user: User, cores: int, now_s: float) -> model.Job:
    blocked = bool(description.depends_on)
    return model.Job(
        id=DRY_ID,
        tenant=tenant.pk,
        requirement=tuple(description.gpus),
        submitted_s=now_s,
        gpu_types=frozenset(description.gpu_types),
        cores=cores,
        memory_mib=description.memory_mib or 0,
        priority=description.priority,
        owner=user.pk,
        category=description.category,
        model_label=description.model or None,
        expected_duration_s=description.expected_duration_s,
        total_samples=description.samples,
        movable=description.checkpointable or description.restartable,
        eligible=not blocked,
        ineligible_reason=model.Reason.DEPENDENCY if blocked else None,
    )
