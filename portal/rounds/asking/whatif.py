"""What would make a waiting job start: the scheduler's re-solves with one change each, on a fresh snapshot, on demand.

Each answer takes seconds of a core, so a portal process works on one at a time and refuses the next ones for so long.
"""

from __future__ import annotations

import threading
import time
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from django.utils import timezone

from portal.errors import BerthError
from portal.jobs.states import QUEUED
from portal.rounds.endless import Found, within
from portal.rounds.planning.snapshot import state_load
from portal.rounds.read.forecasts import starts_of
from portal.rounds.settings.knobs import knobs_current, scheduler_parameters
from scheduler.asking.over import TOLD, standing_of
from scheduler.asking.starts.ranges import StartRange
from scheduler.asking.starts.scene import Experience
from scheduler.asking.what_if import what_would_start
from scheduler.errors import InvalidJob

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from portal.jobs.models import Job
    from scheduler.asking.over import Standing
    from scheduler.model import ClusterState
    from scheduler.parameters import Parameters

LIMIT_S = 5.0
"""For all re-solves together; what it did not suffice for is said."""
ENDLESS_S = 60.0
"""Of processor time: a question that took so much never ends, and nobody's next one would be answered."""

_working = threading.Lock()


def remedies(job: Job) -> list[dict[str, Any]]:
    """Return the changes that could make a waiting job start, those that do and gain first; [] when it does not wait.

    Each has `change, value, starts, reason, nodes, gpus, cores, throughput, source, of_asked, no_gain, over_s` as `Remedy` of
    `scheduler.asking.what_if`, and `sentence`. Raises BerthError `busy` (429) while another is worked out.
    """
    if job.state not in QUEUED or job.array_size:
        return []
    return worked_alone(lambda: _worked_out(job))


def worked_alone(work: Callable[[], Found]) -> Found:
    """Work one such question out at a time in this process. Raises BerthError `busy` (429) while another is."""
    if not _working.acquire(blocking=False):
        raise BerthError("busy", "Another such question is being worked out; ask again in a few seconds.", status=429)
    try:
        return within(ENDLESS_S, work)
    finally:
        _working.release()


def _worked_out(job: Job) -> list[dict[str, Any]]:
    parameters, now = scheduler_parameters(knobs_current()), timezone.now()
    state = state_load(now=now, parameters=parameters)
    rng, now_s = np.random.default_rng(job.pk), now.timestamp()
    standing = partial(_standing, job, state, parameters, now)
    try:
        found = what_would_start(
            state, job.pk, parameters, rng, time.monotonic, now_s=now_s, limit_s=LIMIT_S, standing=standing
        )
    except KeyError:
        return []  # it was placed or ended meanwhile
    except InvalidJob as error:
        raise BerthError("invalid", f"It cannot be planned at all: {error.detail}.", status=409) from error
    return [{**asdict(each), "change": str(each.change), "sentence": each.sentence} for each in found]


def _standing(job: Job, state: ClusterState, parameters: Parameters, now: datetime) -> Standing:
    """Return the job as it stands, by the start range that its page shows."""
    own = next(each for each in state.jobs if each.id == job.pk)
    told, found = starts_of([job], now).get(job.pk), None
    if told is not None and not told.passed:
        median_s = told.median_at.timestamp() if told.median_at else None
        found = StartRange(told.earliest_at.timestamp(), median_s, None, draws=1)
    goes_on = job.checkpointable and not own.done_fraction
    known = Experience(
        ran_s={job.pk: job.ran_s} if goes_on else {},
        limits_s={job.pk: float(job.time_limit_s)} if job.time_limit_s else {},
    )
    known = experience_with(job, known)
    return standing_of(state, own, parameters, now_s=now.timestamp(), found=found, experience=known)


def experience_with(job: Job, known: Experience) -> Experience:
    """Return the same, with whether the job's age, fixed at its first start, was a guess."""
    is_guess = job.started_at is not None and job.age_source not in TOLD
    return replace(known, guessed=frozenset({job.pk} if is_guess else ()))
