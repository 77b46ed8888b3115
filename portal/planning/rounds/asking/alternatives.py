"""Other counts and types of GPUs with which a job that is not submitted yet would be over sooner; nothing is changed."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from portal.foundation.errors import BerthError
from portal.planning.rounds.asking.dryrun import Question, question_ask
from portal.planning.rounds.endless import within
from scheduler.asking.over import pace_placed
from scheduler.model.placements import is_instance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from portal.people.tenants.models import Tenant, User
    from portal.work.jobs.description import JobDescription
    from scheduler.model import Job

LIMIT_S = 2.0
"""A person waits for the answer: changes that were not tried by then are left out."""
ENDLESS_S = 30.0
TRIES_MAX = 6

_working = threading.Lock()


@dataclass(frozen=True, slots=True)
class Alternative:
    """It starts at once with these. `run_s`: how long it runs then."""

    gpus: int
    gpu_type: str | None
    over_at: datetime
    run_s: float


def alternatives_find(
    *, description: JobDescription, tenant: Tenant, user: User, sizes: Sequence[int]
) -> tuple[list[Alternative], bool]:
    """Return those that start at once and are over sooner, first to end first, and whether all were tried within `LIMIT_S`.

    Raises BerthError (429, busy) while this process works on another one: each takes seconds of a core.
    """
    if not _working.acquire(blocking=False):
        raise BerthError("busy", "Another such question is being worked out; ask again in a few seconds.", status=429)
    try:
        return within(ENDLESS_S, lambda: _found(question_ask(description=description, tenant=tenant, user=user), sizes))
    finally:
        _working.release()


def _found(asked: Question, sizes: Sequence[int]) -> tuple[list[Alternative], bool]:
    job, until_s, found = asked.job, time.monotonic() + LIMIT_S, []
    if job.is_cpu or job.part is not None or not job.eligible:
        return [], True
    now_s, (_, decision) = asked.now_s, asked.planned(asked.state, LIMIT_S / 2)
    standing = asked.standing(decision, None if decision.placement else asked.foretold(LIMIT_S / 4))
    changes = _changes(asked, sizes)[:TRIES_MAX]
    for done, (gpu_type, changed) in enumerate(changes):
        left_s = until_s - time.monotonic()
        if left_s <= 0:
            break
        jobs = [changed if each is job else each for each in asked.state.jobs]
        _, placed = asked.planned(replace(asked.state, jobs=jobs), left_s / (len(changes) - done))
        verdict = standing.judged(now_s, pace_placed(placed)) if placed.placement else None
        if placed.placement and verdict and verdict.gains and verdict.over_s is not None:
            over_at = datetime.fromtimestamp(verdict.over_s, UTC)
            found.append(Alternative(placed.placement.gpus, gpu_type, over_at, verdict.over_s - now_s))
    else:
        done = len(changes)
    return sorted(found, key=lambda each: each.over_at), done == len(changes)


def _changes(asked: Question, sizes: Sequence[int]) -> list[tuple[str | None, Job]]:
    """Return the job with other counts, where it accepts one only, and on one other type each."""
    job, nodes = asked.job, asked.state.nodes
    most = sum(node.gpus_total for node in nodes if job.may_use(node.gpu_type))
    counts = [n for n in sizes if n <= most and n not in job.requirement] if len(job.requirement) == 1 else []
    types = sorted(
        {node.gpu_type for node in nodes if node.gpu_type and node.gpus_total and not is_instance(node.gpu_type)}
    )
    if len(types) < 2 or (job.gpu_types and len(types) == len(job.gpu_types)):
        types = []
    return [
        *((None, replace(job, requirement=(n,))) for n in counts),
        *((name, replace(job, gpu_types=frozenset({name}))) for name in types if job.gpu_types != {name}),
    ]
