"""Put a backup back: read and check all of it first, put what is there aside, load, and settle what may still run."""

from __future__ import annotations

import shutil
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.db import OperationalError, connection, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.models import Max
from django.utils import timezone

from portal.cluster.models import Node
from portal.foundation.environment import env
from portal.foundation.events.models import OutboxMessage
from portal.foundation.layout import read_json, write_json
from portal.operate.backups import postgres, sqlite
from portal.operate.backups.archive import Unpacked, archive_unpack, header_read
from portal.operate.backups.contents import BackupError, file_put, layout_here
from portal.operate.backups.making import Tell, room_check
from portal.operate.backups.models import Backup
from portal.operate.backups.older import database_refuse, older_refuse
from portal.people.tenants.services import audit_record
from portal.planning.rounds.models import ErrandLease, PlanningLease
from portal.work.jobs.models import Allocation, Attempt, Job
from portal.work.jobs.states import QUEUED

if TYPE_CHECKING:
    from collections.abc import Iterator


NUMBERS_LEFT_OUT = 1000
"""Job numbers that are not given again: people hold numbers of jobs that the database has forgotten."""


@dataclass(frozen=True)
class Settled:
    """The figures of a restored database: jobs that wait, jobs that it believes running, and nodes that must say so."""

    made_at: datetime
    waiting: int
    running: int
    nodes: int


@transaction.atomic
def database_settle(*, made_at: datetime, path: Path) -> Settled:
    """Let a restored database do no harm. `made_at`: when the backup was made."""
    now = timezone.now()
    PlanningLease.objects.update(holder="", until=None, again=False)
    ErrandLease.objects.update(holder="", until=None)
    OutboxMessage.objects.all().delete()
    Session.objects.all().delete()
    _leases_renew(now)
    nodes = Node.objects.alive().filter(token_revoked_at=None).update(unsettled_since=now)
    _numbers_leave_out()
    size = path.stat().st_size
    Backup.objects.create(
        kind=Backup.Kind.RESTORED, at=made_at, path=str(path), size_bytes=size, took_s=0.0, proof=Backup.Proof.RESTORED
    )
    audit_record(actor=None, action="backup.restore", target="database", detail={"made_at": made_at.isoformat()})
    waiting = Job.objects.runnable().filter(state__in=QUEUED).count()
    return Settled(made_at, waiting, Attempt.objects.live().count(), nodes)


def _leases_renew(now: datetime) -> None:
    """Assume that nodes renewed their leases until now: the shims hold them even if the backup does not know."""
    live = Allocation.objects.filter(released_at=None)
    live.update(missed_at=now)
    longest = live.aggregate(s=Max("attempt__lease_s"))["s"] or 0
    until = now + timedelta(seconds=max(longest, env("BERTH_LEASE_S")))
    live.filter(lease_until__lt=until).update(lease_until=until)


