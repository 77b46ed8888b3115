from django.apps import AppConfig


class EnginesConfig(AppConfig):
    name = "portal.engines"
    label = "engines"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from portal.cluster import followers
        from portal.engines.selectors import gpus_may_come
        from portal.engines.services import pilot_joined

        followers.node_joined.append(pilot_joined)
        followers.possible_gpus.append(gpus_may_come)
