"""Read the jobs that a job waits for, and those that wait for it, some steps far: at most ten queries."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from portal.work.jobs.models import Job, JobDependency

if TYPE_CHECKING:
    from collections.abc import Iterable

STEPS = 4
"""Steps that are followed in each direction."""
MOST = 40
"""Jobs that are drawn; a wider chain says that there are more."""

Edge = tuple[int, int, str]
"""The job that is waited for, the one that waits, and the kind."""


@dataclass
class Chain:
    """`jobs`: those of the job's own tenant, by their keys; other keys in `edges` are another tenant's."""

    own: int
    jobs: dict[int, Job] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)
    more: bool = False

    def levels(self) -> dict[int, int]:
        """Return each job's column: one more than the furthest that it waits for. A job only waits for older ones."""
        found: dict[int, int] = {}
        for key in sorted({self.own} | {key for edge in self.edges for key in edge[:2]}):
            before = [found[on] for on, job, _ in self.edges if job == key and on in found]
            found[key] = max(before, default=-1) + 1
        return found


def chain_of(job: Job) -> Chain | None:
    """Return the chain of a job (of a task: of its array); None where it neither waits nor is waited for."""
    own = job.array_id or job.pk
    edges: set[Edge] = set()
    known = {own}
    more = False
    for back in (True, False):
        front = {own}
        for _ in range(STEPS):
            found = _edges(front, tenant_id=job.tenant_id, back=back)
            beyond = {edge[0 if back else 1] for edge in found} - known
            if not beyond and found <= edges:
                break
            room = MOST - len(known)
            more = more or len(beyond) > room
            front = set(sorted(beyond)[: max(0, room)])
            known |= front
            edges |= {edge for edge in found if edge[0] in known and edge[1] in known}
            if not front:
                break
    if not edges:
        return None
    jobs = Job.objects.filter(pk__in=known, tenant_id=job.tenant_id).in_bulk()
    return Chain(own, jobs, sorted(edges), more)


def _edges(front: Iterable[int], *, tenant_id: int, back: bool) -> set[Edge]:
    """Return the dependencies of these jobs (`back`), or on them. Another tenant's jobs lead no further."""
    rows = JobDependency.objects.filter(job__in=front) if back else JobDependency.objects.filter(on__in=front)
    rows = rows.filter(job__tenant_id=tenant_id) if back else rows.filter(on__tenant_id=tenant_id)
    return set(rows.order_by("-pk").values_list("on_id", "job_id", "kind")[: 4 * MOST])
