"""The present board of each h: kept in Redis for all processes, made by one of them, once a second while followed.

Versions count up by one from the moment (in ms) at which the first was made, so that after a gap in Redis no page takes a
difference for the next of another row.
"""

from __future__ import annotations

import json
import secrets
import time
from itertools import chain
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.utils import timezone

from portal.foundation.errors import BerthError
from portal.foundation.events.services import live_event
from portal.foundation.events.shared import RELEASE, Away, Sharing, client
from portal.pages.dashboard.board.board import board_made
from portal.pages.dashboard.board.facts import Facts, facts_read
from portal.work.jobs.held_time import core_held_s, gpu_held_s
from portal.work.jobs.queue_counts import demand_by_types

if TYPE_CHECKING:
    import redis

    from portal.pages.dashboard.board.board import Board

HORIZONS_H = (1, 6, 24)


def horizon(text: str | None) -> int:
    """Return h of `?h=`. Raises BerthError for anything but the choices that the page offers."""
    if not text:
        return HORIZONS_H[0]
    if text not in {str(hours) for hours in HORIZONS_H}:
        raise BerthError("invalid", f"`h` must be {' or '.join(map(str, HORIZONS_H))}, in hours.", field="h")
    return int(text)


COLUMNS = ("active", "use", "memory", "state", "health", "heard")
"""Columns that are compared place by place; the others but `groups` are the board's shape."""
SHAPE = ("h", "nodes", "gpus", "order", "titles")


EVERY_S = 1.0
FACTS_S = 0.8
SERVED_S = 3.0
"""A stored board up to this age is served as it is; an older one is made anew (nobody followed it)."""
KEPT_S = 600
LOCK_S = 20
PATIENCE_S = 5.0
SHARES_PER_H_S = 10.0
"""Seconds between two sums of active shares, for each hour of h: 0.3 % of it."""


def stream_of(hours: int) -> str:
    return f"board:{hours}"


def facts_now(sharing: Sharing) -> Facts:
    """Return the shared facts. They are at most a second old: new measurements cause no event in the cluster's stream."""
    return Facts(**sharing.get("facts", lambda _: vars(facts_read()), every_s=FACTS_S, longest_s=FACTS_S))


def board_now(hours: int) -> Board:
    """Return the present board with its `version`. Without Redis it is made for this answer only, as version 0."""
    try:
        broker = client(settings.REDIS_URL)
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            stored = _read_stored(broker, hours)
            if stored and 0 <= time.time() - stored["at"] < SERVED_S:
                return stored
            if made := tick(broker, hours):
                return made
            time.sleep(0.02)  # another process makes it
    except Away:
        pass
    return _made(hours, None) | {"version": 0, "at": time.time()}


def _read_stored(broker: redis.Redis, hours: int) -> Board | None:
    found = broker.get(f"berth:board:{hours}")
    return json.loads(found) if found else None


def tick(broker: redis.Redis, hours: int) -> Board | None:
    """Make the next board and tell who follows it what changed; None while another process does, or did just now."""
    lock, holder = f"berth:board:{hours}:lock", secrets.token_hex(8)
    if not broker.set(lock, holder, nx=True, ex=LOCK_S):
        return None
    try:
        before = _read_stored(broker, hours)
        now = time.time()
        if before and 0 <= now - before["at"] < 0.9 * EVERY_S:
            return before
        made = _made(hours, before)
        change = difference(before, made) if before else None
        first = before["version"] if before else int(now * 1000)
        board = made | {"version": first + (change != {}), "at": now}
        broker.set(f"berth:board:{hours}", json.dumps(board, separators=(",", ":")), ex=KEPT_S)
    finally:
        broker.eval(RELEASE, 1, lock, holder)
    if before and change != {}:
        live_event(stream=stream_of(hours), topic="board", **{"from": first, "to": board["version"], "change": change})
    return board


def _made(hours: int, before: Board | None) -> Board:
    sharing = Sharing()
    facts = facts_now(sharing)
    slow = sharing.get(
        f"shares:{hours}", lambda _: _shares(hours), every_s=SHARES_PER_H_S * hours, longest_s=SHARES_PER_H_S * hours
    )
    demand = sharing.get("demand", lambda _: demand_by_types(), every_s=5.0)
    return board_made(
        facts,
        hours=hours,
        gpu_held_s={int(key): value for key, value in slow["gpus"].items()},
        core_held_s={int(key): value for key, value in slow["cores"].items()},
        measured_at=slow["at"],
        demand=[(size, list(types), jobs) for size, types, jobs in demand],
        before=before,
    )


def _shares(hours: int) -> dict[str, Any]:
    now = timezone.now()
    return {
        "at": now.timestamp(),
        "gpus": gpu_held_s(hours=hours, now=now),
        "cores": core_held_s(hours=hours, now=now),
    }


def difference(before: Board, after: Board) -> dict[str, Any] | None:
    """Return the changes as {column: [place, value, place, value ...], "groups": ...}; {} for nothing.

    None: another shape (nodes, GPUs, groups or their order changed), which is fetched whole.
    """
    if any(before[name] != after[name] for name in SHAPE):
        return None
    found: dict[str, Any] = {}
    for name in COLUMNS:
        pairs = enumerate(zip(before[name], after[name], strict=True))
        changed = list(chain.from_iterable((place, new) for place, (old, new) in pairs if old != new))
        if changed:
            found[name] = changed
    if before["groups"] != after["groups"]:
        found["groups"] = after["groups"]
    return found
