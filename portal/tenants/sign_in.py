"""When a sign-in is locked: a name from one address after a few failures, a name from anywhere after many more.

The first keeps a stranger from locking a person out from where that person is; the second keeps a stranger with many
addresses from guessing on. Failures older than the cool-off do not count, and a refused try is none: a lock ends by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from axes.attempts import get_cool_off_threshold
from axes.handlers.database import AxesDatabaseHandler
from axes.helpers import get_client_username, get_failure_limit
from axes.models import AccessAttempt
from django.conf import settings
from django.db.models import Sum

if TYPE_CHECKING:
    from django.http import HttpRequest


class SignInHandler(AxesDatabaseHandler):
    """axes' own counting by name and address, and the second limit by name."""

    def get_failures(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> int:
        """Return the failures that count; at least the limit where the name is locked from everywhere."""
        here = super().get_failures(request, credentials)
        limit = get_failure_limit(request, credentials)
        return max(here, limit) if here < limit and name_is_locked(request, credentials) else here


def name_is_locked(request: HttpRequest, credentials: dict[str, Any] | None = None) -> bool:
    """Say whether a name failed so often, from whatever addresses, that it is locked from all of them."""
    name = get_client_username(request, credentials)
    if not name:
        return False
    fresh = AccessAttempt.objects.filter(username=name, attempt_time__gte=get_cool_off_threshold(request))
    failures = fresh.aggregate(n=Sum("failures_since_start"))["n"] or 0
    return failures >= settings.BERTH_SIGN_IN_NAME_FAILURES
