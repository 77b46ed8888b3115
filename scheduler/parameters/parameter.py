"""One knob and the check of its values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from scheduler.errors import InvalidParameter


@dataclass(frozen=True, slots=True)
class Parameter:
    """A knob: what it means, its unit, default and range. `choices` for words; `optional` admits None ("by itself")."""

    name: str
    meaning: str
    unit: str
    default: Any
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    optional: bool = False
    zero_or_from: float | None = None  # 0 has a meaning of its own; any other value is at least this

    def check(self, value: Any) -> Any:
        """The value, as the default's type; InvalidParameter when it is not one or is out of range."""
        if value is None and self.optional:
            return None
        if self.choices:
            if value not in self.choices:
                raise InvalidParameter(self.name, f"{value!r} is not one of {', '.join(self.choices)}")
            return value
        return self._check_number(value)

    def _check_number(self, value: Any) -> float | int:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise InvalidParameter(self.name, f"{value!r} is not a finite number")
        if (self.low is not None and value < self.low) or (self.high is not None and value > self.high):
            raise InvalidParameter(
                self.name, f"{value!r} is outside {self.low:g} to {self.high:g} {self.unit}".rstrip()
            )
        if self.zero_or_from is not None and 0 < value < self.zero_or_from:
            raise InvalidParameter(self.name, f"{value!r} is neither 0 nor at least {self.zero_or_from:g} {self.unit}")
        if not isinstance(self.default, int):
            return float(value)
        if value != int(value):
            raise InvalidParameter(self.name, f"{value!r} is not a whole number")
        return int(value)
