from django.apps import AppConfig


class DashboardConfig(AppConfig):
    name = "portal.dashboard"
    label = "dashboard"
    default_auto_field = "django.db.models.BigAutoField"
