"""Celery's beat with django-celery-beat's schedule, which signs that it lives at each tick (once a second)."""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from typing import Any

from celery.beat import SchedulingError
from django.db import DatabaseError, InterfaceError, close_old_connections, transaction
from django.utils import timezone
from django_celery_beat.models import PeriodicTask
from django_celery_beat.schedulers import DatabaseScheduler

from portal.foundation import alive

log = logging.getLogger(__name__)

LOOK_S = 1.0
"""The least time between two looks at the schedule's table: a tick sends one task, and many are due at the same moment."""


AHEAD = timedelta(seconds=2)
"""A last run that lies so far ahead was noted before the clock was set back."""


class LivingScheduler(DatabaseScheduler):
    """Notes the last runs of all tasks that were due at one moment in one transaction, when nothing more is due.

    After the clock was set back each task counts as run just now: by what was noted it would be due when the clock has come
    there again, and until then nothing would be planned, repaired or sent.
    """

    _look_at_s = 0.0

    def tick(self, *arguments: Any, **options: Any) -> float:
        """One look at the schedule; the seconds until the next."""
        alive.sign()
        self._clock_follow()
        wait_s: float = super().tick(*arguments, **options)
        if wait_s > 0 and self._dirty:
            self._do_sync()
        return wait_s

    def _clock_follow(self) -> None:
        now, entries = timezone.now(), (self._schedule or {}).values()
        # An entry's row has its last run: the entry that follows it has the same row, and is the only one in the heap.
        ahead = [each for each in entries if each.model.last_run_at > now + AHEAD]
        if not ahead:
            return
        log.warning("this machine's clock was set back: %s tasks count as run now, not in the future", len(ahead))
        for entry in ahead:
            entry.model.last_run_at = now
            self._dirty.add(entry.name)
        for entry in entries:
            entry.last_run_at = entry.model.last_run_at
        self._heap = None  # it is ordered by when they were due

    def apply_async(self, *arguments: Any, **options: Any) -> Any:
        """Send one task. After a failure the next goes by a new connection: the server may be a replica of another now."""
        try:
            return super().apply_async(*arguments, **options)
        except SchedulingError:
            self.producer.channel.pool.disconnect()
            raise

    def schedule_changed(self) -> bool:
        if time.monotonic() < self._look_at_s:
            return False
        self._look_at_s = time.monotonic() + LOOK_S
        before = self._last_timestamp
        # A change at an earlier time than the last one is one too: the clock was set back between them.
        return bool(super().schedule_changed()) or before not in {None, self._last_timestamp}

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
