"""Values that many readers ask for and that cost much: one process computes each, for all processes and readers.

A value lives in Redis with the number of the last event before it was computed. It is served while no event came since
(up to `LONGEST_S`), and in any case for `every_s`, or ten times what it took if that is longer: however many readers
there are, a value never takes more than a tenth of a core. One reader computes while the others are given the value
before it (no stampede). An answer older than the last event says so (`late`): its page asks again.

Without Redis each caller computes for itself: no page is live then anyway.
"""

from __future__ import annotations

import functools
import json
import logging
import secrets
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import redis
from django.conf import settings

from portal.foundation.events.relay import number_key

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

LONGEST_S = 5.0
"""Times pass without events: figures such as the longest waiting are computed anew after this time."""
SHARE_OF_TIME = 10.0
STALE_S = 30.0
"""While another process computes, a value up to this age is served."""
LOCK_S = 20
PATIENCE_S = 3.0
"""The longest time that a reader without any value waits for the one that computes; then it computes too."""
STREAM = "cluster"

RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
Away = (redis.RedisError, OSError)
REPLACED: list[type[Exception]] = [redis.ReadOnlyError]
"""What a server says that is a replica now: a kept connection to it is closed, and the same asked of whoever has its address."""


@functools.cache
def client(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, socket_timeout=2, socket_connect_timeout=0.3, retry_on_error=REPLACED)


@dataclass
class Sharing:
    """The values of one answer: each is asked for once, so that its parts agree.

    `number`: of the last event that all its parts know; None: nothing came from Redis. `late`: an event has come since.
    """

    number: int | None = None
    late: bool = False
    entries: dict[str, dict[str, Any]] = field(default_factory=dict)

    def get(
        self, name: str, make: Callable[[Sharing], Any], *, every_s: float = 1.0, longest_s: float = LONGEST_S
    ) -> Any:
        """Return the shared value of that name, a JSON value; `make` computes it, of values from the `Sharing` it is given."""
        if name not in self.entries:
            try:
                self.entries[name] = self._entry(name, make, every_s=every_s, longest_s=longest_s)
            except Away as error:
                log.debug("shared values: Redis is away (%s); %s is computed here", error, name)
                self.entries[name] = {"value": make(self), "number": None, "late": False}
        entry = self.entries[name]
        if entry["number"] is not None:
            self.number = entry["number"] if self.number is None else min(self.number, entry["number"])
            self.late = self.late or entry["late"]
        return entry["value"]

    def forget(self, name: str) -> None:
        """Have the value computed anew when it is asked for next."""
        self.entries.pop(name, None)
        try:
            client(settings.REDIS_URL).delete(f"berth:shared:{name}")
        except Away as error:
            log.debug("shared values: Redis is away (%s); %s was kept nowhere", error, name)

    def _entry(self, name: str, make: Callable[[Sharing], Any], *, every_s: float, longest_s: float) -> dict[str, Any]:
        """Return the entry to serve, and whether an event came after it. Raises what Redis raises."""
        broker = client(settings.REDIS_URL)
        key = f"berth:shared:{name}"
        until = time.monotonic() + PATIENCE_S
        while True:
            current, entry = _read(broker, key)
            if entry is not None and _is_fresh(entry, current, every_s=every_s, longest_s=longest_s):
                return entry | {"late": entry["number"] < current}
            holder = secrets.token_hex(8)
            alone = broker.set(f"{key}:lock", holder, nx=True, ex=LOCK_S)
            if alone or time.monotonic() > until:
                break
            if entry is not None and 0 <= time.time() - entry["at"] < STALE_S:
                return entry | {"late": True}
            time.sleep(0.02)
        try:
            if alone:  # perhaps the one before had it ready between our look and the lock
                current, entry = _read(broker, key)
                if entry is not None and _is_fresh(entry, current, every_s=every_s, longest_s=longest_s):
                    return entry | {"late": entry["number"] < current}
            return self._made(broker, key, make, number=current)
        finally:
            if alone:
                broker.eval(RELEASE, 1, f"{key}:lock", holder)

    def _made(self, broker: redis.Redis, key: str, make: Callable[[Sharing], Any], *, number: int) -> dict[str, Any]:
        at, began = time.time(), time.monotonic()
        inner = Sharing(entries=self.entries)
        value = make(inner)
        known = number if inner.number is None else min(number, inner.number)
        entry = {"number": known, "at": at, "took_s": time.monotonic() - began, "value": value}
        broker.set(key, json.dumps(entry, separators=(",", ":")), ex=300)
        return entry | {"late": known < number}


def _read(broker: redis.Redis, key: str) -> tuple[int, dict[str, Any] | None]:
    """Return the number of the last event, and the value under the key."""
    number, stored = broker.mget([number_key(STREAM), key])
    return int(number or 0), json.loads(stored) if stored else None


def _is_fresh(entry: dict[str, Any], number: int, *, every_s: float, longest_s: float) -> bool:
    age = time.time() - entry["at"]
    if not 0 <= age < STALE_S + longest_s:  # a clock was set back
        return False
    soonest = max(every_s, SHARE_OF_TIME * entry["took_s"])
    return age < soonest or (entry["number"] == number and age < max(longest_s, soonest))
