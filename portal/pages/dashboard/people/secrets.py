"""A tenant's secrets on its page: names, set, removed. A value comes in once and is never given back, not even after an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.shortcuts import redirect
from django.views.decorators.debug import sensitive_post_parameters

from portal.foundation.errors import BerthError
from portal.people.tenants.rights import WORK, may
from portal.people.tenants.selectors import tenant_find
from portal.work.secrets.models import Secret
from portal.work.secrets.services import LONGEST_BYTES, MOST_SECRETS, secret_remove, secret_set

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from portal.people.tenants.models import Tenant, User


def secrets_context(user: User, tenant: Tenant) -> dict[str, Any]:
    rows = list(Secret.objects.filter(tenant=tenant).defer("sealed"))
    return {
        "secrets": rows,
        "sets_secrets": may(user, tenant, WORK),
        "secrets_full": len(rows) >= MOST_SECRETS,
        "secret_most": LONGEST_BYTES,
    }


@sensitive_post_parameters("value")
def secret_new(request: HttpRequest, name: str) -> HttpResponse:
    """Set a secret, a new one or another value of the one with its name."""
    tenant = tenant_find(user=request.user, name=name)
    given = request.POST.get("secret", "").strip()
    try:
        made = secret_set(actor=request.user, tenant=tenant, name=given, value=request.POST.get("value", ""))
    except BerthError as error:
        if error.status == 403:
            raise
        messages.error(request, error.detail)
    else:
        messages.success(request, f"The secret {made.name} is set; jobs that start from now on get it.")
    return redirect("tenant", name=name)


def secret_end(request: HttpRequest, name: str, secret: str) -> HttpResponse:
    secret_remove(actor=request.user, tenant=tenant_find(user=request.user, name=name), name=secret)
    messages.success(request, f"The secret {secret} is removed; jobs that name it fail when they start the next time.")
    return redirect("tenant", name=name)
