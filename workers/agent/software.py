"""The agent's settings about software environments, and the machine's offer by them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workers.agent.settings import SettingError
from workers.environments.offer import Limits, OfferError, offer_find, offer_with
from workers.system import log

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from workers.agent.settings import AgentSettings
    from workers.environments.offer import Offer


def software_find(settings: AgentSettings) -> Offer:
    """Return this machine's offer to jobs. Raises SettingError for a wrong setting; absent software is logged."""
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
        (log.info if what == "image" else log.warning)("software not offered", what=what, why=why)
    return offer


class Software:
    """The machine's offer, with the environments that operators name for all nodes. `told`: the offer that the portal has."""

    def __init__(self, own: Offer, *, closed: tuple[Path, ...] = ()) -> None:
        self._own, self._closed = own, closed
        self.wanted: Mapping[str, str] = {}
        self.offer = own
        self.told: Mapping[str, object] | None = None

    def look(self) -> bool:
        """Look again for the wanted environments; true: the portal has an older offer. Reads the disk."""
        self.offer = offer_with(self._own, self.wanted, closed=self._closed)
        return self.offer.to_wire() != self.told
