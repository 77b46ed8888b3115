"""Contexts of the account's and the tenants' pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.safestring import mark_safe

from portal.pages.dashboard.parts.waiting import near
from portal.pages.dashboard.people.agents import agent_words
from portal.pages.dashboard.people.declared import declared_shorter
from portal.people.accounts.members import DAYS, invitations_open, members_of
from portal.people.accounts.models import SecondFactor
from portal.people.accounts.second import factor_picture, factor_uri, readable, required_missing
from portal.people.accounts.sessions import sessions_of
from portal.people.tenants.models import Membership, Tenant
from portal.people.tenants.selectors import MANAGE, MEANINGS, WORK, may, time_zones
from portal.work.artefacts.selectors import largest_of, tenant_use
from portal.work.jobs.use import tenants_use
from portal.work.notifications.choosing import HOOKS_MOST, hooks_of, wishes_of
from portal.work.notifications.mail import mail_address, mail_offered
from portal.work.notifications.words import EVENTS
from portal.work.secrets.models import Secret
from portal.work.secrets.services import LONGEST_BYTES, MOST_SECRETS

if TYPE_CHECKING:
    from django.http import HttpRequest

    from portal.foundation.errors import BerthError
    from portal.people.tenants.models import User


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
        **_notifications(request.user),
        "time_zone": request.user.time_zone,
        "time_zones": time_zones(),
        "fields_wrong": error is not None and error.field in labels,
        "sessions": [
            (row, agent_words(row.browser), row.session_key == request.session.session_key)
            for row in sessions_of(request.user)
        ],
        "memberships": list(
            Membership.objects.filter(user=request.user).select_related("tenant").order_by("tenant__name")
        ),
    }


def _notifications(user: User) -> dict[str, Any]:
    """Fill the choice of mails. `mail_why`: why no mail can go; None where it can."""
    wishes, address = wishes_of(user), mail_address(user)
    why = None if address else "Your account has no mail address; an operator sets it in the console."
    return {
        "events": [(event, event.name in wishes.mail) for event in EVENTS],
        "waits_h": wishes.waits_h,
        "mail_to": address,
        "mail_why": why
        if mail_offered()
        else "This Berth has no mail server; an operator names one (BERTH_SMTP_HOST).",
        **_hooks(user=user),
    }


def _hooks(user: User | None = None, tenant: Tenant | None = None) -> dict[str, Any]:
    labels = {event.name: event.label for event in EVENTS}
    rows = list(hooks_of(user=user, tenant=tenant))
    return {
        "hooks": [
            {
                "number": row.pk,
                "url": row.url,
                "events": ", ".join(labels[name].lower() for name in row.events if name in labels),
                "answer": row.last_answer,
                "at": row.last_at.isoformat() if row.last_at else None,
                "state": ""
                if row.is_active
                else "switched off: it failed too often. A test that succeeds switches it on",
            }
            for row in rows
        ],
        "hooks_full": len(rows) >= HOOKS_MOST,
        "hook_events": EVENTS,
    }


def _second(user: User, error: BerthError | None, codes: list[str] | None) -> dict[str, Any]:
    """Fill the card of the second factor. `codes`: its recovery codes, shown only in this answer."""
    factor = SecondFactor.objects.select_related("user").filter(user=user).first()
    begun = factor is not None and factor.confirmed_at is None and readable(factor)
    return {
        "second_on": factor is not None and factor.confirmed_at is not None,
        "second_needed": required_missing(user),
        "second_picture": mark_safe(factor_picture(factor)) if factor and begun else None,  # noqa: S308 - drawn by us
        "second_secret": factor.secret if factor and begun else None,
        "second_uri": factor_uri(factor) if factor and begun else None,
        "second_left": len(factor.recovery) if factor else 0,
        "second_error": error.detail if error and error.field in {"code", "password"} else None,
        "codes": codes,
    }


def tenant_context(user: User, tenant: Tenant, link: str | None = None) -> dict[str, Any]:
    """Fill a tenant's page. `link`: a new invitation, shown only in this answer."""
    manages = may(user, tenant, MANAGE)
    return {
        "tenant": tenant,
        "manages": manages,
        "members": list(members_of(tenant)),
        "roles": [(str(role), str(role.label), MEANINGS[role]) for role in Membership.Role],
        "days": DAYS,
        "invitations": list(invitations_open(tenant).select_related("made_by")) if manages else [],
        "quotas": _quotas(tenant),
        "artefacts": _artefacts(tenant),
        "shorter": declared_shorter(tenant),
        "link": link,
        **_secrets(user, tenant),
        **(_hooks(tenant=tenant) if manages else {}),
    }


def _secrets(user: User, tenant: Tenant) -> dict[str, Any]:
    rows = list(Secret.objects.filter(tenant=tenant).defer("sealed"))
    return {
        "secrets": rows,
        "sets_secrets": may(user, tenant, WORK),
        "secrets_full": len(rows) >= MOST_SECRETS,
        "secret_most": LONGEST_BYTES,
    }


def _artefacts(tenant: Tenant) -> dict[str, Any]:
    """Fill what the tenant's artefacts take, in bytes, and which jobs' take most."""
    use = tenant_use(tenant)
    largest = [(row.job.number, row.job.name, row.files, row.counted) for row in largest_of(tenant)]
    return {
        "used": use.counted,
        "quota": use.quota,
        "near": near(use.counted, use.quota),
        "days": use.days,
        "largest": largest,
    }


def _quotas(tenant: Tenant) -> list[dict[str, Any]]:
    use = tenants_use(Tenant.objects.filter(pk=tenant.pk))[tenant.pk]
    rows = (
        ("GPUs at one time", use.gpus, tenant.gpu_quota),
        ("CPU cores at one time", use.cores, tenant.core_quota),
        ("jobs waiting", use.queued_jobs, tenant.queued_jobs_quota),
    )
    return [{"label": label, "used": used, "quota": quota, "near": near(used, quota)} for label, used, quota in rows]
