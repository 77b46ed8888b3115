"""Which waiting jobs may no longer use their container image: a tenant's list may have become shorter since they came."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from portal.people.tenants.models import Tenant
from portal.planning.rounds.planning.queued import QueuedJob, cell
from portal.work.jobs.models import JobPayload
from portal.work.jobs.software import IMAGE, image_allowed

MAX_IMAGE_WORDS = 200


def images_refused(rows: Collection[QueuedJob]) -> dict[int, str]:
    """Return why not, by job, or by array for its tasks. Two queries if some rows want an image, a third if one is refused."""
    if IMAGE not in set(map(cell("software_need"), rows)):
        return {}
    whose = {row.tenant_id for row in rows if row.software_need == IMAGE}
    tenants = {pk: (name, images) for pk, name, images in Tenant.objects.filter(pk__in=whose).values_list(*_TENANT)}
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


_TENANT = ("pk", "name", "images")


def refused_figures(row: Any, refused: Mapping[int, str]) -> dict[str, Any] | None:
    """Return the figures of a row's reason; None = its image, if it wants one, may be used."""
    detail = refused.get(row.pk) or refused.get(row.array_id)
    return None if detail is None else {"detail": detail}


def _words(tenant: str, image: str) -> str:
    shown = image if len(image) <= MAX_IMAGE_WORDS else f"{image[:MAX_IMAGE_WORDS]}..."
    return f"tenant {tenant} may no longer use the image {shown}; an operator can allow it again"
