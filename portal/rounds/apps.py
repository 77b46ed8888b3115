from django.apps import AppConfig


class RoundsConfig(AppConfig):
    name = "portal.rounds"
    label = "rounds"
    default_auto_field = "django.db.models.BigAutoField"
