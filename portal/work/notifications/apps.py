from django.apps import AppConfig


class NotificationsConfig(AppConfig):
    name = "portal.work.notifications"

    def ready(self) -> None:
        from portal.foundation.events import followers
        from portal.work.notifications.matches import log_look
        from portal.work.notifications.noting import idle_near, job_moved

        followers.job_moved.append(job_moved)
        followers.log_came.append(log_look)
        followers.idle_near.append(idle_near)
