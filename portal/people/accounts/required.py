"""Operators need a second factor where the setting says so: until they have one they get no further than their account page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.http import JsonResponse
from django.shortcuts import redirect

from portal.foundation.environment import env
from portal.foundation.errors import Forbidden
from portal.people.accounts.second import factor_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest, HttpResponse

    from portal.people.tenants.models import User

OPEN = ("/account/", "/logout", "/login", "/static/", "/help/", "/healthz")
DETAIL = "Operators of this Berth need a second factor: set it up on your account page."


def required_missing(user: User) -> bool:
    """Say whether the person must have a second factor and has none. A query only where the setting is on."""
    return bool(env("BERTH_OPERATORS_SECOND_FACTOR") and user.is_operator and factor_of(user) is None)


class SecondFactorRequired:
    """Sends an operator without a second factor to the account page; of REST by browser session it answers 403."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        # Only in REST a token is asked for instead of the session, where the header is a bearer's.
        by_token = request.path.startswith("/api/") and request.headers.get("Authorization", "").startswith("Bearer ")
        if request.path.startswith(OPEN) or by_token:
            return self.get_response(request)
        if not env("BERTH_OPERATORS_SECOND_FACTOR") or not request.user.is_authenticated:
            return self.get_response(request)
        if not required_missing(request.user):
            return self.get_response(request)
        if request.path.startswith("/api/"):
            refused = Forbidden(DETAIL, code="second_factor_required")
            return JsonResponse(refused.envelope(), status=refused.status)
        return redirect("account")
