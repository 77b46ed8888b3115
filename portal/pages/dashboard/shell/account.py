"""Sign-in's lock-out, and a person's API tokens: made (shown once), listed, revoked."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypedDict

from axes.helpers import get_client_username, get_cool_off
from django.shortcuts import render
from django.utils import timezone

from portal.foundation.errors import BerthError, NotFound
from portal.pages.dashboard.parts.formatting import duration
from portal.people.tenants.models import ApiToken, Tenant
from portal.people.tenants.selectors import tenants_of
from portal.people.tenants.services import SCOPES, token_create, token_revoke
from portal.people.tenants.sign_in import name_is_locked

if TYPE_CHECKING:
    from datetime import datetime

    from django.http import HttpRequest, HttpResponse, QueryDict

    from portal.pages.dashboard.parts.context import Choice, FieldContext
    from portal.people.tenants.models import User


class TokenRow(TypedDict):
    id: int
    name: str
    prefix: str
    tenant: str
    scopes: str
    created_at: str
    expires_at: str | None
    last_used_at: str | None
    revoked: bool


class TokensContext(TypedDict):
    """The account page. `fresh` is the secret, given once, in the answer to the POST that made it."""

    tokens: list[TokenRow]
    fresh: str | None
    fields: dict[str, FieldContext]  # name, tenant, scopes, expires


LIFETIMES = {"30": "30 days", "90": "90 days", "365": "a year", "": "never"}
SCOPE_NOTES = {
    "jobs:read": "list and show jobs, read logs, members and usage",
    "jobs:write": "submit, cancel, hold, release, requeue, retry",
    "cluster:read": "nodes, and figures over time",
    "simulations:read": "the laboratory's simulations and traces",
    "simulations:write": "simulate, cancel, share, upload traces, delete",
    "members:write": "as a manager: invite, change roles, remove members",
    "operator": "whatever only an operator may do",
}


def sign_in_locked(
    request: HttpRequest, response: HttpResponse | None = None, credentials: dict[str, Any] | None = None
) -> HttpResponse:
    """Answer 429 to a sign-in that failed too often, and say for how long (axes calls this)."""
    cool_off = get_cool_off(request)
    context = {
        "username": get_client_username(request, credentials) or "",
        "cooloff_words": duration(cool_off.total_seconds()) if cool_off else None,
        "everywhere": name_is_locked(request, credentials),
    }
    return render(request, "registration/locked.html", context, status=429)


def tokens_context(
    user: User, *, fresh: str | None = None, form: QueryDict | None = None, error: BerthError | None = None
) -> TokensContext:
    """Return the page's context. `form` and `error`: a refused form, and the reason."""
    tokens = ApiToken.objects.visible_to(user).select_related("tenant")
    return {
        "tokens": [_row(token) for token in tokens],
        "fresh": fresh,
        "fields": _fields(user, form, error),
    }


def _row(token: ApiToken) -> TokenRow:
    return {
        "id": token.pk,
        "name": token.name,
        "prefix": token.prefix,
        "tenant": token.tenant.name if token.tenant else "any of yours",
        "scopes": ", ".join(token.scopes),
        "created_at": token.created_at.isoformat(),
        "expires_at": token.expires_at.isoformat() if token.expires_at else None,
        "last_used_at": token.last_used_at.isoformat() if token.last_used_at else None,
        "revoked": token.revoked_at is not None,
    }


def _fields(user: User, form: QueryDict | None, error: BerthError | None) -> dict[str, FieldContext]:
    sent = {name: form.get(name, "") for name in ("name", "tenant", "expires")} if form is not None else {}
    scopes = form.getlist("scopes") if form is not None else ["jobs:read", "jobs:write"]
    tenants = {"": "any of yours"} | {tenant.name: tenant.name for tenant in tenants_of(user)}
    allowed = {scope: scope for scope in SCOPES if scope != "operator" or user.is_operator}
    fields: dict[str, FieldContext] = {
        "name": {
            "name": "name",
            "label": "What uses it",
            "kind": "text",
            "value": sent.get("name", ""),
            "placeholder": "nightly sweep",
            "required": True,
        },
        "tenant": _select("tenant", "For tenant", sent.get("tenant", ""), tenants),
        "scopes": {
            "name": "scopes",
            "label": "It may",
            "kind": "checks",
            "value": "",
            "choices": _choices(allowed, set(scopes), notes=SCOPE_NOTES),
        },
        "expires": _select("expires", "Ends after", sent.get("expires", "90"), LIFETIMES),
    }
    if error is not None:
        fields[error.field if error.field in fields else "name"]["error"] = error.detail
    return fields


def _select(name: str, label: str, value: str, labels: dict[str, str]) -> FieldContext:
    return {"name": name, "label": label, "kind": "select", "value": value, "choices": _choices(labels, {value})}


def _choices(labels: dict[str, str], chosen: set[str], *, notes: dict[str, str] | None = None) -> list[Choice]:
    return [
        {"value": value, "label": label, "selected": value in chosen, "note": (notes or {}).get(value, "")}
        for value, label in labels.items()
    ]


def token_from_form(user: User, form: QueryDict) -> str:
    """Make a token for its owner and return the secret. Raises BerthError naming the field."""
    _, secret = token_create(
        user=user,
        actor=user,
        name=form.get("name", ""),
        tenant=_tenant(user, form.get("tenant", "")),
        scopes=form.getlist("scopes"),
        expires_at=_expiry(form.get("expires", "")),
    )
    return secret


def _tenant(user: User, name: str) -> Tenant | None:
    if not name:
        return None
    found = next((tenant for tenant in tenants_of(user) if tenant.name == name), None)
    if found is None:
        raise BerthError("unknown_tenant", "No such tenant, or you are not a member of it.", field="tenant")
    return found


def _expiry(days: str) -> datetime | None:
    if days not in LIFETIMES:
        raise BerthError("invalid", f"Choose one of {', '.join(LIFETIMES.values())}.", field="expires")
    return timezone.now() + timedelta(days=int(days)) if days else None


def token_end(user: User, token_id: int) -> ApiToken:
    """Revoke one of the user's own tokens. Raises NotFound for a missing one and for another person's."""
    token = ApiToken.objects.visible_to(user).select_related("tenant").filter(pk=token_id).first()
    if token is None:
        raise NotFound("token")
    token_revoke(token=token, actor=user)
    return token
