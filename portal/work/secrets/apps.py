from django.apps import AppConfig


class SecretsConfig(AppConfig):
    name = "portal.work.secrets"
    label = "secrets"
    default_auto_field = "django.db.models.BigAutoField"
