"""Celery's errands here; beat repeats them, so a lost message costs minutes of freshness and nothing else."""

from celery import shared_task

from portal.estimation.keeping import signatures_expire
from portal.estimation.speeds import speeds_refresh


@shared_task(name="estimation.speeds", expires=60)
def speeds() -> int:
    return speeds_refresh()


@shared_task(name="estimation.expire")
def expire() -> int:
    return signatures_expire()
