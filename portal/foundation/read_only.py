"""Get rid of the parts that a process keeps of a database that was read-only for a while.

A connection that was opened meanwhile stays read-only: SQLite's, and one to a Postgres server that another has replaced. It
is closed at the end of its request or task. SQLite also keeps its `-shm` file, open only for reading, as long as the process
has any connection: each new one is read-only too. Nothing but a new process helps: a service ends itself, and the supervisor
starts it again (docs/decisions/0247).
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from django.db import DatabaseError, OperationalError

from portal.foundation import try_write
from portal.foundation.alive import MARK

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

SQLITE_READONLY = 8
POSTGRES_READ_ONLY = "25006"
LOOK_S = 5.0
PATIENCE_S = 20.0
YOUNG_S = 60.0
"""A process that is younger does not end itself: it starts at most once a minute."""
FRESH_LIMIT_S = 30.0

_service_since: float | None = None
_watcher: threading.Thread | None = None
_lock = threading.Lock()


def service_begin(**_: Any) -> None:
    """Say that this process, or its parent, is one that the supervisor starts again."""
    global _service_since  # noqa: PLW0603 - one process, one beginning
    if os.environ.get(MARK) and _service_since is None:
        _service_since = time.monotonic()


def connection_watch(connection: Any, **_: Any) -> None:
    if _noted not in connection.execute_wrappers:
        connection.execute_wrappers.append(_noted)


def says_read_only(error: BaseException | None) -> bool:
    """Say whether a driver's error means that the database, or this connection to it, takes no writes."""
    code = getattr(error, "sqlite_errorcode", 0) or 0
    return code & 0xFF == SQLITE_READONLY or getattr(error, "sqlstate", None) == POSTGRES_READ_ONLY


def _noted(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
    """Run a query. Where it is refused as read-only, raise OperationalError, as for a database that does not answer."""
    try:
        return execute(sql, params, many, context)
    except DatabaseError as error:
        if not says_read_only(error.__cause__):
            raise
        connection = context["connection"]
        connection.close_at = 0.0  # over since long ago: `close_old_connections` closes it
        if connection.vendor == "sqlite" and _service_since is not None:
            _watch(str(connection.settings_dict["NAME"]))
        raise OperationalError(*error.args) from error.__cause__


def _watch(path: str) -> None:
    """Have a thread see how it goes on; a second call while it does changes nothing."""
    global _watcher  # noqa: PLW0603 - one thread a process
    with _lock:
        if _watcher is None or not _watcher.is_alive():
            _watcher = threading.Thread(target=_see, args=(path,), name="read-only", daemon=True)
            _watcher.start()


def _see(path: str) -> None:
    """End this process and its group when only a new process can write. A full disk, a lock, or no file at all end nobody."""
    since = time.monotonic()
    while True:
        time.sleep(LOOK_S)
        if (error := try_write.refusal(path)) is None:
            return
        now = time.monotonic()
        if not says_read_only(error):
            since = now
        elif now - since >= PATIENCE_S and now - (_service_since or now) >= YOUNG_S and _another_can(path):
            if not says_read_only(try_write.refusal(path)):
                continue  # it had become writable just before
            log.error("%s: %s, in this process alone; it ends, and is started again", path, error)
            os.killpg(os.getpgrp(), signal.SIGKILL)


def _another_can(path: str) -> bool:
    """Say whether a process that has nothing of ours can write."""
    try:
        done = subprocess.run(  # noqa: S603 - our own argv, no shell
            [sys.executable, "-I", "-S", try_write.__file__, path],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=FRESH_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
