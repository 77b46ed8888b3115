from django.apps import AppConfig


class TemplatingConfig(AppConfig):
    name = "portal.planning.templating"
    label = "templating"
    default_auto_field = "django.db.models.BigAutoField"
