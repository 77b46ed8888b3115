"""The agent's settings about software environments, and what this machine offers by them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workers.agent.settings import SettingError
from workers.environments.offer import Limits, OfferError, offer_find
from workers.system import log

if TYPE_CHECKING:
    from workers.agent.settings import AgentSettings
    from workers.environments.offer import Offer


def software_find(settings: AgentSettings) -> Offer:
    """Return what this machine offers to jobs. Raises SettingError for a wrong setting; what is absent is logged."""
    limits = Limits(
        build_s=settings.environments_build_s,
        one_gib=settings.environments_one_gib,
        all_gib=settings.environments_all_gib,
        keep_days=settings.environments_keep_days,
    )
    try:
        offer = offer_find(
            settings.dir / "environments",
            named=settings.environments,
            python=settings.environments_python,
            index=settings.environments_index,
            wheels=settings.environments_wheels,
            limits=limits,
        )
    except OfferError as error:
        raise SettingError(str(error)) from error
    for what, why in offer.missing.items():
        log.warning("software not offered", what=what, why=why)
    return offer
