"""The frame of a signed-in page: its reader, the navigation, and the stream that it follows."""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING

import redis
from django.conf import settings
from django.db.models import Count

from portal.cluster.models import Node
from portal.foundation.disk import disk_state
from portal.foundation.events.relay import number_key
from portal.foundation.events.shared import Sharing
from portal.people.tenants.models import Tenant

if TYPE_CHECKING:
    from django.http import HttpRequest

    from portal.pages.dashboard.parts.context import Choice, Shell
    from portal.people.tenants.models import User

log = logging.getLogger(__name__)

REDIS_PATIENCE_S = 0.3
BANNER_EVERY_S = 10.0


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


def shell_of(request: HttpRequest, *, title: str, menu: list[Choice]) -> Shell:
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
        "banner": _banner(),
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


def _accounts(_: Sharing) -> list[tuple[bool, bool | None, int]]:
    """Return (all jobs share one account, its walls stand, how many nodes). It reads each node's row, so not for every page."""
    told = Node.objects.alive().order_by().values_list("single_account", "isolation__files")  # no order: it would group
    return list(told.annotate(nodes=Count("pk")))


def _banner() -> str | None:
    """Say that the disk is full; else warn where all jobs run as one account, and say what keeps them apart there."""
    if (disk := disk_state()).low:
        return f"{disk.sentence}."
    told = Sharing().get("accounts", _accounts, every_s=BANNER_EVERY_S)
    found = {files for alone, files, _ in told if alone}
    if not found:
        return None
    trust = "Tenants must trust each other: their" if settings.DEMO else "One tenant's jobs a node: all"
    nodes, shared = sum(count for *_, count in told), sum(count for alone, _, count in told if alone)
    where = "" if shared == nodes else f" on {shared} of {nodes} nodes"
    begin = f"Single-account mode{where}. {trust} jobs run as the agent's own account"
    if found == {True}:
        return f"{begin}. They are kept out of Berth's files and each other's directories, not out of the account's other files."
    return f"{begin} and can read each other's files; where a node does not keep them out, Berth's own as well."
