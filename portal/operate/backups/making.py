"""Make a backup while Berth runs: the database as of one moment, the files beside it, and a restore of it to prove it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.db import ProgrammingError, connection
from django.utils import timezone

import portal
from portal.foundation.environment import env
from portal.foundation.layout import SOURCE
from portal.operate.backups import sqlite
from portal.operate.backups.archive import MANIFEST, archive_written
from portal.operate.backups.contents import BackupError, files_here, layout_here
from portal.operate.backups.models import Backup
from portal.operate.backups.older import database_refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Tell = Callable[[str], None]
INSUFFICIENT_PRIVILEGE = "42501"
"""Postgres's answer to an account that may not make a database."""
SUFFIX, AUTOMATIC = ".berth-backup", "berth-automatic-"


def backup_make(*, to: Path | None = None, automatic: bool = False, tell: Tell = lambda _: None) -> Backup:
    """Make a backup, check it by restoring it, and record it. `to`: a new file, or a directory for it.

    `automatic`: named as one that may be removed when newer ones are there.

    Raises BackupError; then no file is left under the name.
    """
    database_refuse()
    began, at = time.monotonic(), timezone.now()
    path = _target(to, at, prefix=AUTOMATIC if automatic else "berth-")
    with tempfile.TemporaryDirectory(prefix=".backup-", dir=path.parent) as scratch:
        room_check(path.parent, needed_bytes=2 * database_bytes())
        _database_write(path, at, Path(scratch), tell)
        shutil.rmtree(scratch, ignore_errors=True)
        Path(scratch).mkdir(mode=0o700)
        tell(f"{path.stat().st_size / 2**20:.1f} MiB written to {path}")
        try:
            proof = _verify(path, Path(scratch), tell)
        except BackupError:
            path.unlink()
            raise
    row = Backup(at=at, path=str(path), size_bytes=path.stat().st_size, took_s=time.monotonic() - began, proof=proof)
    row.save()
    return row


def _database_write(path: Path, at: datetime, scratch: Path, tell: Tell) -> None:
    """Read the database into `scratch` and write the backup from it. Raises BackupError when `path` cannot be written."""
    try:
        facts, members = _database(scratch)
        tell(f"database read: {facts['rows'].get('jobs_job', 0)} jobs, {sum(facts['rows'].values())} rows")
        _write(path, at=at, facts=facts, members=members)
    except FileExistsError as error:
        raise BackupError(f"{path} is there already.", "Give another name with --to, or a directory.") from error
    except OSError as error:
        raise BackupError(
            f"{path} cannot be written ({error.strerror or error}).", "Name another place with --to."
        ) from error


def database_bytes() -> int:
    """Return the size of the database on its disk."""
    if connection.vendor == "sqlite":
        return sum(p.stat().st_size for p in database_files())
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_database_size(current_database())")
        return int(cursor.fetchone()[0])


def database_files() -> list[Path]:
    """Return SQLite's files that are there: the database and its WAL's."""
    main = Path(connection.settings_dict["NAME"])
    return [p for p in (main, Path(f"{main}-wal"), Path(f"{main}-shm")) if p.exists()]


def room_check(directory: Path, *, needed_bytes: int) -> None:
    free, needed = shutil.disk_usage(directory).free >> 20, (needed_bytes >> 20) + env("BERTH_DISK_LOW_MIB")
    if free < needed:
        raise BackupError(
            f"Only {free} MiB are free on the disk of {directory}; this needs {needed} MiB for a while.",
            "Free some space, or use a directory on another disk (--to).",
        )


def _target(to: Path | None, at: datetime, *, prefix: str) -> Path:
    """Return the file to make: absolute, in a directory that exists, and not there yet."""
    name = f"{prefix}{at.astimezone(UTC):%Y%m%dT%H%M%SZ}{SUFFIX}"
    directory = layout_here().backups if to is None else to.expanduser().absolute()
    if to is None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / name if directory.is_dir() else directory
    if not path.parent.is_dir():
        raise BackupError(f"There is no directory {path.parent}.", "Make it, or name another place with --to.")
    if path.exists():
        raise BackupError(f"{path} is there already.", "Give another name with --to, or a directory.")
    if not os.access(path.parent, os.W_OK):
        raise BackupError(f"{path.parent} cannot be written by this user.", "Name another place with --to.")
    return path


def _database(scratch: Path) -> tuple[dict[str, Any], dict[str, Path]]:
    """Copy the database into the scratch directory; return its figures, and the files by their names in a backup."""
    if connection.vendor == "sqlite":
        copy = scratch / "berth.sqlite3"
        sqlite.database_copy(Path(connection.settings_dict["NAME"]), copy)
        return sqlite.database_facts(copy), {sqlite.MEMBER: copy}
    from portal.operate.backups import postgres  # late: SQLite needs none of it

    directory = scratch / "rows"
    facts = postgres.database_dump(directory)
    return facts, {f"database/{path.name}": path for path in sorted(directory.iterdir())}


def _write(path: Path, *, at: datetime, facts: dict[str, Any], members: Mapping[str, Path]) -> None:
    sources = {**members, **files_here()}
    about = {"made_at": at.isoformat(), "berth": portal.VERSION, "database": connection.vendor}
    size = sum(source.stat().st_size for source in sources.values())
    with archive_written(path, about | {"unpacked_bytes": size}) as writer:
        for name, source in sources.items():
            writer.add(name, source)
        writer.add_json(MANIFEST, {"members": writer.members, "database": facts})


def _verify(path: Path, scratch: Path, tell: Tell) -> str:
    """Restore the backup into a data directory and a database made for it, and drop them again."""
    data = scratch / "data"
    data.mkdir(mode=0o700)
    kept = {name: value for name, value in os.environ.items() if name not in {"DATABASE_URL", "BERTH_SECRET_KEY_FILE"}}
    environment = kept | {"BERTH_DATA_DIR": str(data), "PYTHONPATH": str(SOURCE)}
    try:
        with _scratch_database() as url:
            _restore_run(path, environment | ({"DATABASE_URL": url} if url else {}))
    except ProgrammingError as error:
        if getattr(error.__cause__, "sqlstate", "") != INSUFFICIENT_PRIVILEGE:
            raise
        _restore_run(path, environment, "--check")
        tell(
            "read back and counted, not restored: the database's account may make no database (ALTER ROLE ... CREATEDB)"
        )
        return Backup.Proof.READ
    tell("restored into a scratch database and compared: the backup is good")
    return Backup.Proof.RESTORED


@contextmanager
def _scratch_database() -> Iterator[str | None]:
    """Give the URL of a Postgres database of our own, None where SQLite makes its own; it is dropped afterwards."""
    if connection.vendor == "sqlite":
        yield None
        return
    name = f"berth_check_{os.getpid()}"
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
    try:
        yield url_with(name)
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")


def url_with(database: str) -> str:
    """Return DATABASE_URL with another database's name."""
    from urllib.parse import urlsplit, urlunsplit

    return urlunsplit(urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{database}"))


def _restore_run(path: Path, environment: Mapping[str, str], *flags: str) -> None:
    argv = [sys.executable, "-P", str(SOURCE / "manage.py"), "restore", str(path), *flags]
    done = subprocess.run(argv, cwd=SOURCE, env=dict(environment), capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise BackupError(
            f"A test restore of the backup failed ({last}).", "The file was removed. Check the disk, and try again."
        )
