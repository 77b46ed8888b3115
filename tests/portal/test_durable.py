"""201 means that the job is on the disk: SQLite syncs its log at each commit, not only at a checkpoint."""

import pytest
from django.db import connection
from django.db.utils import ConnectionHandler

from portal.settings import DATABASES


@pytest.mark.skipif(connection.vendor != "sqlite", reason="Postgres does so unless its operator turned it off")
def test_each_commit_is_synced(tmp_path, django_db_blocker):
    own = ConnectionHandler({"default": DATABASES["default"] | {"NAME": str(tmp_path / "own.sqlite3")}})["default"]
    with django_db_blocker.unblock(), own.cursor() as cursor:
        assert cursor.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert cursor.execute("PRAGMA synchronous").fetchone()[0] == 2, (
            "FULL; NORMAL loses the last seconds with the power"
        )
    own.close()
