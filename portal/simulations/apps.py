from django.apps import AppConfig


class SimulationsConfig(AppConfig):
    """The laboratory: simulations, and the experiments that regenerate the papers' figures."""

    name = "portal.simulations"
    label = "simulations"
