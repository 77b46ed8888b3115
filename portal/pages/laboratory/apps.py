from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import AppConfig

if TYPE_CHECKING:
    from portal.pages.laboratory.models import Simulation
    from portal.people.tenants.models import User


class SimulationsConfig(AppConfig):
    """The laboratory simulates for users."""

    name = "portal.pages.laboratory"
    label = "simulations"

    def ready(self) -> None:
        from portal.pages.dashboard.shell.followed import SEEN_BY

        SEEN_BY["simulation"] = _seen_by


def _seen_by(user: User, number: str) -> Simulation:
    """Load what makes simulations when a page asks for one, not as each process begins."""
    from portal.pages.laboratory.selectors import simulation_get

    return simulation_get(user=user, number=number)
