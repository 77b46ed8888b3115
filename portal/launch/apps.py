from django.apps import AppConfig


class LaunchConfig(AppConfig):
    """Holds the operator's commands; no models."""

    name = "portal.launch"
    label = "launch"
