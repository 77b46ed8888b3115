"""The rights of each role in a tenant. One rule, asked by every service that changes something of a tenant's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from portal.foundation.errors import BerthError, Forbidden
from portal.people.tenants.models import Membership, Tenant, User
from portal.people.tenants.selectors import priority_ceiling, role_of, tenants_of

if TYPE_CHECKING:
    from portal.people.tenants.models import User


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


def tenant_resolve(*, user: User, tenant: Tenant | None, name: str | None, what: str = "the job is") -> Tenant:
    """Return the tenant for a `what`. A token's tenant wins. A foreign and a missing name get the same answer."""
    if tenant is not None and name and tenant.name != name:
        raise Forbidden(
            f"This token is for tenant {tenant.name} only; use another token for another tenant.", field="tenant"
        )
    if tenant is None and name:
        tenant = Tenant.objects.visible_to(user).filter(name=name).first()
    elif tenant is None:
        own = tenants_of(user)
        if len(own) != 1:
            names = ", ".join(t.name for t in own) or "none; ask an operator to add you to one"
            raise BerthError("required", f"Say for which tenant {what}. Your tenants: {names}.", field="tenant")
        tenant = own[0]
    if tenant is None or role_of(user=user, tenant=tenant) is None:
        raise BerthError("unknown_tenant", "No such tenant, or you are not a member of it.", field="tenant")
    work_check(user, tenant)
    if not tenant.is_active:
        raise Forbidden(f"Tenant {tenant.name} is closed to new jobs; ask an operator.", field="tenant")
    return tenant


def ceiling_check(*, user: User, tenant: Tenant, priority: int) -> None:
    """Raise Forbidden when `priority` is above what the user's role in the tenant allows."""
    ceiling = priority_ceiling(user=user, tenant=tenant)
    if priority > ceiling:
        raise Forbidden(
            f"Your priority ceiling in {tenant.name} is {ceiling}; a manager may set more.",
            code="priority_too_high",
            field="priority",
        )
