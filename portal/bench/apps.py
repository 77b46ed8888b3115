from django.apps import AppConfig


class BenchConfig(AppConfig):
    """Holds `./berth bench`; no models."""

    name = "portal.bench"
    label = "bench"
