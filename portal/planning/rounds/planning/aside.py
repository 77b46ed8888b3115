"""Why a job of the queue does not wait for its turn: it is held or blocked, its image is not allowed, it may run unknown to us.

A tenant's list of images may have become shorter since a job came. After a restore a job may be running on a node that has
not spoken yet, and so is not started.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from portal.cluster.selectors import nodes_unsettled
from portal.foundation.environment import env
from portal.people.tenants.models import Tenant
from portal.planning.rounds.planning.queued import QueuedJob, Waits, cell, waits_figures
from portal.work.jobs.models import JobPayload
from portal.work.jobs.software import IMAGE, image_allowed
from portal.work.jobs.states import JobState
from scheduler.model import Reason

MAX_IMAGE_WORDS = 200
NOBODY: Mapping[int, str] = MappingProxyType({})


class Aside(NamedTuple):
    """Why a job does not wait for its turn, with the figures."""

    reason: Reason | None
    figures: dict[str, Any]


IN_TURN = Aside(None, {})
"""It does wait for its turn."""


def aside_of(
    job: Any, *, blocked: Waits | None, unsettled: UnsettledNodes, refused: Mapping[int, str] = NOBODY
) -> Aside:
    """`refused`: as `images_refused` returns."""
    if job.state == JobState.HELD:
        return Aside(Reason.HELD, {})
    if blocked is not None:
        return Aside(Reason.DEPENDENCY, waits_figures(blocked))
    if detail := refused.get(job.pk) or refused.get(job.array_id):
        return Aside(Reason.INVALID, {"detail": detail})
    return Aside(Reason.RESTORED, unsettled.figures) if unsettled.keeps(job) else IN_TURN


def images_refused(rows: Collection[QueuedJob]) -> dict[int, str]:
    """Return why not, by job, or by array for its tasks. Two queries if some rows want an image, a third if one is refused."""
    if IMAGE not in set(map(cell("software_need"), rows)):
        return {}
    whose = {row.tenant_id for row in rows if row.software_need == IMAGE}
    tenants = {
        pk: (name, images)
        for pk, name, images in Tenant.objects.filter(pk__in=whose).values_list("pk", "name", "images")
    }
    asked = JobPayload.objects.filter(job__tenant__in=whose, job__software_need=IMAGE, job__ended_at=None).order_by()
    pairs = asked.values_list("job__tenant", "software__image").distinct()
    refused = {(tenant, image) for tenant, image in pairs if not image_allowed(image, tenants[tenant][1])}
    if not refused:
        return {}
    theirs = asked.filter(job__tenant__in={tenant for tenant, _ in refused})
    return {
        job: _words(tenants[tenant][0], image)
        for job, tenant, image in theirs.values_list("job", "job__tenant", "software__image")
        if (tenant, image) in refused
    }


def _words(tenant: str, image: str) -> str:
    shown = image if len(image) <= MAX_IMAGE_WORDS else f"{image[:MAX_IMAGE_WORDS]}..."
    return f"tenant {tenant} may no longer use the image {shown}; an operator can allow it again"


NAMED = 3
"""The number of nodes named in the reason; the others are counted."""


@dataclass(frozen=True, slots=True)
class UnsettledNodes:
    """The nodes that have not spoken since the restore at `since_s` (Unix seconds), and whether every lease from before it
    is over: its own node has killed each such job by then, silent or not.
    """

    nodes: tuple[str, ...] = ()
    since_s: float = 0.0
    leases_over: bool = False

    @classmethod
    def read(cls, *, now_s: float) -> UnsettledNodes:
        """Read which nodes are waited for. One query."""
        rows = nodes_unsettled()
        if not rows:
            return cls()
        since_s = max(since for _, since in rows).timestamp()
        lease_s = env("BERTH_LEASE_S") + env("BERTH_LEASE_GRACE_S")
        return cls(tuple(name for name, _ in rows), since_s, now_s > since_s + lease_s)

    @property
    def figures(self) -> dict[str, Any]:
        more = len(self.nodes) - NAMED
        return {"nodes": list(self.nodes[:NAMED])} | ({"more": more} if more > 0 else {})

    def keeps(self, job: Any) -> bool:
        """Say whether a job may run unknown to us: older than the restore, and ended by no lease. `job`: a `QueuedJob`."""
        if not self.nodes or job.submitted_s >= self.since_s:
            return False
        return not (self.leases_over and job.is_requeueable)
