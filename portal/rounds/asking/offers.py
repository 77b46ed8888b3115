"""What would have a waiting job over sooner, worked out by the scheduler on a fresh snapshot, as JSON; nothing is changed.

Each answer takes seconds of a core: `portal.offers` keeps it, and asks for it no more often than it must.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from django.utils import timezone

from portal.errors import BerthError, Conflict
from portal.jobs.models import Job
from portal.jobs.selectors import ANOTHERS
from portal.rounds.asking.experience import experience_read
from portal.rounds.asking.whatif import experience_with, worked_alone
from portal.rounds.planning.snapshot import state_load
from portal.rounds.settings.knobs import knobs_current, scheduler_parameters
from scheduler.asking.gathering import gathering
from scheduler.asking.offers import CHANGED, holds, offers_for
from scheduler.asking.what_if import Change
from scheduler.errors import InvalidJob

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from scheduler.asking.gathering import Gathering
    from scheduler.asking.offers import Offer, Offers
    from scheduler.asking.starts.ranges import StartRange

CHANGES = tuple(str(change) for change in CHANGED)
OTHERS_SHOWN = 3


def offers_work(job: Job) -> dict[str, Any]:
    """Return `now` (it starts as it stands), `start` (its range as it stands), `offers` and `gathering`.

    Raises BerthError: `busy` (429) while another is worked out, `invalid` (409) of a job that cannot be planned.
    """
    return worked_alone(lambda: _worked_out(job))


def _worked_out(job: Job) -> dict[str, Any]:
    parameters, now = scheduler_parameters(knobs_current()), timezone.now()
    state = state_load(now=now, parameters=parameters)
    known = experience_with(job, experience_read(now=now, parameters=parameters))
    rng, now_s = np.random.default_rng(job.pk), now.timestamp()
    try:
        found = offers_for(state, job.pk, parameters, rng, time.monotonic, now_s=now_s, experience=known)
    except KeyError as error:
        raise Conflict("not_waiting", f"Job {job.number} no longer waits.") from error
    except InvalidJob as error:
        raise BerthError("invalid", f"It cannot be planned at all: {error.detail}.", status=409) from error
    return _answer(job, found, gathering(state, job.pk, now_s), now)


def offer_tried(job: Job, change: str, value: Any) -> tuple[bool, bool]:
    """Plan again with one change; say whether the job starts at once then, and whether it is over sooner than without.

    Raises BerthError as `offers_work` does.
    """
    return worked_alone(lambda: _tried(job, change, value))


def _tried(job: Job, change: str, value: Any) -> tuple[bool, bool]:
    parameters, now = scheduler_parameters(knobs_current()), timezone.now()
    state = state_load(now=now, parameters=parameters)
    known = experience_with(job, experience_read(now=now, parameters=parameters))
    rng = np.random.default_rng(job.pk)
    try:
        return holds(
            state,
            job.pk,
            (Change(change), value),
            parameters,
            rng,
            time.monotonic,
            now_s=now.timestamp(),
            experience=known,
        )
    except KeyError as error:
        raise Conflict("not_waiting", f"Job {job.number} no longer waits; nothing was changed.") from error


def _answer(job: Job, found: Offers, way: Gathering | None, now: datetime) -> dict[str, Any]:
    named = {end.job for end in way.ends} if way else set()
    named |= {other for each in found.offers for other in each.later or ()}
    jobs = Job.objects.select_related(None).only("pk", "tenant_id", "array_id", "array_index").in_bulk(named)
    return {
        "at": now.timestamp(),
        "now": found.now,
        "start": range_json(found.start),
        "over": found.over_s,
        "offers": [_offer(each, job, jobs) for each in found.offers],
        "gathering": _gathering(way, job, jobs),
    }


def range_json(start: StartRange | None) -> dict[str, float | None] | None:
    if start is None or start.earliest_s is None:
        return None
    return {"earliest": start.earliest_s, "median": start.median_s, "latest": start.latest_s}


def _offer(each: Offer, job: Job, jobs: Mapping[int, Job]) -> dict[str, Any]:
    """Return one offer; of the jobs that would start later its tenant's by number, of others whether there are any."""
    value = sorted(each.value) if each.change is Change.GPU_TYPE else each.value
    return {
        "change": str(each.change),
        "value": value,
        "now": each.now,
        "gains": each.gains,
        "no_gain": each.verdict.why and str(each.verdict.why),
        "over": each.verdict.over_s,
        "start": range_json(each.start),
        "nodes": list(each.remedy.nodes),
        "gpus": each.remedy.gpus,
        "of_asked": each.remedy.of_asked,
        "measured": each.remedy.source not in {None, "assumed"},
        "later": None if each.later is None else _later(each.later, job, jobs),
    }


def _later(later: Mapping[int, float], job: Job, jobs: Mapping[int, Job]) -> dict[str, Any]:
    own = [(jobs[pk].number, seconds) for pk, seconds in later.items() if _is_own(jobs.get(pk), job)]
    own.sort(key=lambda each: each[1], reverse=True)
    shown = [{"job": number, "seconds": seconds} for number, seconds in own[:OTHERS_SHOWN]]
    return {"own": shown, "own_more": max(0, len(own) - OTHERS_SHOWN), "others": len(later) > len(own)}


def _is_own(other: Job | None, job: Job) -> bool:
    return other is not None and other.tenant_id == job.tenant_id


def _gathering(way: Gathering | None, job: Job, jobs: Mapping[int, Job]) -> dict[str, Any] | None:
    if way is None:
        return None
    ends = [{"at": end.at_s, "free": min(end.free, way.need), **_named(jobs.get(end.job), job)} for end in way.ends]
    return {"node": way.node, "need": way.need, "idle": way.idle, "ends": ends}


def _named(other: Job | None, job: Job) -> dict[str, Any]:
    if other is None or other.tenant_id != job.tenant_id:
        return {"job": None, "name": ANOTHERS}
    return {"job": other.number, "name": f"#{other.number}"}
