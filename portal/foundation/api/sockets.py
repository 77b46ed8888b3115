"""How many sockets a person may hold open at one portal process; a page's tab is one, and so is a log that is followed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from channels.security.websocket import AllowedHostsOriginValidator, WebsocketDenier

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Application = Callable[[dict[str, Any], Any, Any], Awaitable[None]]


MOST_SOCKETS = 40
SIGNED_OUT, TOO_MANY = 4401, 4429
"""Codes with which a socket is closed."""

_open: Counter[int] = Counter()


def socket_take(user_id: int) -> bool:
    """Count a new socket of a person; False when the person has the most allowed already."""
    if _open[user_id] >= MOST_SOCKETS:
        return False
    _open[user_id] += 1
    return True


def socket_give(user_id: int) -> None:
    _open[user_id] -= 1
    if _open[user_id] <= 0:
        del _open[user_id]


def own_pages_only(application: Application) -> Application:
    """Return the socket application behind Channels' check of the origin. A text that is no address is refused without an error.

    Channels' check raises ValueError for `http://[` and `http://host:99999`: anybody could fill the log with its traces.
    """
    checked = AllowedHostsOriginValidator(application)

    async def checking(scope: dict[str, Any], receive: Any, send: Any) -> None:
        addresses = all(is_address(value) for name, value in scope["headers"] if name == b"origin")
        await (checked if addresses else WebsocketDenier())(scope, receive, send)

    return checking


def is_address(origin: bytes) -> bool:
    """Say whether the header's value can be read as an address at all."""
    try:
        _ = urlsplit(origin.decode("latin-1")).port  # reading it is the check
    except ValueError:
        return False
    return True
