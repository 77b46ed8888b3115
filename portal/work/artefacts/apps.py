from django.apps import AppConfig


class ArtefactsConfig(AppConfig):
    name = "portal.work.artefacts"

    def ready(self) -> None:
        from django.db.models.signals import post_delete

        from portal.work.artefacts.models import JobArtefacts
        from portal.work.artefacts.selectors import kept_among
        from portal.work.artefacts.services.removing import job_gone
        from portal.work.jobs.services.asked.bringing import kept_asked_by

        kept_asked_by(kept_among)
        post_delete.connect(job_gone, sender=JobArtefacts, dispatch_uid="artefacts.job_gone")
