"""Signatures of jobs: the keys by which uses and speeds are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.estimator.tables import signature_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from portal.work.jobs.models import Job


def names_of(jobs: Iterable[Job]) -> dict[int, str]:
    """Return each job's signature by its id."""
    return {job.pk: signature_of(job.tenant_id, job.model or None, job.pk) for job in jobs}
