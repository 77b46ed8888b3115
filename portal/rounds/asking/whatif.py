"""What would make a waiting job start: the scheduler's re-solves with one change each, on a fresh snapshot, on demand.

Each answer takes seconds of a core, so a portal process works on one at a time and refuses the next ones for so long.
"""

from __future__ import annotations

import threading
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from django.utils import timezone

from portal.errors import BerthError
from portal.jobs.states import QUEUED
from portal.rounds.endless import Found, within
from portal.rounds.planning.snapshot import state_load
from portal.rounds.settings.knobs import knobs_current, scheduler_parameters
from scheduler.asking.what_if import what_would_start
from scheduler.errors import InvalidJob

if TYPE_CHECKING:
    from collections.abc import Callable

    from portal.jobs.models import Job

LIMIT_S = 5.0
"""For all re-solves together; what it did not suffice for is said."""
ENDLESS_S = 60.0
"""Of processor time: a question that took so much never ends, and nobody's next one would be answered."""

_working = threading.Lock()


def remedies(job: Job) -> list[dict[str, Any]]:
    """Return the changes that could make a waiting job start, those that do first; [] when it does not wait.

    Each has `change, value, starts, reason, nodes, gpus, cores, throughput, source, of_asked` as `Remedy` of
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
    rng = np.random.default_rng(job.pk)
    try:
        found = what_would_start(state, job.pk, parameters, rng, time.monotonic, now_s=now.timestamp(), limit_s=LIMIT_S)
    except KeyError:
        return []  # it was placed or ended meanwhile
    except InvalidJob as error:
        raise BerthError("invalid", f"It cannot be planned at all: {error.detail}.", status=409) from error
    return [{**asdict(each), "change": str(each.change), "sentence": each.sentence} for each in found]
