from django.apps import AppConfig


class EstimationConfig(AppConfig):
    name = "portal.estimation"
    label = "estimation"
    default_auto_field = "django.db.models.BigAutoField"
