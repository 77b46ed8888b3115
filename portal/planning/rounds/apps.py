from django.apps import AppConfig
from django.db.models.signals import post_migrate


class RoundsConfig(AppConfig):
    name = "portal.planning.rounds"
    label = "rounds"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from portal.cluster.services.sharing import gpus_kept_by
        from portal.planning.rounds.settings.knobs import knobs_current
        from portal.work.jobs.sizes import knobs_read_by

        knobs_read_by(knobs_current)
        gpus_kept_by(_gpus_kept)
        post_migrate.connect(_schedule, sender=self, dispatch_uid="rounds.schedule")


def _gpus_kept() -> dict[int, int]:
    """Load the planner's values when GPUs are to be shared, not as each process begins."""
    from portal.planning.rounds.planning.promises import gpus_kept

    return gpus_kept()


def _schedule(using: str = "default", **_: object) -> None:
    """Make beat's schedule once its tables exist (they are gone when migrated back to zero)."""
    from django.db import connections

    from portal.planning.rounds.settings.schedule import schedule_make

    tables = set(connections[using].introspection.table_names())
    if {"django_celery_beat_periodictask", "rounds_operatorsetting"} <= tables:
        schedule_make()
