"""The frame of a signed-in page: its reader, the navigation, and the stream that it follows."""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING

import redis
from django.conf import settings

from portal.foundation.events.relay import number_key
from portal.pages.dashboard.shell.banner import banner_of
from portal.people.tenants.models import Tenant

if TYPE_CHECKING:
    from django.http import HttpRequest

    from portal.pages.dashboard.parts.context import Banner, Choice, Shell
    from portal.people.tenants.models import User

log = logging.getLogger(__name__)

REDIS_PATIENCE_S = 0.3


def page_follow(request: HttpRequest, *streams: str) -> None:
    """Make the page live. Call it before reading anything: an event in between is then seen as a gap, not lost."""
    request.live_streams = list(streams)
    request.live_numbers = stream_numbers(streams)


@functools.cache
def _redis(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, socket_timeout=REDIS_PATIENCE_S, socket_connect_timeout=REDIS_PATIENCE_S)


def stream_numbers(streams: tuple[str, ...] | list[str]) -> dict[str, int]:
    """Return each stream's last number, or {} while Redis is away: the first heartbeat then sets them."""
    if not streams:
        return {}
    try:
        values = _redis(settings.REDIS_URL).mget([number_key(stream) for stream in streams])
    except (redis.RedisError, OSError) as error:
        log.warning("page numbers: Redis is away (%s); the page begins without them", error)
        return {}
    return {stream: int(value or 0) for stream, value in zip(streams, values, strict=True)}


def shell_of(request: HttpRequest, *, title: str, menu: list[Choice], announced: Banner | None) -> Shell:
    user: User = request.user
    name = user.get_full_name() or user.username
    streams = getattr(request, "live_streams", [])
    numbers = getattr(request, "live_numbers", None)
    if numbers is None:
        numbers = stream_numbers(streams)
    return {
        "title": title,
        "menu": menu,
        "username": user.username,
        "time_zone": user.time_zone,
        "initials": initials(name),
        "is_operator": user.is_operator,
        "tenants": [tenant.name for tenant in own_tenants(request)],
        "live_streams": streams,
        "live_numbers": numbers,
        "banner": banner_of(request, announced),
    }


def own_tenants(request: HttpRequest) -> list[Tenant]:
    """Return the tenants of which the reader is a member, read once a request."""
    found: list[Tenant] | None = getattr(request, "own_tenants", None)
    if found is None:
        found = request.own_tenants = list(Tenant.objects.filter(memberships__user=request.user))
    return found


def initials(name: str) -> str:
    """Mira Okafor, mira.okafor -> MO; vera -> VE."""
    words = name.replace(".", " ").replace("_", " ").replace("-", " ").split()
    return ("".join(word[0] for word in words[:2]) if len(words) > 1 else name[:2]).upper()
