from django.apps import AppConfig


class LaunchConfig(AppConfig):
    """Holds the operator's commands, forgets the first password once used, watches for a read-only database; no models."""

    name = "portal.launch"

    def ready(self) -> None:
        from celery.signals import beat_init, worker_process_init, worker_ready
        from django.contrib.auth import get_user_model
        from django.contrib.auth.signals import user_logged_in
        from django.db.backends.signals import connection_created
        from django.db.models.signals import post_save

        from portal.foundation.read_only import connection_watch, service_begin
        from portal.launch.operator import forget_at_password_change, forget_at_sign_in

        user_logged_in.connect(forget_at_sign_in, dispatch_uid="operator-file")
        post_save.connect(forget_at_password_change, sender=get_user_model(), dispatch_uid="operator-file")
        connection_created.connect(connection_watch, dispatch_uid="read-only")
        for begins in (beat_init, worker_process_init, worker_ready):
            begins.connect(service_begin, dispatch_uid="read-only")
