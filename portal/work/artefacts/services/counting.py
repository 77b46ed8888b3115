"""Count artefacts in a tenant's quota: the rows of file, job and tenant change together, under the tenant's lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import F
from django.utils import timezone

from portal.work.artefacts.models import Artefact, JobArtefacts, TenantArtefacts

if TYPE_CHECKING:
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
