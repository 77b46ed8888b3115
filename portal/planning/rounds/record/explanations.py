"""Keep a planning's details of a job when they changed; read them back as they stood in any planning.

A row is written only when a job's reason, its side of the window or its binding node differs from the planning before,
and only for the head of the queue, jobs of the window, those that leave it, and whoever starts from outside it (on a shared
GPU, by the sweep, a CPU job): the others' figures follow from the queue (section 7).
"""

from __future__ import annotations

import json
import logging
import time
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from django.db.models import Exists, Max, OuterRef, QuerySet
from django.utils import timezone

from portal.planning.rounds.models import Explanation, Planning
from portal.planning.rounds.record.packing import REASONS, RESULTS, SIDES, Columns
from portal.planning.rounds.settings.knobs import knobs_current
from portal.work.jobs.states import QUEUED

if TYPE_CHECKING:
    from portal.planning.rounds.record.decisions import Decisions
    from scheduler.model import Decision, Plan

COMPARED = ("reason", "side", "binding")
OUTSIDE = SIDES.index("outside")
NO_SIDE = SIDES.index("")
PLACED = RESULTS.index("placed")
log = logging.getLogger(__name__)
TURN_NOT_COME = REASONS.index("outside-window")
"""It has no figures of its own."""

BUDGET_SHARE = 0.02
"""The share of a tick that a planning may spend on details; the next plannings make those of the other jobs."""


FRESH_JOBS = 100
"""The first jobs of the queue, in the window or not, have a row, and its figures are refreshed in place when only
those changed: people compare the rows of one page, so these must all be of one planning."""


@dataclass(frozen=True, slots=True)
class Details:
    """A planning's changes of details: rows to add, figures to refresh, and the mark of each job's stored figures."""

    rows: list[Explanation]
    refreshed: dict[int, bytes]
    marks: dict[int, int]


def explanations_make(*, made: Plan, columns: Columns, before: Decisions, record: Planning, budget_s: float) -> Details:
    """Return the details that changed since the last applied planning, first those at the head of the queue.

    `columns`: the plan's, as `columns_of` makes them; `before`: that planning's decisions.

    Outside the transaction that applies the plan: candidates are looked at again for each job.
    """
    changed, kept = _changed(columns.values, before)
    jobs, until = columns.values["job"].tolist(), time.monotonic() + budget_s
    details = Details([], {}, {jobs[place]: mark for place, mark in kept.items()})
    for place in changed:
        if details.rows and time.monotonic() > until:
            return details
        with _told_alone(decision := made.decisions[place]):
            row, mark = _row(decision, record), _mark(decision)
            details.rows.append(row)
            details.marks[decision.job] = mark
    for place in islice(kept, FRESH_JOBS):
        if time.monotonic() > until:
            break
        with _told_alone(decision := made.decisions[place]):
            if (mark := _mark(decision)) != kept[place]:
                details.refreshed[decision.job], details.marks[decision.job] = _told(decision, record), mark
    return details


@contextmanager
def _told_alone(decision: Decision) -> Iterator[None]:
    """Let no job whose details we fail over keep the plan from being applied: it has none."""
    try:
        yield
    except Exception:
        log.exception("the details of job %d could not be told, which is a fault of Berth", decision.job)


def explanations_store(details: Details) -> None:
    """Store them: an insert and an update for each 2 000."""
    Explanation.objects.bulk_create(details.rows, batch_size=2000)
    if details.refreshed:
        rows = list(Explanation.objects.filter(pk__in=_latest(Explanation.objects.filter(job__in=details.refreshed))))
        for row in rows:
            row.detail = details.refreshed[row.job_id]
        Explanation.objects.bulk_update(rows, ["detail"])


def _latest(rows: QuerySet[Explanation]) -> QuerySet[Any]:
    return rows.order_by().values("job").annotate(last=Max("pk")).values("last")


