"""Take artefacts away: by a user, with their job, when their time is over, and files that a kill left without a row.

A tenant's quota counts them: the rows of file, job and tenant change together, under the tenant's lock.
"""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import F, Sum
from django.utils import timezone

from portal.foundation.errors import NotFound
from portal.people.tenants.models import Tenant
from portal.people.tenants.selectors import work_check
from portal.people.tenants.services import audit_record
from portal.work.artefacts import store
from portal.work.artefacts.models import Artefact, JobArtefacts, TenantArtefacts
from portal.work.artefacts.selectors import kept_days
from portal.work.artefacts.store import is_at_or_below
from portal.work.jobs.models import JobInput
from portal.work.jobs.services.parts import each_apart
from portal.work.jobs.states import FINAL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from django.db.models import QuerySet

    from portal.people.tenants.models import User
    from portal.work.jobs.models import Job


class Account:
    """A job's and its tenant's counts, locked until the transaction ends. The last lock that a transaction takes."""

    def __init__(self, job: Job) -> None:
        TenantArtefacts.objects.get_or_create(tenant_id=job.tenant_id)
        self.tenant = TenantArtefacts.objects.select_for_update(no_key=True).get(tenant_id=job.tenant_id)
        self.job, _ = JobArtefacts.objects.get_or_create(
            job=job, defaults={"tenant_id": job.tenant_id, "looked_at": timezone.now()}
        )

    def count(self, row: Artefact) -> None:
        """Set what a row takes: the kept content and the one on its way."""
        before, row.counted = row.counted, (row.size or 0) + (row.told_size or 0)
        self._add(row.counted - before, files=0)

    def forget(self, row: Artefact) -> None:
        """Count a stored row no longer, and delete it."""
        self._add(-row.counted, files=-1)
        row.delete()

    def enter(self, row: Artefact) -> None:
        """Count one more file."""
        row.save()
        self._add(0, files=1)

    def _add(self, size: int, *, files: int) -> None:
        self.tenant.counted = max(0, self.tenant.counted + size)
        self.job.counted, self.job.files = max(0, self.job.counted + size), max(0, self.job.files + files)

    def save(self) -> None:
        TenantArtefacts.objects.filter(pk=self.tenant.pk).update(counted=self.tenant.counted)
        self.job.save(update_fields=["counted", "files", "notes", "left_out", "removed", "looked_at"])


def tenant_uncount(*, tenant_id: int, size: int) -> None:
    """Give back what a job that is no more took."""
    rows = TenantArtefacts.objects.filter(tenant_id=tenant_id)
    rows.filter(counted__gte=size).update(counted=F("counted") - size)


log = logging.getLogger(__name__)

UNSENT = timedelta(days=7)
"""The time after a job's end in which its node may still send; then the missing files are shown as lost."""
AT_ONCE, FOLDERS_AT_ONCE = 500, 100
RUN_S = 60.0
"""The longest time of one run, since plannings wait for the same workers: some ten thousand jobs."""
MOST_REMOVED = 1000
"""The most removed paths of a job that are remembered, so that a node that still has the files sends none again."""
AHEAD_NS = 3600 * 10**9
"""The most that a node's clock may be ahead of ours. Later times of files are their jobs' own invention."""
NEVER_SENT = "its node did not send it"


def artefacts_remove(*, job: Job, actor: User, path: str = "") -> int:
    """Remove one artefact, all below a folder, or with "" all of a job; return how many. Raises Forbidden, NotFound."""
    work_check(actor, job.tenant)
    with transaction.atomic():
        account = Account(job)
        rows = [row for row in Artefact.objects.filter(job=job) if is_at_or_below(row.path, path)]
        if not rows:
            raise NotFound("artefact")
        names = [name for row in rows for name in (row.blob, row.incoming)]
        for row in rows:
            account.forget(row)
        account.job.removed = dict([*account.job.removed.items(), (path, _removed_ns(rows))][-MOST_REMOVED:])
        account.save()
        audit_record(
            actor=actor,
            action="artefacts.remove",
            target=f"job:{job.pk}",
            tenant=job.tenant,
            detail={"path": path, "files": len(rows)},
        )
        transaction.on_commit(partial(store.drop, job.key, names))
    return len(rows)


