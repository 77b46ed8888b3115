"""Which live streams somebody follows now, and which nodes have measured since the last look.

Values without a reader are neither computed nor sent: sockets mark their streams at each heartbeat, in Redis, for all
processes; a mark ends by itself.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    import redis

KEY = "berth:followed"
MARK_S = 15
"""Three heartbeats."""

_lock = threading.Lock()
_measured: set[str] = set()


def marks(streams: Iterable[str]) -> dict[str, float]:
    """Return what to add to the sorted set `KEY`: streams with the moment when their marks end."""
    until = time.time() + MARK_S
    return dict.fromkeys(streams, until)


def followed(broker: redis.Redis) -> set[str]:
    """Return the streams that somebody follows, and forget ended marks."""
    with broker.pipeline(transaction=False) as pipeline:
        pipeline.zremrangebyscore(KEY, "-inf", time.time())
        pipeline.zrange(KEY, 0, -1)
        names = pipeline.execute()[1]
    return {name.decode() for name in names}


def node_measured(name: str) -> None:
    """Remember that a node sent telemetry: its readers hear of it at the next tick, once a second at most."""
    with _lock:
        _measured.add(name)


def nodes_measured() -> set[str]:
    """Return the nodes that sent telemetry to this process since the last call."""
    with _lock:
        names = set(_measured)
        _measured.clear()
    return names
