import gc

from django.apps import AppConfig


class LaunchConfig(AppConfig):
    """Holds the operator's commands, forgets the first password once it is used, wakes the collector; no models."""

    name = "portal.launch"
    label = "launch"

    def ready(self) -> None:
        from django.contrib.auth import get_user_model
        from django.contrib.auth.signals import user_logged_in
        from django.db.models.signals import post_save

        from portal.launch.operator import forget_at_password_change, forget_at_sign_in

        user_logged_in.connect(forget_at_sign_in, dispatch_uid="operator-file")
        post_save.connect(forget_at_password_change, sender=get_user_model(), dispatch_uid="operator-file")
        if not gc.isenabled():  # `guarded` let it rest until nearly all modules are there
            gc.enable()
            gc.freeze()
