"""The account page, a tenant's page and invitations: a view guards, acts by one service, and answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.views import LoginView
from django.shortcuts import redirect, render
from django.urls import Resolver404, resolve, reverse
from django.views.decorators.cache import never_cache

from portal.foundation.api.throttles import PasswordThrottle, throttle_check
from portal.foundation.errors import BerthError, NotFound
from portal.pages.dashboard.people.context import account_context, tenant_context
from portal.people.accounts.members import (
    invitation_accept,
    invitation_find,
    invitation_make,
    invitation_withdraw,
    member_remove,
    member_role_set,
)
from portal.people.accounts.second import CODE_CHARS, factor_begin, factor_confirm, factor_end
from portal.people.accounts.sessions import password_change, password_check, session_end, sessions_end, time_zone_set
from portal.people.tenants.selectors import MEANINGS, tenant_find

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from portal.people.accounts.models import Invitation


# ---- account ---------------------------------------------------------------------------------------------------------


@never_cache
def account(request: HttpRequest) -> HttpResponse:
    """Show the account; a POST changes the password, which ends all other sessions."""
    if request.method == "GET":
        return render(request, "people/account.html", account_context(request))
    old, new, again = (request.POST.get(name, "")[:1000] for name in ("old", "new", "again"))
    try:
        throttle_check(request, PasswordThrottle)
        key = request.session.session_key
        password_change(user=request.user, old=old, new=new, again=again, session_key=key)
    except BerthError as error:
        if error.field is None:
            messages.error(request, error.detail)
        return render(request, "people/account.html", account_context(request, error), status=error.status)
    update_session_auth_hash(request, request.user)
    messages.success(request, "Your password is changed. All your other sessions have ended.")
    return redirect("account")


@never_cache
def second(request: HttpRequest) -> HttpResponse:
    """Begin, confirm or end the second factor. Its end asks for the password."""
    act, codes = request.POST.get("act", ""), None
    if act not in {"begin", "confirm", "end"}:
        raise BerthError("invalid", "`act` must be one of begin, confirm, end.", field="act")
    try:
        throttle_check(request, PasswordThrottle)
        if act == "begin":
            factor_begin(user=request.user)
        elif act == "confirm":
            key = request.session.session_key
            codes = factor_confirm(user=request.user, code=request.POST.get("code", "")[:CODE_CHARS], session_key=key)
        else:
            password_check(user=request.user, password=request.POST.get("password", "")[:1000])
            factor_end(user=request.user, actor=request.user)
    except BerthError as error:
        return render(request, "people/account.html", account_context(request, error), status=error.status)
    if codes:
        return render(request, "people/account.html", account_context(request, codes=codes), status=201)
    return redirect("account")


def sign_out_one(request: HttpRequest, number: int) -> HttpResponse:
    if not session_end(user=request.user, number=number):
        raise NotFound("session")
    messages.success(request, "The session has ended.")
    return redirect("account")


def sign_out_others(request: HttpRequest) -> HttpResponse:
    ended = sessions_end(user=request.user, actor=request.user, but=request.session.session_key)
    messages.success(request, f"{ended} other session{'' if ended == 1 else 's'} ended.")
    return redirect("account")


def time_zone(request: HttpRequest) -> HttpResponse:
    try:
        time_zone_set(user=request.user, name=request.POST.get("time_zone", "")[:100])
    except BerthError as error:
        messages.error(request, error.detail)
    else:
        messages.success(request, "Your choice is kept.")
    return redirect("account")


# ---- tenants ---------------------------------------------------------------------------------------------------------


def tenant(request: HttpRequest, name: str) -> HttpResponse:
    found = tenant_find(user=request.user, name=name)
    return render(request, "people/tenant.html", tenant_context(request.user, found))


def member(request: HttpRequest, name: str, username: str) -> HttpResponse:
    """Set a member's role, or remove the member."""
    found = tenant_find(user=request.user, name=name)
    role = request.POST.get("role", "")
    try:
        if role == "remove":
            member_remove(tenant=found, username=username, actor=request.user)
            done = f"{username} is removed: tokens and sessions have ended."
        else:
            member_role_set(tenant=found, username=username, role=role, actor=request.user)
            done = f"{username} is a {role} now."
    except BerthError as error:
        if error.status in {403, 404}:
            raise
        messages.error(request, error.detail)
    else:
        messages.success(request, done)
    gone = not request.user.is_authenticated or (role == "remove" and username == request.user.username)
    return redirect("overview") if gone else redirect("tenant", name=name)


@never_cache
def invite(request: HttpRequest, name: str) -> HttpResponse:
    """Make an invitation; its link stands in this answer only."""
    found = tenant_find(user=request.user, name=name)
    days = request.POST.get("days", "")
    try:
        number = int(days) if days.isascii() and days.isdigit() and len(days) < 4 else 0
        _, secret = invitation_make(tenant=found, role=request.POST.get("role", ""), days=number, actor=request.user)
    except BerthError as error:
        if error.status == 403:
            raise
        messages.error(request, error.detail)
        return redirect("tenant", name=name)
    link = request.build_absolute_uri(reverse("invitation", args=[secret]))
    return render(request, "people/tenant.html", tenant_context(request.user, found, link), status=201)


def invitation_end(request: HttpRequest, name: str, number: int) -> HttpResponse:
    found = tenant_find(user=request.user, name=name)
    invitation_withdraw(tenant=found, number=number, actor=request.user)
    messages.success(request, "The invitation is withdrawn; its link no longer works.")
    return redirect("tenant", name=name)


class SignIn(LoginView):
    """Sign in. Whoever comes from an invitation's link reads who invites, and so whom to ask for an account."""

    def get_context_data(self, **context: Any) -> dict[str, Any]:
        return super().get_context_data(**context) | {"invitation": _invited(self.get_redirect_url())}


def _invited(url: str) -> Invitation | None:
    """Return the open invitation at this address; None for any other address, and for a link that works no more."""
    try:
        match = resolve(urlsplit(url).path)
        return invitation_find(match.kwargs["secret"]) if match.url_name == "invitation" else None
    except (Resolver404, NotFound, ValueError):
        return None


@never_cache
def invitation(request: HttpRequest, secret: str) -> HttpResponse:
    """Show what a link invites to; a POST joins."""
    throttle_check(request, PasswordThrottle)
    found = invitation_find(secret)
    if request.method == "GET":
        told = {"invitation": found, "meaning": MEANINGS.get(found.role, "")}
        response = render(request, "people/invitation.html", told)
        response["Referrer-Policy"] = "no-referrer"
        return response
    try:
        joined = invitation_accept(secret=secret, user=request.user)
    except BerthError as error:
        if error.status == 404:
            raise
        messages.error(request, error.detail)
        return redirect("overview")
    messages.success(request, f"You are in {joined.name} now.")
    return redirect("tenant", name=joined.name)
