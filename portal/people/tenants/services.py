"""Make and change users, tenants, memberships and tokens; every change is in the audit trail."""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime
from typing import Any

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from portal.foundation.errors import BerthError, Conflict
from portal.foundation.events.services import plan_nudge
from portal.people.tenants.models import ApiToken, AuditEvent, Membership, Tenant, User

TOKEN_PREFIX = "berth_"  # noqa: S105 - a mark that secret scanners can look for, not a secret
SCOPES = (
    "jobs:read",
    "jobs:write",
    "cluster:read",
    "simulations:read",
    "simulations:write",
    "members:write",
    "operator",
)
SYSTEM = "berth"
TENANT_FIELDS = (
    "weight",
    "gpu_quota",
    "core_quota",
    "queued_jobs_quota",
    "artefact_quota_gib",
    "artefact_days",
    "unix_account",
    "images",
    "is_active",
)
PASSWORD_BYTES = 15


def secret_digest(secret: str) -> str:
    """Return the SHA-256 of a random 256-bit secret. A slow hash would add nothing: nobody can guess such a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def audit_record(
    *, actor: User | None, action: str, target: str, tenant: Tenant | None = None, detail: dict[str, Any] | None = None
) -> AuditEvent:
    return AuditEvent.objects.create(
        actor=actor,
        actor_name=actor.username if actor else SYSTEM,
        tenant=tenant,
        action=action,
        target=target,
        detail=detail or {},
    )


@transaction.atomic
def user_create(
    *, username: str, password: str, is_operator: bool = False, email: str = "", actor: User | None = None
) -> User:
    if User.objects.filter(username=username).exists():
        raise Conflict(
            "username_taken", f"There is a user {username!r} already; choose another name.", field="username"
        )
    _password_check(password)
    user = User.objects.create_user(
        username=username, password=password, email=email, is_staff=is_operator, is_superuser=is_operator
    )
    audit_record(actor=actor, action="user.create", target=f"user:{user.pk}", detail={"operator": is_operator})
    return user


def _password_check(password: str) -> None:
    try:
        validate_password(password)
    except ValidationError as error:
        raise BerthError("weak_password", " ".join(error.messages), field="password") from error


@transaction.atomic
def user_update(
    *,
    user: User,
    actor: User | None,
    email: str | None = None,
    is_active: bool | None = None,
    is_operator: bool | None = None,
) -> User:
    """Change an account; None leaves a thing as it is. Raises Conflict where no active operator would be left."""
    user = User.objects.select_for_update().get(pk=user.pk)
    wanted = {"email": email, "is_active": is_active, "is_staff": is_operator, "is_superuser": is_operator}
    changed = {name: value for name, value in wanted.items() if value is not None and getattr(user, name) != value}
    if not changed:
        return user
    before = {name: getattr(user, name) for name in changed}
    for name, value in changed.items():
        setattr(user, name, value)
    user.save(update_fields=list(changed))
    if not User.objects.filter(is_active=True, is_staff=True).exists():
        raise Conflict("last_operator", "This is the last active operator; make another one first.", field="is_active")
    detail = {name: [before[name], value] for name, value in changed.items() if name != "is_superuser"}
    audit_record(actor=actor, action="user.update", target=f"user:{user.pk}", detail=detail)
    return user


@transaction.atomic
def user_password_reset(*, user: User, actor: User | None, password: str = "") -> str:
    """Set a password, a generated one if none is given, and return it; the user's sessions end with the old one."""
    password = password or secrets.token_urlsafe(PASSWORD_BYTES)
    _password_check(password)
    user.set_password(password)
    user.save(update_fields=["password"])
    audit_record(actor=actor, action="user.password-reset", target=f"user:{user.pk}")
    return password


@transaction.atomic
def sign_in_failures_forget(*, username: str | None, ip_address: str | None, actor: User | None) -> None:
    """Let a name that failed too often try again: from one address, or from all (None)."""
    from axes.models import AccessAttempt

    attempts = AccessAttempt.objects.filter(username=username)
    if ip_address is not None:
        attempts = attempts.filter(ip_address=ip_address)
    if attempts.delete()[0]:
        detail = {"username": username, "ip_address": ip_address or "every address"}
        audit_record(actor=actor, action="sign-in.forget-failures", target=f"sign-in:{username}"[:100], detail=detail)


@transaction.atomic
def tenant_create(*, name: str, actor: User | None, **values: Any) -> Tenant:
    """Make a tenant; `values`: some of TENANT_FIELDS."""
    _fields_check(values)
    tenant = Tenant(name=name, **values)
    _tenant_check(tenant)
    tenant.save()
    audit_record(actor=actor, action="tenant.create", target=f"tenant:{tenant.pk}", tenant=tenant)
    return tenant


