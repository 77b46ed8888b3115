"""The search field: a job's number, a node or a tenant by name leads there; anything else lists what its name holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.urls import reverse
from django.utils.http import urlencode

from portal.cluster.selectors import nodes_visible_to
from portal.foundation.bulk import rows_between
from portal.foundation.errors import BerthError, NotFound
from portal.people.tenants.models import Tenant
from portal.work.jobs.listing import job_find, jobs_for
from portal.work.jobs.searching import jobs_found

if TYPE_CHECKING:
    from portal.people.tenants.models import User

SHOWN = 20
LONGEST = 128


def search_target(user: User, text: str) -> str | None:
    """Return the URL of the one thing that `text` names exactly, or None."""
    try:
        return reverse("job-detail", args=[job_find(user=user, number=text.removeprefix("#")).number])
    except NotFound:
        pass  # no job's number: perhaps a name
    if node := nodes_visible_to(user).filter(name=text).first():
        return reverse("node-detail", args=[node.name])
    if tenant := Tenant.objects.visible_to(user).filter(name=text).first():
        return _tenant_url(tenant.name)
    return None


def search_context(user: User, text: str) -> dict[str, Any]:
    """Return jobs, nodes and tenants with `text` in their name, and jobs with it in a label, at most 20 each.

    Raises BerthError if it is too long.
    """
    if len(text) > LONGEST:
        raise BerthError("too_long", f"Search for at most {LONGEST} characters.", field="q")
    found = jobs_found(jobs_for(user=user).top_level(), text).order_by("-pk")
    jobs = rows_between(found, 0, SHOWN) if text else []
    nodes = nodes_visible_to(user).filter(name__icontains=text).order_by("name")[:SHOWN] if text else []
    tenants = Tenant.objects.visible_to(user).filter(name__icontains=text)[:SHOWN] if text else []
    return {
        "text": text,
        "limit": SHOWN,
        "jobs": [
            {
                "number": job.number,
                "url": reverse("job-detail", args=[job.number]),
                "name": job.name,
                "tenant": job.tenant.name,
                "owner": job.owner.username,
                "state": job.state,
                "submitted_at": job.submitted_at.isoformat(),
            }
            for job in jobs
        ],
        "nodes": [{"name": node.name, "url": reverse("node-detail", args=[node.name])} for node in nodes],
        "tenants": [{"name": tenant.name, "url": _tenant_url(tenant.name)} for tenant in tenants],
    }


def _tenant_url(name: str) -> str:
    return f"{reverse('job-list')}?{urlencode({'tenant': name})}"
