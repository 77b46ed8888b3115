"""Limits for costly requests of a user: those that solve, or that read a trace or a cluster's description.

Counted in each portal process by user, for all tokens together.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rest_framework.throttling import UserRateThrottle

from portal.foundation.errors import BerthError

if TYPE_CHECKING:
    from django.http import HttpRequest


class PlanThrottle(UserRateThrottle):
    scope = "plan"
    rate = "60/min"


class LaboratoryThrottle(UserRateThrottle):
    scope = "laboratory"
    rate = "30/min"


class FormThrottle(UserRateThrottle):
    """The submit form asks while a person types, at most about twice a second."""

    scope = "form"
    rate = "120/min"


class PasswordThrottle(UserRateThrottle):
    """Limits guesses of a password or an invitation from a foreign session."""

    scope = "password"
    rate = "20/min"


def throttle_check(request: HttpRequest, throttle: type[UserRateThrottle]) -> None:
    """Count this request of a page together with REST's requests of the same scope. Raises BerthError (429)."""
    counted = throttle()
    if not counted.allow_request(request, None):
        wait_s = math.ceil(counted.wait() or 1)
        raise BerthError("too_many_requests", f"Too many of these in a minute; wait {wait_s} s.", status=429)
