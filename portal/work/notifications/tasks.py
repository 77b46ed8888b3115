"""Celery's errands of notifications. A lost message is made good by the next tick."""

from celery import shared_task

from portal.work.notifications.matches import digests_note
from portal.work.notifications.noting import times_note
from portal.work.notifications.sending import PASS_LIMIT_S, deliver
from portal.work.notifications.spreading import messages_expire

shared_task(deliver, name="notifications.deliver", time_limit=PASS_LIMIT_S)
shared_task(messages_expire, name="notifications.expire")


@shared_task(name="notifications.watch")
def watch() -> int:
    """Look for jobs that wait long or near their time limit, and for further lines of logs that are due."""
    return times_note() + digests_note()