def _fields_check(values: dict[str, Any]) -> None:
    unknown = [name for name in values if name not in TENANT_FIELDS]
    if unknown:
        raise BerthError("unknown_field", f"Only {', '.join(TENANT_FIELDS)} can be set.", field=unknown[0])


def _tenant_check(tenant: Tenant) -> None:
    try:
        tenant.full_clean()
    except ValidationError as error:
        field, messages = next(iter(error.message_dict.items()))
        raise BerthError("invalid", " ".join(messages), field=field) from error


@transaction.atomic
def tenant_update(*, tenant: Tenant, actor: User | None, **values: Any) -> Tenant:
    """Set some of TENANT_FIELDS. The name cannot change: tokens, scripts and the audit trail use it."""
    _fields_check(values)
    tenant = Tenant.objects.select_for_update().get(pk=tenant.pk)
    changed = {name: [getattr(tenant, name), value] for name, value in values.items() if getattr(tenant, name) != value}
    if not changed:
        return tenant
    for name, (_, value) in changed.items():
        setattr(tenant, name, value)
    _tenant_check(tenant)
    tenant.save(update_fields=list(changed))
    audit_record(actor=actor, action="tenant.update", target=f"tenant:{tenant.pk}", tenant=tenant, detail=changed)
    plan_nudge()
    return tenant


@transaction.atomic
def membership_add(*, user: User, tenant: Tenant, role: str = Membership.Role.MEMBER, actor: User | None) -> Membership:
    if role not in Membership.Role.values:
        raise BerthError(
            "invalid", f"{role!r} is not a role; choose one of {', '.join(Membership.Role.values)}.", field="role"
        )
    membership, _ = Membership.objects.update_or_create(user=user, tenant=tenant, defaults={"role": role})
    audit_record(
        actor=actor,
        action="membership.set",
        target=f"user:{user.pk}",
        tenant=tenant,
        detail={"role": role},
    )
    return membership


@transaction.atomic
def membership_remove(*, user: User, tenant: Tenant, actor: User | None) -> bool:
    """End a membership and revoke the user's tokens that were for this tenant only; False when there was none."""
    count, _ = Membership.objects.filter(user=user, tenant=tenant).delete()
    if not count:
        return False
    for token in ApiToken.objects.filter(user=user, tenant=tenant, revoked_at=None):
        token_revoke(token=token, actor=actor)
    audit_record(actor=actor, action="membership.remove", target=f"user:{user.pk}", tenant=tenant)
    return True


@transaction.atomic
def token_create(
    *,
    user: User,
    name: str,
    scopes: list[str] | tuple[str, ...],
    tenant: Tenant | None = None,
    expires_at: datetime | None = None,
    actor: User | None,
) -> tuple[ApiToken, str]:
    """Make a token and return it with its secret, which is shown once and not kept."""
    _token_check(user=user, name=name, scopes=scopes, expires_at=expires_at)
    secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
    token = ApiToken.objects.create(
        user=user,
        tenant=tenant,
        name=name.strip()[:100],
        prefix=secret[:12],
        digest=secret_digest(secret),
        scopes=list(scopes),
        expires_at=expires_at,
    )
    audit_record(
        actor=actor,
        action="token.create",
        target=f"token:{token.pk}",
        tenant=tenant,
        detail={"name": token.name, "scopes": token.scopes},
    )
    return token, secret


def _token_check(*, user: User, name: str, scopes: list[str] | tuple[str, ...], expires_at: datetime | None) -> None:
    unknown = [scope for scope in scopes if scope not in SCOPES]
    if unknown or not scopes:
        raise BerthError("invalid_scope", f"Choose scopes from {', '.join(SCOPES)}.", field="scopes")
    if "operator" in scopes and not user.is_operator:
        raise BerthError("invalid_scope", "Only an operator's token may carry the scope operator.", field="scopes")
    if not name.strip():
        raise BerthError("blank", "Give the token a name that tells what uses it.", field="name")
    if expires_at is not None and expires_at <= timezone.now():
        raise BerthError("in_the_past", "The expiry must lie in the future; give a later time.", field="expires_at")


@transaction.atomic
def token_revoke(*, token: ApiToken, actor: User | None) -> None:
    if ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=timezone.now()):
        audit_record(actor=actor, action="token.revoke", target=f"token:{token.pk}", tenant=token.tenant)
