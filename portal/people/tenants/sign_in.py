"""When a sign-in is locked: a name from one address after a few failures, a name from anywhere after many more.

The first keeps a stranger from locking a person out from where that person is; the second keeps a stranger with many
addresses from guessing on, and leaves out addresses that the person is signed in at. Failures older than the cool-off do
not count, and a refused try is none: a lock ends by itself.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from axes.attempts import get_cool_off_threshold
from axes.handlers.database import AxesDatabaseHandler
from axes.helpers import get_client_ip_address, get_client_username, get_failure_limit
from axes.models import AccessAttempt
from django.conf import settings
from django.db.models import Sum

from portal.people.tenants.models import User

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
    """Say whether a name failed too often, over all addresses, and is locked from all but its owner's own."""
    name = get_client_username(request, credentials)
    if not name:
        return False
    fresh = AccessAttempt.objects.filter(username=name, attempt_time__gte=get_cool_off_threshold(request))
    failures = fresh.aggregate(n=Sum("failures_since_start"))["n"] or 0
    if failures < settings.BERTH_SIGN_IN_NAME_FAILURES:
        return False
    return not signed_in_at(name, network_of(get_client_ip_address(request) or ""))


def network_of(address: str) -> str:
    """Return the network that counts as one address: of IPv6 a household's (/64), in which anybody takes new ones."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address) or found.ipv4_mapped:
        return str(getattr(found, "ipv4_mapped", found))
    return str(ipaddress.IPv6Network((int(found), 64), strict=False))


def signed_in_at(username: str, network: str) -> bool:
    """Say whether the person has a session that began there. A stranger with the password has none."""
    begun = User.objects.filter(username=username, sign_ins__isnull=False).values_list("sign_ins__address", flat=True)
    return network in map(network_of, begun)
