"""Keep what a planning said of a job in detail, when it changed; read it back as it stood in any planning.

A row is written only when a job's reason, its side of the window or its binding node differs from the planning before,
and only for jobs of the window and those that leave it: the others' figures follow from the queue (section 7).
"""

from __future__ import annotations

import json
import time
import zlib
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
from django.db.models import Exists, Max, OuterRef
from django.utils import timezone

from portal.jobs.states import QUEUED
from portal.rounds.decisions import SIDES, columns_of, decisions_read
from portal.rounds.knobs import knobs_current
from portal.rounds.models import Explanation, Planning

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from portal.rounds.decisions import Decisions
    from scheduler.model import Decision, Plan

COMPARED = ("reason", "side", "binding")
OUTSIDE = SIDES.index("outside")
NO_SIDE = SIDES.index("")

BUDGET_SHARE = 0.02
"""Of a tick, what a planning may spend on details; the jobs it does not come to have theirs made by the next ones."""


@dataclass(frozen=True, slots=True)
class Details:
    """What a planning has to tell anew, and of which jobs the detail in force is stored once it has."""

    rows: list[Explanation]
    detailed: frozenset[int]


def explanations_make(*, made: Plan, record: Planning, budget_s: float) -> Details:
    """Return the details that changed since the last applied planning, first those at the head of the queue. One query.

    Outside the transaction that applies the plan: candidates are looked at again for each job.
    """
    last = Planning.objects.filter(status=Planning.Status.APPLIED, number__lt=record.number).only("decisions")
    changed, kept = _changed(made.decisions, decisions_read(last.order_by("-number").first()))
    until = time.monotonic() + budget_s
    rows = []
    for place in changed:
        if rows and time.monotonic() > until:
            break
        rows.append(_row(made.decisions[place], record))
    return Details(rows, kept | {row.job_id for row in rows})


def explanations_store(details: Details) -> None:
    """Store them, in one insert for each 2 000."""
    Explanation.objects.bulk_create(details.rows, batch_size=2000)


def _changed(decisions: Sequence[Decision], before: Decisions) -> tuple[list[int], frozenset[int]]:
    """Return the places of the decisions whose detail is to be made, and the jobs whose stored one still holds."""
    columns, _, _ = columns_of(decisions)
    jobs = columns["job"]
    if not len(jobs):
        return [], frozenset()
    same, inside_before = np.zeros(len(jobs), dtype=bool), np.zeros(len(jobs), dtype=bool)
    if len(before):
        order = np.argsort(before.jobs, kind="stable")
        place = order[np.minimum(np.searchsorted(before.jobs, jobs, sorter=order), len(order) - 1)]
        known = before.jobs[place] == jobs
        same = known & (before.columns["detailed"][place] == 1)
        for name in COMPARED:
            same &= before.columns[name][place] == columns[name]
        inside_before = known & _inside(before.columns["side"][place])
    wanted = ~same & (_inside(columns["side"]) | inside_before)
    return np.flatnonzero(wanted).tolist(), frozenset(jobs[same].tolist())


def _inside(sides: np.ndarray) -> np.ndarray:
    return (sides != OUTSIDE) & (sides != NO_SIDE)


def _row(decision: Decision, record: Planning) -> Explanation:
    told = {"figures": dict(decision.figures), "detail": dict(decision.detail) or None}
    return Explanation(
        job_id=decision.job,
        planning_number=record.number,
        at=record.started_at,
        reason=str(decision.reason or ""),
        side=str(decision.standing.side) if decision.standing else "",
        detail=zlib.compress(json.dumps(told, separators=(",", ":")).encode()),
    )


def explanations_of(job_ids: Collection[int], *, number: int | None = None) -> dict[int, dict[str, Any]]:
    """Return each job's detail as it stood in planning `number` (None: now): `{"planning", "at", "reason", "side",
    "figures", "detail"}`. One query. Whoever asks has made sure that its reader may see the jobs.
    """
    rows = Explanation.objects.filter(job_id__in=job_ids)
    if number is not None:
        rows = rows.filter(planning_number__lte=number)
    latest = rows.order_by().values("job").annotate(last=Max("pk")).values("last")
    return {row.job_id: _shown(row) for row in Explanation.objects.filter(pk__in=latest)}


def _shown(row: Explanation) -> dict[str, Any]:
    told = json.loads(zlib.decompress(bytes(row.detail)))
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
