"""Celery's beat with django-celery-beat's schedule, which signs that it lives at each tick (once a second)."""

from __future__ import annotations

import logging
import time
from typing import Any

from django.db import DatabaseError, InterfaceError, close_old_connections, transaction
from django_celery_beat.models import PeriodicTask
from django_celery_beat.schedulers import DatabaseScheduler

from portal import alive

log = logging.getLogger(__name__)

LOOK_S = 1.0
"""The schedule's table is looked at so often at most: a tick sends one task, and many are due at the same moment."""


class LivingScheduler(DatabaseScheduler):
    """Notes the last runs of all tasks that were due at one moment in one transaction, when nothing more is due."""

    _look_at_s = 0.0

    def tick(self, *arguments: Any, **options: Any) -> float:
        """One look at the schedule; the seconds until the next."""
        alive.sign()
        wait_s: float = super().tick(*arguments, **options)
        if wait_s > 0 and self._dirty:
            self._do_sync()
        return wait_s

    def schedule_changed(self) -> bool:
        if time.monotonic() < self._look_at_s:
            return False
        self._look_at_s = time.monotonic() + LOOK_S
        return bool(super().schedule_changed())

    def should_sync(self) -> bool:
        return False  # not after each task: `tick` knows when nothing more is due

    def sync(self) -> None:
        """Write what is not written yet; where the database does not answer, it waits for the next time."""
        if not self._dirty:
            return
        entries = [self._schedule[name] for name in self._dirty if name in self._schedule]
        try:
            close_old_connections()
            with transaction.atomic():
                for entry in entries:
                    ran = {"last_run_at": entry.model.last_run_at, "total_run_count": entry.model.total_run_count}
                    PeriodicTask.objects.filter(pk=entry.model.pk).update(**ran)
        except (DatabaseError, InterfaceError) as error:
            log.warning("beat: last runs not noted, will retry: %s", error)
        else:
            self._dirty.clear()
