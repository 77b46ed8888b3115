"""Beat's schedule, as rows: made after every migrate and whenever the operator changes the tick."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from portal.foundation.environment import env
from portal.planning.rounds.settings.knobs import knobs_current

LABORATORY = "laboratory"
"""The queue of the laboratory's worker."""

FIXED_S = {"jobs.reconcile": 5, "jobs.expire": 3600, "cluster.roll_up": 3600, "rounds.expire": 3600} | {
    "cluster.pack": 60,
    "jobs.idle": 15,
    "rounds.forecast": 60,
    "rounds.first_starts": 10,
    "rounds.tune": 5,
    "rounds.relieve": 5,
    "estimation.speeds": 120,
    "estimation.links": 5,
    "estimation.distil": 60,
    "estimation.expire": 3600,
    "notifications.deliver": 5,
    "notifications.watch": 60,
    "notifications.expire": 3600,
    "sharing.expire": 3600,
    "jobs.uploads_expire": 3600,
    "simulations.next": 5,
    "simulations.expire": 3600,
    "simulations.retrain_sharing": 60,
    "launch.demo_arrivals": 5,
    "backups.make": 300,
    "artefacts.expire": 3600,
    "artefacts.move": 60,
    "artefacts.sweep_store": 86400,
    "sweeps.read": 5,
}

QUEUES = dict.fromkeys(
    "simulations.next simulations.retrain_sharing backups.make artefacts.move artefacts.sweep_store".split(), LABORATORY
)
"""Tasks that do not go to the workers that plan: simulations, backups and large files may take half an hour each."""


BY_AGE = frozenset(
    """
        artefacts.expire artefacts.sweep_store jobs.expire jobs.uploads_expire notifications.expire rounds.expire
        sharing.expire simulations.expire estimation.expire
    """.split()
)
"""They delete what is old, and wait where the clock leapt ahead (`settings/leaps.py`). Figures of nodes are not waited for."""
DEMO_ONLY = frozenset({"launch.demo_arrivals"})
STORE_ONLY = frozenset({"artefacts.move", "artefacts.sweep_store"})
"""Where artefacts lie in a bucket."""


def schedule_make(**_: Any) -> None:
    """Set every periodic task's interval: plannings by the operator's tick, the others fixed."""
    for task, every_s in {"rounds.plan": knobs_current()["tick_s"], **FIXED_S}.items():
        interval, _ = IntervalSchedule.objects.get_or_create(every=max(1, round(every_s)), period="seconds")
        enabled = (settings.DEMO or task not in DEMO_ONLY) and (bool(env("BERTH_S3_URL")) or task not in STORE_ONLY)
        PeriodicTask.objects.update_or_create(
            name=task,
            defaults={
                "task": task,
                "interval": interval,
                "enabled": enabled,
                "expire_seconds": 60,
                "queue": QUEUES.get(task),
            },
        )