def _numbers_leave_out() -> None:
    last = Job.objects.aggregate(last=Max("pk"))["last"] or 0
    following = (last // NUMBERS_LEFT_OUT + 2) * NUMBERS_LEFT_OUT
    table = Job._meta.db_table  # noqa: SLF001 - Django's documented Meta API
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute(
                "UPDATE sqlite_sequence SET seq = %s WHERE name = %s AND seq < %s", [following, table, following]
            )
        else:
            cursor.execute("SELECT setval(pg_get_serial_sequence(%s, 'id'), %s)", [table, following])


DYING_S = 5.0


def backup_restore(path: Path, *, tell: Tell = lambda _: None) -> Settled:
    """Restore into this data directory and database, which nobody may be using. Raises BackupError.

    Nothing is changed before the whole backup has been read and found good.
    """
    path = path.expanduser().absolute()
    header = header_read(path)
    _refuse_other_database(path, header.get("database"))
    if connection.vendor == "postgresql":
        _refuse_while_used()
    database_refuse()
    connection.close()  # its file will be moved
    layout = layout_here()
    layout.prepare()
    with unpacked(path, layout.root) as found:
        tell(f"read and checked: made {header['made_at']} by Berth {header['berth']}")
        write_json(layout.restoring, {"path": str(path), "at": timezone.now().isoformat()})
        aside = layout.root / f"before-restore-{timezone.now():%Y%m%dT%H%M%S%f}"
        aside.mkdir(mode=0o700)
        _database_put(found, aside)
        for name in found.names("files"):
            file_put(name, found.path(name), aside)
        # The next `up` prepares anew after any restore; static files are in no backup.
        write_json(layout.prepared, {"static": (read_json(layout.prepared) or {}).get("static")})
        tell(f"what was there before is in {aside}")
        call_command("migrate", interactive=False, verbosity=0)
        settled = database_settle(made_at=datetime.fromisoformat(header["made_at"]), path=path)
        connection.close()
        layout.restoring.unlink()
    return settled


def backup_check(path: Path) -> None:
    """Read a backup to its end and check what can be checked without a database. Raises BackupError."""
    with unpacked(path.expanduser().absolute(), layout_here().root):
        pass


@contextmanager
def unpacked(path: Path, root: Path) -> Iterator[Unpacked]:
    """Unpack and check a backup, in a directory under `root` that is gone afterwards."""
    size = header_read(path).get("unpacked_bytes")
    room_check(root, needed_bytes=size if isinstance(size, int) else path.stat().st_size)
    with tempfile.TemporaryDirectory(prefix=".restore-", dir=root) as scratch:
        try:
            found = archive_unpack(path, Path(scratch))
        except OSError as error:
            raise BackupError(f"{path} cannot be unpacked ({error.strerror or error}).", "Free some space.") from error
        _refuse_other_version(path, found)
        if found.header["database"] == "sqlite":
            sqlite.database_check(found.path(sqlite.MEMBER), found.manifest["database"])
        yield found


def _refuse_other_database(path: Path, vendor: str | None) -> None:
    if vendor != connection.vendor:
        raise BackupError(
            f"{path} is a backup of {_named(vendor)}, and this Berth uses {_named(connection.vendor)}.",
            "Set DATABASE_URL as it was when the backup was made.",
        )


def _named(vendor: str | None) -> str:
    return {"sqlite": "SQLite", "postgresql": "Postgres"}.get(vendor or "", f"the database {vendor!r}")


def _refuse_other_version(path: Path, found: Unpacked) -> None:
    applied: list[tuple[str, str]] = [(app, name) for app, name in found.manifest["database"]["migrations"]]
    older_refuse(applied, subject=str(path), remedy="another backup")
    known = MigrationLoader(None).disk_migrations
    newer = [each for each in applied if each not in known]
    if newer:
        raise BackupError(
            f"{path} was made by a newer Berth ({found.header['berth']}): this one does not know {'.'.join(newer[0])}.",
            "Restore it with the version that made it, or a later one.",
        )


def _refuse_while_used() -> None:
    try:
        others = postgres.used_elsewhere()
        patient_until = time.monotonic() + DYING_S
        while others and time.monotonic() < patient_until:  # a killed program's connection takes a moment to be noticed
            time.sleep(0.2)
            others = postgres.used_elsewhere()
    except OperationalError as error:
        raise BackupError(
            f"The database does not answer ({str(error).strip()}).", "Start it; DATABASE_URL names it."
        ) from error
    if others:
        raise BackupError(
            f"The database is in use ({len(others)} connections: {', '.join(sorted(set(others)))}).",
            "Stop every Berth that uses it (./berth down --keep-jobs leaves jobs running), then restore.",
        )


def _database_put(found: Unpacked, aside: Path) -> None:
    if connection.vendor == "postgresql":
        postgres.database_load(found.path("database"), found.manifest["database"])
        return
    main = Path(connection.settings_dict["NAME"])
    for name in (main, Path(f"{main}-wal"), Path(f"{main}-shm")):
        if name.exists():
            shutil.move(name, aside / name.name)
    beside = main.with_name(f".{main.name}.restored")  # the data directory may be on another disk
    shutil.move(found.path(sqlite.MEMBER), beside)
    beside.replace(main)
