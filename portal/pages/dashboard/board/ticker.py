"""One thread a portal process: each second it makes the boards that somebody follows, and tells of nodes that measured.

Many processes may run it: a lock in Redis lets one of them make each board.
"""

from __future__ import annotations

import logging
import threading
import time

from django.conf import settings
from django.db import close_old_connections

from portal.foundation.events.following import followed, nodes_measured
from portal.foundation.events.services import live_event
from portal.foundation.events.shared import Away, client
from portal.pages.dashboard.board.feed import EVERY_S, HORIZONS_H, stream_of, tick

log = logging.getLogger(__name__)

_thread: threading.Thread | None = None
_start_lock = threading.Lock()


def start() -> None:
    """Start this process's thread; a second call does nothing."""
    global _thread  # noqa: PLW0603 - one thread a process is the point
    with _start_lock:
        if _thread is None or not _thread.is_alive():
            _thread = threading.Thread(target=_run, name="board-ticker", daemon=True)
            _thread.start()


def _run() -> None:
    while True:
        began = time.monotonic()
        try:
            close_old_connections()
            once()
        except Away as error:
            log.debug("board: Redis is away: %s", error)
        except Exception:
            log.exception("board: not made; tried again in a second")
        time.sleep(max(0.1, EVERY_S - (time.monotonic() - began)))


def once() -> None:
    """Do the work of one second. Raises what Redis and the database raise."""
    broker = client(settings.REDIS_URL)
    streams, measured = followed(broker), nodes_measured()
    for hours in HORIZONS_H:
        if stream_of(hours) in streams:
            tick(broker, hours)
    for name in sorted(measured):
        if f"node:{name}" in streams:
            live_event(stream=f"node:{name}", topic="telemetry")
