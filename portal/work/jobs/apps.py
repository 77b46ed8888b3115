from django.apps import AppConfig
from django.db.models.signals import post_migrate, pre_migrate


class JobsConfig(AppConfig):
    name = "portal.work.jobs"

    def ready(self) -> None:
        from portal.work.jobs.services.nodes import nodes_follow
        from portal.work.jobs.triggers import triggers_drop, triggers_make

        pre_migrate.connect(triggers_drop, sender=self, dispatch_uid="jobs.triggers_drop")
        # jobs comes after cluster in INSTALLED_APPS, so both tables exist when this is called.
        post_migrate.connect(triggers_make, sender=self, dispatch_uid="jobs.triggers")
        nodes_follow()
