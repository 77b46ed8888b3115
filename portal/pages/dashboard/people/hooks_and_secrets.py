"""A person's mails, webhooks of a person or a tenant, and a tenant's secrets, whose values are never given back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters

from portal.foundation.api.throttles import PasswordThrottle, throttle_check
from portal.foundation.errors import BerthError, NotFound
from portal.pages.dashboard.people.context import account_context, tenant_context
from portal.people.tenants.selectors import tenant_find
from portal.work.notifications.choosing import hook_delete, hook_find, hook_make, hook_test, wishes_set
from portal.work.notifications.sending import taken
from portal.work.secrets.services import secret_remove, secret_set

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from portal.people.tenants.models import Tenant


def wishes(request: HttpRequest) -> HttpResponse:
    """Set the person's mails."""
    try:
        wishes_set(user=request.user, mail=request.POST.getlist("mail"), waits_h=request.POST.get("waits_h", "24")[:20])
    except BerthError as error:
        messages.error(request, error.detail)
    else:
        messages.success(request, "Your choice is kept.")
    return redirect("account")


def _tenant(request: HttpRequest, name: str | None) -> Tenant | None:
    return None if name is None else tenant_find(user=request.user, name=name)


@never_cache
def hook_new(request: HttpRequest, name: str | None = None) -> HttpResponse:
    """Make a webhook; its secret stands in this answer only."""
    tenant = _tenant(request, name)
    try:
        _, secret = hook_make(
            actor=request.user,
            tenant=tenant,
            url=request.POST.get("url", "")[:1000],
            events=request.POST.getlist("events"),
            waits_h=request.POST.get("waits_h", "24")[:20],
        )
    except BerthError as error:
        if error.status == 403:
            raise
        messages.error(request, error.detail)
        return _back(name)
    shown: dict[str, Any] = {"hook_secret": secret}
    if tenant is None:
        return render(request, "people/account.html", account_context(request) | shown, status=201)
    return render(request, "people/tenant.html", tenant_context(request.user, tenant) | shown, status=201)


def hook_act(request: HttpRequest, number: int, verb: str, name: str | None = None) -> HttpResponse:
    """Call a webhook now, or delete it."""
    hook = hook_find(actor=request.user, number=number, tenant=_tenant(request, name))
    if verb == "delete":
        hook_delete(actor=request.user, hook=hook)
        messages.success(request, "The webhook is deleted; nothing more is sent to it.")
    elif verb == "test":
        throttle_check(request, PasswordThrottle)
        answer = hook_test(hook=hook)
        say = messages.success if taken(answer) else messages.error
        say(
            request,
            f"The receiver answered {answer}." if answer.isdigit() else f"The receiver did not accept it: {answer}.",
        )
    else:
        raise NotFound("page")
    return _back(name)


def _back(name: str | None) -> HttpResponse:
    return redirect("account") if name is None else redirect("tenant", name=name)


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
