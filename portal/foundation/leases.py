"""Leases of one kind: a row with `holder` and `until`, taken, kept and given back by conditional UPDATE.

The same on SQLite and Postgres: of several that try at once the database lets one, and a killed holder is replaced when
its lease is over. One that ends later than any lease that is taken now was taken before the clock was set back, and binds
nobody: it would for as long as the clock had been ahead.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import Q
from django.utils import timezone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.db.models import QuerySet


SLACK_S = 5.0
"""By how much the clocks of two machines of one portal may differ."""


def holder_new() -> str:
    """Return a name that no other holder has had: machine, process and moment."""
    return f"{socket.gethostname()}:{os.getpid()}:{time.monotonic_ns()}"


def lease_take(
    rows: QuerySet[Any], *, holder: str, limit_s: float, longest_s: float | None = None, **fields: Any
) -> bool:
    """Take the one row for `limit_s` seconds if nobody holds it, and set `fields` with it; return whether it was taken.

    `longest_s`: how long it is held at most, where others hold it for longer.
    """
    now = timezone.now()
    longest = timedelta(seconds=max(limit_s, longest_s or 0.0) + SLACK_S)
    free = rows.filter(Q(until=None) | Q(until__lt=now) | Q(until__gt=now + longest))
    return bool(free.update(holder=holder, until=now + timedelta(seconds=limit_s), **fields))


def lease_keep(mine: QuerySet[Any], *, limit_s: float, **fields: Any) -> bool:
    """Keep the row that `mine` finds for `limit_s` more seconds; False when it is another's by now."""
    return bool(mine.update(until=timezone.now() + timedelta(seconds=limit_s), **fields))


def lease_give(mine: QuerySet[Any], **fields: Any) -> bool:
    """Give the row back that `mine` finds; False when it was another's already."""
    return bool(mine.update(holder="", until=None, **fields))


@contextmanager
def lease_held(rows: QuerySet[Any], *, limit_s: float, longest_s: float | None = None) -> Iterator[bool]:
    """Hold the one row; yields False, and nothing is to be done, while another holds it."""
    holder = holder_new()
    taken = lease_take(rows, holder=holder, limit_s=limit_s, longest_s=longest_s)
    try:
        yield taken
    finally:
        if taken:
            lease_give(rows.filter(holder=holder))
