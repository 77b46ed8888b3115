"""Whether this process can write into the database: it writes a row of the outbox, and takes it away before anybody sees it."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from django.db import OperationalError, connection, transaction

from portal.foundation.events.models import OutboxMessage

if TYPE_CHECKING:
    from collections.abc import Iterator

EVERY_S = 1.0
"""A write that went well holds for so long: anybody may ask `/healthz`, as often as they like."""
LOCK_PATIENCE_MS = 2000
SQLITE_BUSY = 5

_lock = threading.Lock()
_wrote_at = [float("-inf")]


def write_try() -> None:
    """Commit a write. Raises what the database says against it, but for another writer's lock, which shows that it is well."""
    with _lock:
        if time.monotonic() - _wrote_at[0] < EVERY_S:
            return
        try:
            with _patience(), transaction.atomic():
                OutboxMessage.objects.create(topic=OutboxMessage.Topic.EVENT).delete()
        except OperationalError as error:
            if getattr(error.__cause__, "sqlite_errorcode", 0) & 0xFF != SQLITE_BUSY:
                raise
        _wrote_at[0] = time.monotonic()


@contextmanager
def _patience() -> Iterator[None]:
    """On SQLite, wait for another writer for less long than `/healthz` may take."""
    if connection.vendor != "sqlite":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute(f"PRAGMA busy_timeout = {LOCK_PATIENCE_MS}")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA busy_timeout = {1000 * int(connection.settings_dict['OPTIONS']['timeout'])}")
