"""Celery's beat with django-celery-beat's schedule, which signs that it lives at each tick (once a second)."""

from __future__ import annotations

from typing import Any

from django_celery_beat.schedulers import DatabaseScheduler

from portal import alive


class LivingScheduler(DatabaseScheduler):
    def tick(self, *arguments: Any, **options: Any) -> float:
        """One look at the schedule; the seconds until the next."""
        alive.sign()
        return super().tick(*arguments, **options)