def _removed_ns(rows: Iterable[Artefact]) -> int:
    """Return the moment up to which these files' states count as removed: now, or later where their node's clock is ahead."""
    now_ns = time.time_ns()
    latest_ns = max(max(row.modified_ns, row.told_ns) for row in rows)
    return min(max(now_ns, latest_ns), now_ns + AHEAD_NS)


def job_gone(*, instance: JobArtefacts, **_: Any) -> None:
    """Follow a deleted job: its bytes go, and no longer count."""
    tenant_uncount(tenant_id=instance.tenant_id, size=instance.counted)
    transaction.on_commit(partial(store.drop_job, instance.job.key))


def artefacts_expire() -> int:
    """Remove the artefacts of jobs that ended longer ago than their tenant keeps them; return how many jobs.

    Inputs of a job that has not ended stay. One failure keeps no other file from going.
    """
    until_s, done = time.monotonic() + RUN_S, 0
    needed = JobInput.objects.exclude(job__state__in=FINAL).exclude(source=None).values("source")
    for tenant in Tenant.objects.all():
        if (days := kept_days(tenant)) is None:
            continue
        over = JobArtefacts.objects.filter(tenant=tenant, job__ended_at__lt=timezone.now() - timedelta(days=days))
        for row in _one_by_one(over.exclude(job__in=needed).select_related("job"), until_s):
            with each_apart(f"the end of the artefacts of job {row.job_id}"), transaction.atomic():
                Artefact.objects.filter(job=row.job_id).delete()
                row.delete()  # gives back its bytes (`job_gone`)
                done += 1
    _unsent_close(until_s)
    return done


def _one_by_one(rows: QuerySet[Any], until_s: float) -> Iterator[Any]:
    """Yield rows in the order of their keys until that time; the next run goes on."""
    last: Any = 0
    while found := list(rows.filter(pk__gt=last).order_by("pk")[:AT_ONCE]):
        last = found[-1].pk  # now: a deleted row has none
        for row in found:
            if time.monotonic() > until_s:
                log.warning("artefacts: this run's %.0f s are over; the next goes on with the rest", RUN_S)
                return
            yield row


def _unsent_close(until_s: float) -> None:
    """Mark the files that never came."""
    late = Artefact.objects.filter(job__state__in=FINAL, job__ended_at__lt=timezone.now() - UNSENT).exclude(incoming="")
    for row in _one_by_one(late.select_related("job"), until_s):
        with each_apart(f"the end of waiting for artefact {row.pk}"), transaction.atomic():
            account = Account(row.job)
            transaction.on_commit(partial(store.drop, row.job.key, [row.incoming]))
            row.told_size, row.incoming, row.reason = None, "", NEVER_SENT
            account.count(row)
            row.save()
            account.save()


def artefacts_sweep() -> int:
    """Remove stored contents that no row names, a day old or older, and count each tenant anew; return how many went."""
    removed, folders = 0, store.folders()
    while some := dict(islice(folders, FOLDERS_AT_ONCE)):
        known: dict[str, set[str]] = {key: set() for key in some}
        for key, *names in Artefact.objects.filter(job__key__in=some).values_list("job__key", "blob", "incoming"):
            known[key].update(names)
        for key, folder in some.items():
            with each_apart(f"the sweep of {folder}"):
                removed += _folder_sweep(key, folder, known[key])
    for tenant_id in TenantArtefacts.objects.values_list("pk", flat=True):
        with transaction.atomic():
            TenantArtefacts.objects.select_for_update(no_key=True).get(pk=tenant_id)
            total = JobArtefacts.objects.filter(tenant=tenant_id).aggregate(total=Sum("counted"))["total"] or 0
            TenantArtefacts.objects.filter(pk=tenant_id).update(counted=total)
    return removed


def _folder_sweep(key: str, folder: Path, known: set[str]) -> int:
    try:
        here = list(folder.iterdir())
    except FileNotFoundError:  # its job was deleted just now
        return 0
    strange = [path for path in here if path.name not in known and _is_old(path)]
    for path in strange:
        path.unlink(missing_ok=True)
    if not known and _is_old(folder):
        store.drop_job(key)
    return len(strange)


def _is_old(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime > store.ORPHAN_S
    except FileNotFoundError:
        return False
