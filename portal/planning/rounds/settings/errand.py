"""Celery's wrapper: a task that deletes old rows does nothing while the clock may be wrong."""

from __future__ import annotations

import logging
from typing import Any

from celery import Task

from portal.planning.rounds.settings.schedule import BY_AGE

log = logging.getLogger(__name__)


class Errand(Task):
    """Any task of Berth's."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Do the task, or nothing: None then."""
        if self.name in BY_AGE and _must_wait(self.name):
            return None
        return super().__call__(*arguments, **options)


def _must_wait(name: str) -> bool:
    from portal.planning.rounds.settings.leaps import leap_now
    from portal.work.jobs.services.reconciling import (
        leases_follow_clock,  # late: models are not there when Celery makes its tasks' class
    )

    leases_follow_clock()  # this task may be the first that meets the new time
    leap = leap_now()
    if leap is not None:
        log.warning("%s waits until %s: the clock went ahead by %s, and may be wrong", name, leap.until, leap.by)
    return leap is not None
