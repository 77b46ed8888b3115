"""The highest priority that a member may give a job: one check for a new job and for a change of its priority."""

from __future__ import annotations

from typing import TYPE_CHECKING

from portal.foundation.errors import Forbidden
from portal.people.tenants.selectors import priority_ceiling

if TYPE_CHECKING:
    from portal.people.tenants.models import Tenant, User


def ceiling_check(*, user: User, tenant: Tenant, priority: int) -> None:
    """Raise Forbidden when `priority` is above what the user's role in the tenant allows."""
    ceiling = priority_ceiling(user=user, tenant=tenant)
    if priority > ceiling:
        raise Forbidden(
            f"Your priority ceiling in {tenant.name} is {ceiling}; a manager may set more.",
            code="priority_too_high",
            field="priority",
        )
