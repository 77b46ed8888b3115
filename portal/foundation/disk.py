"""The portal's disk: how much room the data directory has, and the one clear error where there is none.

Below the mark (`BERTH_DISK_LOW_MIB`) nothing new is taken in or placed; the rest is for running jobs to be ended well.
All goes on by itself when there is room again: nothing is remembered here.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import DatabaseError

from portal.foundation.environment import env
from portal.foundation.errors import BerthError

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 2**20
FEW_INODES = 1000
"""A disk with fewer free inodes is as good as full: each new file takes one."""
NO_ROOM_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT})
SQLITE_FULL = "SQLITE_FULL"
SQLITE_PERHAPS = ("SQLITE_IOERR", "SQLITE_CANTOPEN")
"""Errors of SQLite when its log or its index cannot grow, too; only on a full disk are they taken for that."""
POSTGRES_FULL = "53100"
RETRY_AFTER_S = 60


@dataclass(frozen=True)
class Disk:
    """The file system of the data directory, in MiB; `low`: free space or inodes are below the mark."""

    free_mib: int
    total_mib: int
    mark_mib: int
    low: bool

    @property
    def sentence(self) -> str:
        return (
            f"Berth's disk is almost full: {self.free_mib} of {self.total_mib} MiB are free, and it needs "
            f"{self.mark_mib} MiB. No job is taken in or started until the operator makes room"
        )


class DiskLow(BerthError):
    """There is no room for anything new; nothing was changed, and the same request may work later."""

    def __init__(self, disk: Disk | None = None) -> None:
        words = disk.sentence if disk is not None and disk.low else "The database has no room on its disk"
        super().__init__(
            "disk_low", f"{words}; nothing was changed. Try again later, or tell the operator.", status=507
        )


def disk_state() -> Disk:
    """Look now; a look costs microseconds. Raises OSError where the data directory is gone."""
    found = os.statvfs(settings.DATA_DIR)
    free_mib = found.f_bavail * found.f_frsize // MIB
    mark_mib = env("BERTH_DISK_LOW_MIB")
    inodes_low = found.f_files > 0 and found.f_favail < FEW_INODES and mark_mib > 0
    return Disk(free_mib, found.f_blocks * found.f_frsize // MIB, mark_mib, free_mib < mark_mib or inodes_low)


def disk_require() -> None:
    """Raise DiskLow where there is no room for anything new."""
    disk = disk_state()
    if disk.low:
        raise DiskLow(disk)


def disk_full_error(error: BaseException) -> DiskLow | None:
    """Return the clear error that an exception of a full disk stands for; None for any other exception."""
    if not any(_says_full(each) for each in _chain(error)):
        return None
    return DiskLow(disk_state())


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and its causes: Django wraps the driver's own."""
    for _ in range(8):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


def _says_full(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return error.errno in NO_ROOM_ERRNOS
    if getattr(error, "sqlstate", None) == POSTGRES_FULL:
        return True
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith(SQLITE_PERHAPS):
        return disk_state().low
    return name == SQLITE_FULL or (isinstance(error, DatabaseError) and "disk is full" in str(error))
