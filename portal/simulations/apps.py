from django.apps import AppConfig


class SimulationsConfig(AppConfig):
    """The laboratory: simulations and the papers' experiments. No models yet."""

    name = "portal.simulations"
    label = "simulations"
