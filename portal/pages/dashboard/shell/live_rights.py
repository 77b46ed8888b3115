"""Rights on the live socket, checked when a page asks for a stream and again while the socket is open."""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING, Any

from channels.auth import get_user
from channels.db import database_sync_to_async
from django.conf import settings

from portal.foundation.errors import BerthError
from portal.pages.dashboard.board.feed import HORIZONS_H, stream_of
from portal.pages.dashboard.shell.followed import SEEN_BY
from portal.people.accounts.required import required_missing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from portal.people.tenants.models import User

MOST_STREAMS = 20
"""Streams that one socket may follow."""
OPEN_STREAMS = {"cluster", *map(stream_of, HORIZONS_H)}
"""The streams that every signed-in user may follow: they name no job."""
_STREAM = re.compile(r"(job|simulation):([1-9][0-9]{0,17})|(node):([A-Za-z0-9][A-Za-z0-9._-]{0,86})", re.ASCII)
"""A node's name makes a group's, which Channels bounds at 99 characters."""


def may_follow(user: User, stream: Any) -> bool:
    """Say whether it is a valid stream name (`job:1`, not `job:01`) and the user may see that thing."""
    if not isinstance(stream, str):
        return False
    if stream in OPEN_STREAMS:
        return True
    if not _STREAM.fullmatch(stream):
        return False
    kind, _, named = stream.partition(":")
    try:
        SEEN_BY[kind](user, named)
    except BerthError:
        return False
    return True


async def still_allowed(scope: dict[str, Any], streams: Iterable[str]) -> bool:
    """Say whether the socket's session still is its user's, and the user may still see everything followed.

    A sign-out ends the session, a password change its hash, a deactivation the user. An operator who must have a second
    factor and has none follows nothing.
    """
    store = import_module(settings.SESSION_ENGINE).SessionStore
    user = await get_user({"session": store(scope["session"].session_key)})
    if user.pk != scope["user"].pk:
        return False
    return await database_sync_to_async(
        lambda: not required_missing(user) and all(may_follow(user, stream) for stream in streams)
    )()