def _changed(columns: Mapping[str, np.ndarray], before: Decisions) -> tuple[list[int], dict[int, int]]:
    """Return the places of the decisions whose detail is to be made, and those whose stored one holds, with its mark."""
    jobs = columns["job"]
    if not len(jobs):
        return [], {}
    same, inside_before = np.zeros(len(jobs), dtype=bool), np.zeros(len(jobs), dtype=bool)
    marks = np.zeros(len(jobs), dtype=np.uint32)
    if len(before):
        order = np.argsort(before.jobs, kind="stable")
        place = order[np.minimum(np.searchsorted(before.jobs, jobs, sorter=order), len(order) - 1)]
        known = before.jobs[place] == jobs
        marks = before.columns["detail"][place]
        same = known & (marks > 0)
        for name in COMPARED:
            same &= before.columns[name][place] == columns[name]
        inside_before = known & _inside(before.columns["side"][place])
    head = (np.arange(len(jobs)) < FRESH_JOBS) & (columns["reason"] != TURN_NOT_COME)
    wanted = ~same & (head | _inside(columns["side"]) | inside_before | (columns["result"] == PLACED))
    kept = np.flatnonzero(same)
    return np.flatnonzero(wanted).tolist(), dict(zip(kept.tolist(), marks[kept].tolist(), strict=True))


def _inside(sides: np.ndarray) -> np.ndarray:
    return (sides != OUTSIDE) & (sides != NO_SIDE)


def _mark(decision: Decision) -> int:
    """Return a mark of the figures, above 0; equal figures have equal marks."""
    return zlib.crc32(json.dumps(dict(decision.figures), sort_keys=True).encode()) or 1


def _told(decision: Decision, record: Planning) -> bytes:
    told = {"figures": dict(decision.figures), "detail": dict(decision.detail) or None, "planning": record.number}
    return zlib.compress(json.dumps(told, separators=(",", ":")).encode())


def _row(decision: Decision, record: Planning) -> Explanation:
    return Explanation(
        job_id=decision.job,
        planning_number=record.number,
        at=record.started_at,
        reason=str(decision.reason or ""),
        side=str(decision.standing.side) if decision.standing else "",
        detail=_told(decision, record),
    )


def explanations_of(job_ids: Collection[int], *, number: int | None = None) -> dict[int, dict[str, Any]]:
    """Return each job's detail as it stood in planning `number` (None: now): `planning, at, reason, side, figures, detail`.

    `at`: since when its reason holds; `planning`: that of the figures, the last ones under that reason. One query. The
    caller has made sure that its reader may see the jobs. One that cannot be read any more is left out, which the log tells.
    """
    rows = Explanation.objects.filter(job_id__in=job_ids)
    if number is not None:
        rows = rows.filter(planning_number__lte=number)
    shown = {row.job_id: _shown(row) for row in Explanation.objects.filter(pk__in=_latest(rows))}
    return {job: told for job, told in shown.items() if told is not None}


def _shown(row: Explanation) -> dict[str, Any] | None:
    try:
        told = json.loads(zlib.decompress(bytes(row.detail)))
    except (zlib.error, ValueError) as error:  # zlib's checksum finds any damage to the packed bytes
        log.warning("planning %s's detail of job %s cannot be read: %s", row.planning_number, row.job_id, error)
        return None
    return {
        "planning": row.planning_number,
        "at": row.at,
        "reason": row.reason or None,
        "side": row.side or None,
        **told,
    }


def explanations_expire() -> int:
    """Delete details older than the operator keeps plannings, but for the one that is in force of a waiting job."""
    limit = timezone.now() - timedelta(days=knobs_current()["planning_keep_days"])
    newer = Explanation.objects.filter(job=OuterRef("job"), pk__gt=OuterRef("pk"))
    old = Explanation.objects.filter(at__lt=limit)
    return old.exclude(~Exists(newer), job__state__in=QUEUED).delete()[0]
