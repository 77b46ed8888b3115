"""Read the members of tenants."""

from __future__ import annotations

from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from portal.foundation.errors import NotFound
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
