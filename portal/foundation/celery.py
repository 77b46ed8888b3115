"""Celery inside the portal: plannings, reconciliation, roll-ups. Messages carry nothing; the database is the truth."""

import gc
import os
from multiprocessing import current_process
from typing import Any

from celery import Celery, bootsteps
from celery.signals import beat_init, celeryd_init, task_prerun, worker_process_init

from portal.foundation import alive
from portal.foundation.secret_key import key_require

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
# Else each worker and beat runs Django's checks as it starts, and loads every page for them. The tests run the checks.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

ERRAND = "portal.planning.rounds.settings.errand:Errand"
app = Celery("berth", task_cls=ERRAND)
clock = Celery("berth", set_as_current=False)
"""Beat's: it sends tasks by their names, and loads none of them."""
laboratory = Celery("berth", set_as_current=False, task_cls=ERRAND)
"""The laboratory's worker's: it loads what is sent to its queue (`portal.planning.rounds.settings.schedule.QUEUES`)."""
for each in (app, clock, laboratory):
    each.config_from_object("django.conf:settings", namespace="CELERY")
laboratory.autodiscover_tasks(["portal.pages.laboratory", "portal.operate.backups", "portal.work.artefacts"])
app.autodiscover_tasks(
    [
        "portal.planning.rounds",
        "portal.planning.sharing",
        "portal.work.jobs",
        "portal.work.notifications",
        "portal.cluster",
        "portal.planning.estimation",
        "portal.pages.laboratory",
        "portal.launch",
        "portal.operate.backups",
        "portal.work.artefacts",
        "portal.work.sweeps",
    ]
)


class SignsOfLife(bootsteps.StartStopStep):
    """Sign from the worker's own loop that it turns; without a broker it does not, and nobody expects it to."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def start(self, consumer: Any) -> None:
        alive.sign()
        self._timer = consumer.timer.call_repeatedly(alive.PERIOD_S, alive.sign)

    def stop(self, _consumer: Any) -> None:
        self._timer.cancel()


for each in (app, laboratory):
    each.steps["consumer"].add(SignsOfLife)


@worker_process_init.connect
def pool_signs(**_: Any) -> None:
    """Sign for each pool process too: Celery waits for a stopped one for ever. A task that takes too long has a limit."""
    alive.thread_start()


@worker_process_init.connect
def loaded_stays(**_: Any) -> None:
    """Share the pool's parent's memory with it; a collector's pass would copy it, page by page."""
    gc.freeze()


@task_prerun.connect
def database_kept(**_: Any) -> None:
    """Keep the open database for the next task (CELERY_DB_REUSE_MAX) for as long as a request would, and ask it first."""
    from django.db import close_old_connections

    close_old_connections()


SHARED_MEMORY = "/dev/shm"  # noqa: S108 - only by its descriptor is a file there opened, and deleted before it is used


@celeryd_init.connect
def pool_memory_in_memory(**_: Any) -> None:
    """Keep the values that the pool's processes share in memory, as Python's own pools do.

    Else Celery's pool makes a folder for it in the machine's temporary one, which a killed worker leaves there for ever.
    """
    if os.access(SHARED_MEMORY, os.W_OK):
        current_process()._config["tempdir"] = SHARED_MEMORY  # type: ignore[attr-defined] # noqa: SLF001 - it has no public name


@celeryd_init.connect
@beat_init.connect
def key_check(**_: Any) -> None:
    key_require()
