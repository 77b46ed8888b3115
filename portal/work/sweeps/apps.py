from django.apps import AppConfig


class SweepsConfig(AppConfig):
    name = "portal.work.sweeps"
