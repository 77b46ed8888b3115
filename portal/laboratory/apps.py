from django.apps import AppConfig


class SimulationsConfig(AppConfig):
    """The laboratory: simulations, and the experiments that regenerate the papers' figures."""

    name = "portal.laboratory"
    label = "simulations"

    def ready(self) -> None:
        from portal.dashboard.shell.followed import SEEN_BY
        from portal.laboratory.selectors import simulation_get

        SEEN_BY["simulation"] = lambda user, number: simulation_get(user=user, number=number)
