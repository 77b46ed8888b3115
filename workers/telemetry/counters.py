"""Rates from counters that only grow, until they wrap, or their device is reset: then that once there is no rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable


class Rates:
    """Remembers each counter's last value."""

    def __init__(self) -> None:
        self._before: dict[Hashable, tuple[float, float]] = {}

    def rate(self, name: Hashable, value: float | None, at_s: float) -> float | None:
        """Return the growth a second since the last call; None at the first one, and after a step back."""
        before = self._before.pop(name, None)
        if value is None:
            return None
        self._before[name] = (value, at_s)
        if before is None or value < before[0] or at_s <= before[1]:
            return None
        return (value - before[0]) / (at_s - before[1])

    def keep(self, names: set[Hashable]) -> None:
        self._before = {name: each for name, each in self._before.items() if name in names}
