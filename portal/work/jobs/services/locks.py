"""One order in which rows are locked, so that no two transactions ever wait for each other:

tenants by id, nodes by id, jobs by id (an array's parent is older than its tasks, a dependant younger than what it waits
for), then attempts. SQLite has one writer at a time and needs none of it; there these queries are plain reads.

Locks are FOR NO KEY UPDATE: a row that merely refers to a locked one (an event, an outbox row) can still be inserted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import connection, transaction
from django.db.models import Q

from portal.cluster.models import Node
from portal.foundation.bulk import among
from portal.people.tenants.models import Tenant
from portal.work.jobs.models import Allocation, Attempt, Job, JobDependency
from portal.work.jobs.states import ACTIVE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

TRIES = 20


def tenants_lock(ids: Iterable[int]) -> dict[int, Tenant]:
    rows = Tenant.objects.select_for_update(no_key=True).filter(pk__in=among(set(ids))).order_by("pk")
    return {row.pk: row for row in rows}


def nodes_lock(ids: Iterable[int]) -> dict[int, Node]:
    rows = Node.objects.select_for_update(no_key=True).filter(pk__in=among(set(ids))).order_by("pk")
    return {row.pk: row for row in rows}


def nodes_keep(ids: Iterable[int]) -> None:
    """Lock nodes without reading them, in the same order as `nodes_lock`."""
    rows = Node.objects.select_for_update(no_key=True).filter(pk__in=among(set(ids))).order_by("pk")
    list(rows.values_list("pk", flat=True))


def jobs_lock(ids: Iterable[int], *, fields: Sequence[str] = ()) -> dict[int, Job]:
    """Lock jobs and read them. `fields`: read only these, where the jobs are many."""
    rows = Job.objects.select_for_update(no_key=True).filter(pk__in=among(set(ids))).order_by("pk")
    rows = rows.only(*fields) if fields else rows
    return {row.pk: row for row in rows}


def jobs_keep(ids: Iterable[int]) -> None:
    """Lock jobs without reading them, in the same order as `jobs_lock`: there may be 100 000."""
    rows = Job.objects.select_for_update(no_key=True).filter(pk__in=among(set(ids))).order_by("pk")
    for _ in rows.values_list("pk", flat=True).iterator(10_000):
        pass


def attempt_lock(*, attempt_id: int) -> Attempt | None:
    """Lock an attempt's road (its nodes, its job with array and dependants, itself) and return it fresh, or None."""
    found = Attempt.objects.filter(pk=attempt_id).values_list("job_id", flat=True).first()
    if found is None:
        return None
    if connection.features.has_select_for_update:
        nodes_lock(Allocation.objects.filter(attempt_id=attempt_id).values_list("node_id", flat=True))
        jobs_lock(family([found]))
    return Attempt.objects.select_for_update(no_key=True).filter(pk=attempt_id).first()


def job_road_lock(job_id: int) -> None:
    """Lock one job's road."""
    road_lock(jobs=lambda: [job_id])


def road_lock(*, jobs: Callable[[], Iterable[int]], nodes: Iterable[int] = ()) -> None:
    """Lock the jobs that `jobs()` names, their families, the nodes of their live attempts, and `nodes`.

    `jobs()` is asked again once all is locked; jobs that came meanwhile are locked in another try.
    """
    if not connection.features.has_select_for_update:
        return
    for _ in range(TRIES):
        ids = family(jobs())
        node_ids = set(nodes) | _nodes_of(ids)
        with transaction.atomic():
            nodes_lock(node_ids)
            jobs_lock(ids)
            if set(jobs()) <= ids and _nodes_of(ids) <= node_ids:
                return
            transaction.set_rollback(True)  # gives back the locks taken in this try
    raise TimeoutError(f"The jobs kept changing while they were being locked, {TRIES} times.")


def _nodes_of(job_ids: set[int]) -> set[int]:
    held = Allocation.objects.filter(attempt__job__in=job_ids, attempt__ended_at=None, released_at=None)
    return set(held.order_by().values_list("node_id", flat=True))


def family(job_ids: Iterable[int]) -> set[int]:
    """Return the jobs, their arrays' parents, and all that may be cancelled when they fail: dependants and their tasks."""
    ids = set(job_ids)
    ids |= set(Job.objects.filter(pk__in=ids, array__isnull=False).values_list("array_id", flat=True))
    front = ids
    while front:
        found = set(JobDependency.objects.filter(on__in=front).values_list("job_id", flat=True)) - ids
        if found:
            found |= set(Job.objects.filter(Q(array__in=found), state__in=ACTIVE).values_list("pk", flat=True))
        ids |= found
        front = found
    return ids
