"""A shadow's answers: stored in few rows, deleted, and shown to people: numbers of jobs for ids, names of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from portal.cluster.models import Node
from portal.foundation.bulk import among
from portal.foundation.events.services import page_event
from portal.planning.rounds.settings.knobs import knobs_current
from portal.planning.sharing.models import ShadowDecision, ShadowPlanning
from portal.planning.sharing.selectors import SIDES, slowdowns_since
from portal.work.jobs.models import Job
from scheduler.estimator.measured import signature_of

ROWS = 200
"""The most jobs whose decisions are stored of one planning, those that differ first."""
MOST = 100_000
"""The most decisions that are kept, however young they are."""
MOST_PLANNINGS = 200_000
NOTHING = "nothing"
"""The rule where no GPU was there to be closed."""


@transaction.atomic
def shadow_store(record: ShadowPlanning, found: Mapping[str, Any] | None) -> ShadowPlanning:
    """Store a planning's comparison; None: there is none, its `error` says why. A second time it changes nothing."""
    if (there := ShadowPlanning.objects.filter(number=record.number).first()) is not None:
        return there
    if found is None:
        record.save()
        return record
    totals, rows = found["totals"], _new(found["rows"], record)
    record.asked, record.agreed, record.use = totals["asked"], totals["agreed"], totals["use"]
    record.left_out = totals["left_out"] + max(0, len(rows) - ROWS)
    record.save()
    ShadowDecision.objects.bulk_create(_decision(row, record) for row in rows[:ROWS])
    if rows:
        page_event(stream="cluster", topic="sharing")
    return record


def _new(rows: Sequence[dict[str, Any]], record: ShadowPlanning) -> list[dict[str, Any]]:
    """Return the jobs of which something else was said than last time, those first on which the policies differ."""
    ids = [row["job"] for row in rows]
    alive = set(Job.objects.filter(pk__in=among(ids)).values_list("pk", flat=True))
    known = ShadowDecision.objects.filter(
        job_id__in=among(ids), planning__acting=record.acting, planning__shadow=record.shadow
    )
    last = {
        job: (one, other) for job, one, other in known.order_by("pk").values_list("job", "acting_rule", "shadow_rule")
    }
    new = [row for row in rows if row["job"] in alive and last.get(row["job"]) != _rules(row)]
    return sorted(new, key=lambda row: row["acting"]["admits"] == row["shadow"]["admits"])


def _rules(row: Mapping[str, Any]) -> tuple[str, str]:
    return _rule(row["acting"]), _rule(row["shadow"])


def _rule(side: Mapping[str, Any]) -> str:
    return side["rule"] if side["admits"] else next(iter(side["closed"]), NOTHING)


def _decision(row: Mapping[str, Any], record: ShadowPlanning) -> ShadowDecision:
    acting, shadow = row["acting"], row["shadow"]
    one, other = _rules(row)
    return ShadowDecision(
        planning=record,
        at=record.at,
        job_id=row["job"],
        signature=row["signature"][:200],
        compute=row["compute"],
        memory_mib=row["memory_mib"],
        acting=acting,
        shadow=shadow,
        acting_admits=acting["admits"],
        shadow_admits=shadow["admits"],
        acting_rule=one,
        shadow_rule=other,
        acting_slowdown=acting.get("slowdown"),
        shadow_slowdown=shadow.get("slowdown"),
    )


def shadow_expire() -> int:
    """Delete rows older than kept plannings, and those over the limit; return how many decisions and plannings went."""
    limit = timezone.now() - timedelta(days=knobs_current()["planning_keep_days"])
    count = 0
    for model, most in ((ShadowDecision, MOST), (ShadowPlanning, MOST_PLANNINGS)):
        count += model.objects.filter(at__lt=limit).delete()[0]
        beyond = model.objects.order_by("-pk").values_list("pk", flat=True)[most : most + 1].first()
        if beyond is not None:
            count += model.objects.filter(pk__lte=beyond).delete()[0]
    return count


def names_of(jobs: Iterable[Job]) -> dict[int, str]:
    """Return each job's signature by its id."""
    return {job.pk: signature_of(job.tenant_id, job.model or None, job.pk) for job in jobs}


class Names:
    """The names of the jobs and nodes in decisions. Two queries; one that is gone is called by its id."""

    def __init__(self, rows: Iterable[ShadowDecision]) -> None:
        sides = [side for row in rows for side in (row.acting, row.shadow)]
        ids = {row.job_id for row in rows} | {job for side in sides for job, _ in side.get("beside", ())}
        jobs = Job.objects.filter(pk__in=ids).only("pk", "array_id", "array_index", "name")
        self.jobs = {job.pk: job for job in jobs}
        wanted = {side["node"] for side in sides if side.get("node") is not None}
        self._nodes = dict(Node.objects.filter(pk__in=wanted).values_list("pk", "name"))

    def job(self, number: int) -> str:
        return str(self.jobs[number].number if number in self.jobs else number)

    def side(self, side: Mapping[str, Any], rule: str) -> dict[str, Any]:
        """Return one policy's answer."""
        node = side.get("node")
        return {
            "admits": side["admits"],
            "rule": rule,
            "closed": side["closed"],
            "node": None if node is None else self._nodes.get(node, str(node)),
            "gpu": side.get("gpu"),
            "memory_mib": side.get("memory_mib"),
            "figure": side.get("figure"),
            "beside": [self.job(job) for job, _ in side.get("beside", ())],
            "slowdown": side.get("slowdown"),
        }


def decisions_told(rows: Sequence[ShadowDecision]) -> list[dict[str, Any]]:
    """Return decisions with later measurements. Three queries."""
    names, measured = Names(rows), slowdowns_since(rows)
    return [
        {
            "at": row.at,
            "planning": row.planning.number,
            "job": names.job(row.job_id),
            "name": names.jobs[row.job_id].name if row.job_id in names.jobs else "",
            "compute": row.compute,
            "memory_mib": row.memory_mib,
            **{side: names.side(getattr(row, side), getattr(row, f"{side}_rule")) for side in SIDES},
            "differ": row.acting_admits != row.shadow_admits,
            "measured": measured.get(row.pk),
        }
        for row in rows
    ]
