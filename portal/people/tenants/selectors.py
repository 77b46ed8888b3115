"""Read the members of tenants, and the rights of each."""

from __future__ import annotations

from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from portal.foundation.errors import BerthError, Forbidden, NotFound
from portal.people.tenants.models import Membership, Tenant, User

OWN_TENANT = "berth"
"""The tenant that Berth makes for its own short jobs, which measure the links between GPUs."""
NO_ZONES = frozenset({"Factory", "localtime"})
MEMBER_PRIORITY_CEILING = 0
MANAGER_PRIORITY_CEILING = 100


def role_of(*, user: User, tenant: Tenant) -> str | None:
    """Return `operator`, `manager`, `member`, `viewer`, or None for an outsider."""
    if user.is_operator:
        return "operator"
    return Membership.objects.filter(user=user, tenant=tenant).values_list("role", flat=True).first()


def priority_ceiling(*, user: User, tenant: Tenant) -> int:
    role = role_of(user=user, tenant=tenant)
    return MEMBER_PRIORITY_CEILING if role in {None, "viewer", "member"} else MANAGER_PRIORITY_CEILING


def tenants_of(user: User) -> list[Tenant]:
    """Return the active tenants that a form offers a user: the user's own; for an operator without any, all but Berth's own.

    Berth's own stands last for its members.
    """
    own = list(Tenant.objects.filter(memberships__user=user, is_active=True))
    if user.is_operator and not own:
        return list(Tenant.objects.filter(is_active=True).exclude(name=OWN_TENANT))
    return sorted(own, key=lambda tenant: tenant.name == OWN_TENANT)


def tenant_find(*, user: User, name: str, only: Tenant | None = None) -> Tenant:
    """Return one of the reader's tenants; `only`: the one of the token. NotFound for a missing or a foreign one."""
    tenant = Tenant.objects.visible_to(user).filter(name=name).first()
    if tenant is None or (only is not None and tenant != only):
        raise NotFound("tenant")
    return tenant


def zone_of(user: User) -> tzinfo:
    """Return the time zone that a person chose; UTC where the browser's was left, or this machine knows no such zone."""
    try:
        return ZoneInfo(user.time_zone) if user.time_zone else UTC
    except ZoneInfoNotFoundError:
        return UTC


def time_zones() -> list[str]:
    """Return the zones that a person may choose: those known here, without the names that no browser takes for one."""
    return sorted(available_timezones() - NO_ZONES)


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
