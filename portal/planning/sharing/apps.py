from django.apps import AppConfig


class SharingConfig(AppConfig):
    name = "portal.planning.sharing"
    label = "sharing"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from portal.planning.rounds.planning.shadowed import shadow_follow
        from portal.planning.sharing.shadow import RUNNER

        shadow_follow(RUNNER.offer)
