from django.apps import AppConfig


class OffersConfig(AppConfig):
    name = "portal.planning.offers"
    label = "offers"
    default_auto_field = "django.db.models.BigAutoField"
