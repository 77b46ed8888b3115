from django.apps import AppConfig


class DashboardConfig(AppConfig):
    name = "portal.pages.dashboard"
    label = "dashboard"
    default_auto_field = "django.db.models.BigAutoField"
