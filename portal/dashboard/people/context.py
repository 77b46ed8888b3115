"""What the account's and the tenants' pages are given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.accounts.members import DAYS, invitations_open
from portal.accounts.models import SecondFactor
from portal.accounts.second import factor_uri
from portal.accounts.sessions import sessions_of
from portal.jobs.use import tenants_use
from portal.tenants.models import Membership, Tenant
from portal.tenants.rights import MANAGE, MEANINGS, may

if TYPE_CHECKING:
    from django.http import HttpRequest

    from portal.errors import BerthError
    from portal.tenants.models import User

NEAR = 0.9


def account_context(
    request: HttpRequest, error: BerthError | None = None, codes: list[str] | None = None
) -> dict[str, Any]:
    """Fill the account page; `error` stands at the field that it names."""
    labels = {"old": "Present password", "new": "New password", "again": "New password again"}
    return {
        "fields": [
            {"name": name, "label": label, "error": error.detail if error and error.field == name else None}
            for name, label in labels.items()
        ],
        **_second(request.user, error, codes),
        "sessions": [
            {
                "number": row.pk,
                "at": row.at.isoformat(),
                "address": row.address,
                "browser": row.browser or "unknown browser",
                "here": row.session_key == request.session.session_key,
            }
            for row in sessions_of(request.user)
        ],
        "memberships": list(
            Membership.objects.filter(user=request.user).select_related("tenant").order_by("tenant__name")
        ),
    }


def _second(user: User, error: BerthError | None, codes: list[str] | None) -> dict[str, Any]:
    """Fill what is told of the second factor. `codes`: its recovery codes, shown in this answer alone."""
    factor = SecondFactor.objects.select_related("user").filter(user=user).first()
    begun = factor is not None and factor.confirmed_at is None
    return {
        "second_on": factor is not None and not begun,
        "second_secret": factor.secret if factor and begun else None,
        "second_uri": factor_uri(factor) if factor and begun else None,
        "second_left": len(factor.recovery) if factor else 0,
        "second_error": error.detail if error and error.field in {"code", "password"} else None,
        "codes": codes,
    }


def tenant_context(user: User, tenant: Tenant, link: str | None = None) -> dict[str, Any]:
    """Fill a tenant's page. `link`: a new invitation, shown in this answer alone."""
    manages = may(user, tenant, MANAGE)
    members = Membership.objects.filter(tenant=tenant).select_related("user").order_by("user__username")
    return {
        "tenant": tenant,
        "manages": manages,
        "members": list(members),
        "roles": [(str(role), str(role.label), MEANINGS[role]) for role in Membership.Role],
        "days": DAYS,
        "invitations": list(invitations_open(tenant).select_related("made_by")) if manages else [],
        "quotas": _quotas(tenant),
        "link": link,
    }


def _quotas(tenant: Tenant) -> list[dict[str, Any]]:
    use = tenants_use(Tenant.objects.filter(pk=tenant.pk))[tenant.pk]
    rows = (
        ("GPUs at one time", use.gpus, tenant.gpu_quota),
        ("CPU cores at one time", use.cores, tenant.core_quota),
        ("Jobs waiting", use.queued_jobs, tenant.queued_jobs_quota),
    )
    return [
        {"label": label, "used": used, "quota": quota, "near": bool(quota) and used >= NEAR * (quota or 0)}
        for label, used, quota in rows
    ]
