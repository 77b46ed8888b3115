"""Decisions as people read them: numbers of jobs in place of ids, names of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from portal.cluster.models import Node
from portal.planning.sharing.selectors import SIDES, slowdowns_since
from portal.work.jobs.models import Job
from scheduler.estimator.tables import signature_of

if TYPE_CHECKING:
    from portal.planning.sharing.models import ShadowDecision


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
