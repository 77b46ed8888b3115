"""The members of a tenant: roles, removals, and invitations by a link that works once."""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import TYPE_CHECKING

from django.db import transaction
from django.utils import timezone

from portal.foundation.errors import BerthError, Conflict, NotFound
from portal.people.accounts.models import Invitation
from portal.people.accounts.sessions import sessions_end
from portal.people.tenants.models import ApiToken, Membership, Tenant, User
from portal.people.tenants.selectors import manage_check
from portal.people.tenants.services import (
    audit_record,
    membership_add,
    membership_remove,
    secret_digest,
    token_revoke,
)

if TYPE_CHECKING:
    from django.db.models import QuerySet

DAYS = (1, 7, 30)
OPEN_MOST = 100
"""Invitations of one tenant that are open at one time."""


def members_of(tenant: Tenant) -> QuerySet[Membership]:
    return Membership.objects.filter(tenant=tenant).select_related("user").order_by("user__username")


def _member(tenant: Tenant, username: str) -> Membership:
    found = Membership.objects.select_related("user").filter(tenant=tenant, user__username=username).first()
    if found is None:
        raise NotFound("member")
    return found


def _managers_stay(tenant: Tenant, leaving: Membership, actor: User) -> None:
    """An operator may leave a tenant without a manager; its managers may not."""
    others = Membership.objects.filter(tenant=tenant, role=Membership.Role.MANAGER).exclude(pk=leaving.pk)
    if leaving.role == Membership.Role.MANAGER and not actor.is_operator and not others.exists():
        raise Conflict("last_manager", f"{tenant.name} would have no manager; make another member one first.")


@transaction.atomic
def member_role_set(*, tenant: Tenant, username: str, role: str, actor: User) -> Membership:
    manage_check(actor, tenant)
    Tenant.objects.select_for_update().get(pk=tenant.pk)
    member = _member(tenant, username)
    if role != Membership.Role.MANAGER:
        _managers_stay(tenant, member, actor)
    return membership_add(user=member.user, tenant=tenant, role=role, actor=actor)


@transaction.atomic
def member_remove(*, tenant: Tenant, username: str, actor: User) -> None:
    """End a membership. The person's tokens for the tenant and all the person's sessions end with it, at once.

    Tokens for all tenants go on for those that are left, and end where none is.
    """
    manage_check(actor, tenant)
    Tenant.objects.select_for_update().get(pk=tenant.pk)
    member = _member(tenant, username)
    _managers_stay(tenant, member, actor)
    user = member.user
    membership_remove(user=user, tenant=tenant, actor=actor)
    if not user.is_operator and not Membership.objects.filter(user=user).exists():
        for token in ApiToken.objects.filter(user=user, revoked_at=None):
            token_revoke(token=token, actor=actor)
    sessions_end(user=user, actor=actor)


# ---- invitations -----------------------------------------------------------------------------------------------------


def invitations_open(tenant: Tenant) -> QuerySet[Invitation]:
    return Invitation.objects.filter(tenant=tenant, used_at=None, expires_at__gt=timezone.now())


@transaction.atomic
def invitation_make(*, tenant: Tenant, role: str, days: int, actor: User) -> tuple[Invitation, str]:
    """Return a new invitation and its secret, which is shown once: only its hash is kept."""
    manage_check(actor, tenant)
    Tenant.objects.select_for_update().get(pk=tenant.pk)
    if role not in Membership.Role.values:
        raise BerthError("invalid", f"`role` must be one of {', '.join(Membership.Role.values)}.", field="role")
    if days not in DAYS:
        raise BerthError("invalid", f"`days` must be one of {', '.join(map(str, DAYS))}.", field="days")
    if invitations_open(tenant).count() >= OPEN_MOST:
        raise Conflict("too_many", f"{OPEN_MOST} invitations are open; withdraw some first.")
    secret = secrets.token_urlsafe(32)
    made = Invitation.objects.create(
        tenant=tenant,
        role=role,
        digest=secret_digest(secret),
        made_by=actor,
        expires_at=timezone.now() + timedelta(days=days),
    )
    detail = {"role": role, "days": days}
    audit_record(actor=actor, action="invitation.make", target=f"invitation:{made.pk}", tenant=tenant, detail=detail)
    return made, secret


@transaction.atomic
def invitation_withdraw(*, tenant: Tenant, number: int, actor: User) -> None:
    manage_check(actor, tenant)
    if not invitations_open(tenant).filter(pk=number).delete()[0]:
        raise NotFound("invitation")
    audit_record(actor=actor, action="invitation.withdraw", target=f"invitation:{number}", tenant=tenant)


def invitation_find(secret: str) -> Invitation:
    """Return the open invitation of a link. NotFound in the same way for one that was used, ended or never was."""
    found = (
        Invitation.objects.select_related("tenant", "made_by")
        .filter(digest=secret_digest(secret[:200]), used_at=None, expires_at__gt=timezone.now(), tenant__is_active=True)
        .first()
    )
    if found is None:
        raise NotFound("invitation")
    return found


@transaction.atomic
def invitation_accept(*, secret: str, user: User) -> Tenant:
    """Join the tenant. Of two who press at once one joins: the row is taken by a conditional UPDATE.

    It ends without effect where whoever made it is no manager any more. A member's role is never lowered by it.
    """
    invitation = invitation_find(secret)
    tenant = invitation.tenant
    if invitation.made_by is None:
        raise NotFound("invitation")
    manage_check(invitation.made_by, tenant)
    if Membership.objects.filter(user=user, tenant=tenant).exists():
        raise Conflict("member_already", f"You are in {tenant.name} already; the link is still open for somebody else.")
    taken = Invitation.objects.filter(pk=invitation.pk, used_at=None)
    if not taken.update(used_at=timezone.now(), used_by=user):
        raise NotFound("invitation")
    membership_add(user=user, tenant=tenant, role=invitation.role, actor=user)
    return tenant
