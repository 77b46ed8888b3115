"""Note what a person has looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from portal.people.accounts.models import Looked

if TYPE_CHECKING:
    from collections.abc import Collection

    from portal.people.tenants.models import User

WHATS = ("end", "offer", "limit")


def looked_at(*, user: User, job_ids: Collection[int], what: str) -> None:
    """Note it; once is enough, so that a page that is loaded again writes nothing."""
    known = set(Looked.objects.filter(user=user, what=what, job_id__in=job_ids).values_list("job_id", flat=True))
    fresh = [Looked(user=user, job_id=pk, what=what) for pk in job_ids if pk not in known]
    if fresh:
        Looked.objects.bulk_create(fresh, ignore_conflicts=True)
