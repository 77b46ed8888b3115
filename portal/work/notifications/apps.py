from django.apps import AppConfig


class NotificationsConfig(AppConfig):
    name = "portal.work.notifications"
    label = "notifications"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from portal.foundation.events.followers import idle_follow, jobs_follow, logs_follow
        from portal.work.notifications.matches import log_look
        from portal.work.notifications.noting import idle_near, job_moved

        jobs_follow(job_moved)
        logs_follow(log_look)
        idle_follow(idle_near)
