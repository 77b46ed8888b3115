"""The world of the casts, committed: built by the first test that asks for it, and put back for each that follows."""

import contextlib
import copy
import sqlite3
from pathlib import Path

from django.db import connection
from django.utils import timezone

from portal.cluster.models import Node
from tests.databases import put_back
from tests.portal.access.world import build


class Committed:
    """Where a copy of the database lies once the world was built, and what was built. On Postgres it is built for each test."""

    def __init__(self, folder):
        self._file, self._built = Path(folder) / "world.sqlite3", None

    def world(self):
        if connection.vendor != "sqlite":
            return build()
        used = connection.settings_dict["NAME"]
        if self._built is None:
            self._built = build()
            with (
                contextlib.closing(sqlite3.connect(used)) as now,
                contextlib.closing(sqlite3.connect(self._file)) as kept,
            ):
                now.backup(kept)
        else:
            put_back(self._file, used)
            Node.objects.exclude(name="silent").update(last_contact_at=timezone.now())
        return copy.deepcopy(self._built)
