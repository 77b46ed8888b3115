"""Automatic backups: one every BERTH_BACKUP_HOURS; the newest BERTH_BACKUP_KEEP stay; a problem is shown when none is made."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from django.conf import settings
from django.db.models import Max
from django.utils import timezone

from portal.foundation.environment import env
from portal.operate.backups.contents import BackupError, layout_here
from portal.operate.backups.making import AUTOMATIC, SUFFIX, backup_make
from portal.operate.backups.models import Backup
from portal.planning.rounds.planning.lease import errand

if TYPE_CHECKING:
    from datetime import datetime

log = logging.getLogger(__name__)

ERRAND, LONGEST_S = "backups.make", 6 * 3600.0
LATE = 2
"""A backup is missed when none has been made for this multiple of the interval."""


def hours_between() -> int:
    """Return the interval; 0: no backups are made. A demo makes none."""
    return 0 if settings.DEMO else env("BERTH_BACKUP_HOURS")


def last_backup_at() -> datetime | None:
    """Return when the newest backup was made, automatic or asked for by a person."""
    return Backup.objects.aggregate(at=Max("at"))["at"]


def backup_if_due() -> Backup | None:
    """Make a backup into DIR/backups if one is due, and remove the oldest automatic ones. None when it is not, or failed."""
    hours, last = hours_between(), last_backup_at()
    if not hours or (last is not None and timezone.now() - last < timedelta(hours=hours)):
        return None
    with errand(ERRAND, limit_s=LONGEST_S) as mine:
        if not mine:
            return None
        try:
            made = backup_make(automatic=True, tell=log.info)
        except BackupError as error:
            log.error("no backup was made: %s", error)  # noqa: TRY400 - a sentence, and the health page names the age
            return None
        keep = max(1, env("BERTH_BACKUP_KEEP"))
        for path in sorted(layout_here().backups.glob(f"{AUTOMATIC}*{SUFFIX}"))[:-keep]:
            path.unlink(missing_ok=True)
        return made


def backup_problems(now: datetime) -> list[str]:
    """Say that a backup is overdue: for the health page. One query."""
    hours = hours_between()
    if not hours:
        return []
    last = last_backup_at()
    if last is None:
        return []  # the first is made within minutes of the first start, or its failure is in the log
    if now - last < timedelta(hours=LATE * hours):
        return []
    return [
        f"backup: the newest is of {last:%Y-%m-%d %H:%M} UTC, and one every {hours} h is due; logs/laboratory.log says why"
    ]
