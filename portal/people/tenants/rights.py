"""The rights of each role in a tenant. One rule, asked by every service that changes something of a tenant's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from portal.foundation.errors import Forbidden
from portal.people.tenants.models import Membership
from portal.people.tenants.selectors import role_of

if TYPE_CHECKING:
    from portal.people.tenants.models import Tenant, User

SEE, WORK, MANAGE = "see", "work", "manage"
RIGHTS: dict[str, frozenset[str]] = {
    Membership.Role.VIEWER: frozenset({SEE}),
    Membership.Role.MEMBER: frozenset({SEE, WORK}),
    Membership.Role.MANAGER: frozenset({SEE, WORK, MANAGE}),
    "operator": frozenset({SEE, WORK, MANAGE}),
}
MEANINGS = {
    Membership.Role.VIEWER: "sees jobs, logs and usage",
    Membership.Role.MEMBER: "also submits jobs and acts on them",
    Membership.Role.MANAGER: "also raises priorities, invites and removes members",
}


def may(user: User, tenant: Tenant, right: str) -> bool:
    return right in RIGHTS.get(role_of(user=user, tenant=tenant) or "", frozenset())


def work_check(user: User | None, tenant: Tenant) -> None:
    """Refuse a viewer who would change something; None: Berth itself. Outsiders never come so far: all is missing to them."""
    if user is not None and role_of(user=user, tenant=tenant) == Membership.Role.VIEWER:
        detail = f"You are a viewer of {tenant.name}: you see its jobs and change nothing. Ask a manager for the role member."
        raise Forbidden(detail, code="viewer")


def manage_check(user: User, tenant: Tenant) -> None:
    if not may(user, tenant, MANAGE):
        raise Forbidden(f"Only a manager of {tenant.name} may do this.", code="manager_only")
