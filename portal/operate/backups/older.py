"""Databases and backups from before 0.1, when all migrations were written anew (docs/decisions/0253)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from django.db import DatabaseError, connection
from django.db.migrations.recorder import MigrationRecorder

from portal.operate.backups.contents import BackupError

if TYPE_CHECKING:
    from collections.abc import Iterable

NAMED_BEFORE = ("jobs", "0002_initial")
"""Each database from before 0.1 names this migration. No migration of today may have its name."""
COMMIT = "f9272330"
"""The last commit that reads such a database."""


def older_refuse(applied: Iterable[tuple[str, str]], *, subject: str, remedy: str) -> None:
    """Raise BackupError when these migrations, [(app, name)], are those of before 0.1."""
    if NAMED_BEFORE in applied:
        raise BackupError(
            f"{subject} was made before Berth 0.1: use {remedy}, or commit {COMMIT}, "
            "which writes its history as CSV (the job list's button, `berth usage TENANT -o csv`)."
        )


def database_refuse() -> None:
    """Raise BackupError when the database of this Berth is from before 0.1. It makes no file."""
    sqlite = connection.vendor == "sqlite"
    if sqlite and not Path(connection.settings_dict["NAME"]).exists():
        return
    try:
        applied = MigrationRecorder(connection).applied_migrations()
    except DatabaseError:  # its next user meets the same error and reports it
        return
    older_refuse(applied, subject="The database", remedy=f"another {'--data directory' if sqlite else 'DATABASE_URL'}")
