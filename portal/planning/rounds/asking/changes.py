"""The changes that would start a waiting job, or have it over sooner, from a fresh snapshot, as JSON; nothing is changed.

Each answer takes seconds of a core: a process works on one at a time, and `portal.planning.offers` keeps what was found.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from django.utils import timezone

from portal.foundation.errors import BerthError, Conflict
from portal.planning.rounds.asking.experience import experience_read
from portal.planning.rounds.endless import within
from portal.planning.rounds.planning.snapshot import state_load
from portal.planning.rounds.serializers import finite
from portal.planning.rounds.settings.knobs import knobs_current, scheduler_parameters
from portal.work.jobs.models import Job
from portal.work.jobs.selectors import ANOTHERS
from portal.work.jobs.services.asked.editing import widening_refused
from scheduler.asking.changes import OFFERED, Change, Kind, minutes
from scheduler.asking.tries import Gathering, gathering
from scheduler.asking.what_if import Answer, what_would_start
from scheduler.errors import InvalidJob
from scheduler.fairness.lrf import TOLD

if TYPE_CHECKING:
    from scheduler.asking.starts.ranges import StartRange

if TYPE_CHECKING:
    from scheduler.asking.starts.ranges import StartRange

CHANGES = tuple(map(str, OFFERED))
"""A tenant may change these of a waiting job."""
OFFERS_MAX = 3
OTHERS_SHOWN = 3
WORK_MAX_S = 60.0
"""A question that used this processor time never ends, and would keep all later ones waiting."""

_working = threading.Lock()


def changes_work(job: Job, only: tuple[str, Any] | None = None) -> dict[str, Any]:
    """Return `changes`, the `offers` among them (`OFFERS_MAX`, best end first), `starts_now` (it starts as it stands),
    `over_at` and `start` (as it stands) and `gathering`. `only`: one change and its value.

    Raises BerthError: `busy` (429) while another is worked out, `invalid` (409): it cannot be planned, `not_waiting` (409).
    """
    if not _working.acquire(blocking=False):
        raise BerthError("busy", "Another such question is being worked out; ask again in a few seconds.", status=429)
    try:
        return within(WORK_MAX_S, lambda: _worked_out(job, (Kind(only[0]), only[1]) if only else None))
    finally:
        _working.release()


def _worked_out(job: Job, only: tuple[Kind, Any] | None) -> dict[str, Any]:
    knobs, now = knobs_current(), timezone.now()
    parameters, now_s, rng = scheduler_parameters(knobs), now.timestamp(), np.random.default_rng(job.pk)
    state = state_load(now=now, parameters=parameters)
    is_guess = job.started_at is not None and job.age_source not in TOLD  # its age was fixed at its first start
    known = experience_read(now=now, parameters=parameters)
    known = replace(known, guessed=frozenset({job.pk} if is_guess else ()))
    clock = time.monotonic
    try:
        found = what_would_start(state, job.pk, parameters, rng, clock, now_s=now_s, experience=known, only=only)
    except KeyError as error:
        raise Conflict("not_waiting", f"Job {job.number} no longer waits; nothing was changed.") from error
    except InvalidJob as error:
        raise BerthError("invalid", f"It cannot be planned at all: {error.detail}.", status=409) from error
    answer: dict[str, Any] = finite(_answer(found, gathering(state, job.pk, now_s), job, r_num=knobs["r_num"]))
    return answer


def _answer(found: Answer, way: Gathering | None, job: Job, *, r_num: int) -> dict[str, Any]:
    named = {end.job for end in way.ends} if way else set()
    named |= {other for each in found.changes for other in each.later or ()}
    others = Job.objects.select_related(None).only("pk", "tenant_id", "array_id", "array_index").in_bulk(named)
    own = {pk: each for pk, each in others.items() if each.tenant_id == job.tenant_id}
    offers = [each for each in found.offers if widening_refused(job, each.kind, r_num=r_num) is None]
    return {
        "starts_now": any(each.kind is Kind.NONE for each in found.changes),
        "over_at": _iso(found.over_s),
        "start": _range(found.start),
        "changes": [_change(each, own) for each in found.changes],
        "offers": [_change(each, own) for each in offers[:OFFERS_MAX]],
        "gathering": way and _gathering(way, own),
    }


def _change(each: Change, own: Mapping[int, Job]) -> dict[str, Any]:
    """`own`: the jobs of its tenant. Other tenants' jobs are not named."""
    found = asdict(replace(each, start=None, verdict=None, later=None))
    verdict = each.verdict
    return found | {
        "change": str(found.pop("kind")),
        "sentence": each.sentence,
        "words": each.words,
        "cost": each.cost,
        "gains": each.gains,
        "no_gain": verdict and verdict.why and str(verdict.why),
        "why": each.no_gain,
        "over_s": verdict and verdict.over_s,
        "over_at": _iso(verdict.over_s if verdict else None),
        "start": _range(each.start),
        "later": _later(each.later, own),
    }


def _later(later: Mapping[int, float] | None, own: Mapping[int, Job]) -> str:
    """Say which jobs of the tenant would start later for it; of others only that there are some."""
    if later is None:
        return "Who else would start later was not worked out in time."
    named = sorted((pk for pk in later if pk in own), key=lambda pk: later[pk], reverse=True)
    told = [f"#{own[pk].number} would start {minutes(later[pk])} later" for pk in named[:OTHERS_SHOWN]]
    if len(named) > OTHERS_SHOWN:
        told.append(f"and {len(named) - OTHERS_SHOWN} more of your tenant's")
    sentences = [f"{', '.join(told)}."] if told else []
    if len(later) > len(named):
        sentences.append("Some job of another tenant would start later.")
    return " ".join(sentences) or "No other waiting job would start later."


def _range(start: StartRange | None) -> dict[str, str | None] | None:
    if start is None or start.earliest_s is None:
        return None
    ends = {"earliest_at": start.earliest_s, "median_at": start.median_s, "latest_at": start.latest_s}
    return {name: _iso(at_s) for name, at_s in ends.items()}


def _iso(at_s: float | None) -> str | None:
    return None if at_s is None else datetime.fromtimestamp(at_s, UTC).isoformat().replace("+00:00", "Z")


def _gathering(way: Gathering, own: Mapping[int, Job]) -> dict[str, Any]:
    ends = []
    for end in way.ends:
        number = own[end.job].number if end.job in own else None
        name = f"#{number}" if number else ANOTHERS
        known = {"known": end.known}
        ends.append({"at": end.at_s, "free": min(end.free, way.need), "job": number, "name": name, **known})
    return {"node": way.node, "need": way.need, "idle": way.idle, "ends": ends}
