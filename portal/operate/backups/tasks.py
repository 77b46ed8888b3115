"""Celery's task of this room: make a backup when one is due."""

from celery import shared_task

from portal.operate.backups.automatic import backup_if_due


@shared_task(name="backups.make")
def make() -> str | None:
    made = backup_if_due()
    return made.path if made else None
