"""SQLite: copied by its own online backup while it is used, and checked before it is put anywhere."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

from portal.operate.backups.contents import BackupError

if TYPE_CHECKING:
    from pathlib import Path

MEMBER = "database/berth.sqlite3"
WAIT_S = 60.0


def database_copy(source: Path, target: Path) -> None:
    """Copy a database that is in use, as of one moment. It reads the WAL, so no writer has to wait."""
    uri = f"{source.absolute().as_uri()}?mode=rw"
    with (
        closing(sqlite3.connect(uri, uri=True, timeout=WAIT_S)) as one,
        closing(sqlite3.connect(target, timeout=WAIT_S)) as other,
    ):
        one.backup(other)
        other.execute("PRAGMA journal_mode = DELETE")  # one file, that needs no other beside it
        other.execute("PRAGMA synchronous = FULL")


def database_facts(path: Path) -> dict[str, Any]:
    """Return rows by table and applied migrations, of a file that nobody else uses."""
    with closing(sqlite3.connect(path, timeout=WAIT_S)) as connection:
        names = [
            row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        ]
        rows = {
            name: connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]  # noqa: S608 - its own tables
            for name in names
            if not name.startswith("sqlite_")
        }
        applied = connection.execute("SELECT app, name FROM django_migrations ORDER BY id").fetchall()
    return {"rows": rows, "migrations": [list(each) for each in applied]}


def database_check(path: Path, facts: dict[str, Any]) -> None:
    """Let SQLite check the whole file, and compare it with the backup's figures. Raises BackupError."""
    try:
        with closing(sqlite3.connect(path, timeout=WAIT_S)) as connection:
            said = [row[0] for row in connection.execute("PRAGMA integrity_check(3)")]
            dangling = connection.execute("PRAGMA foreign_key_check").fetchmany(3)
        found = database_facts(path)
    except sqlite3.DatabaseError as error:
        raise BackupError(f"The database in the backup cannot be used ({error}).", "Take another backup.") from error
    if said != ["ok"] or dangling:
        words = (
            "; ".join(said)
            if said != ["ok"]
            else f"{dangling[0][0]} refers to rows of {dangling[0][2]} that are missing"
        )
        raise BackupError(f"The database in the backup is damaged: {words}.", "Take another backup.")
    if found != facts:
        raise BackupError("The database in the backup does not hold what the backup says.", "Take another backup.")
