"""Celery's errands here."""

from celery import shared_task

from portal.planning.sharing.keeping import shadow_expire


@shared_task(name="sharing.expire")
def expire() -> int:
    return shadow_expire()
