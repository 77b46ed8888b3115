"""One setting: a knob of the operator, an environment variable of the portal, or a setting of a node's agent.

This file imports nothing of ours, so that scheduler, portal and agent may all import it (`pyproject.toml`, decision 0254).
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

ON_OFF = ("on", "off")
SHOWN_CHARS = 80
_TRUE = {"1", "true", "yes", "on"}


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. Lists, forms, checks and documents read everything about it here.

    A `default` of None means that there is none, or that Berth finds the value, as `meaning` says. `bounds` include both ends.
    `turn_when` tells an operator when to change it. `syntax` says in words how it is written, where nothing else does.
    """

    name: str
    default: Any
    meaning: str
    turn_when: str
    unit: str = ""
    bounds: tuple[float, float] | None = None
    _: KW_ONLY
    choices: tuple[str, ...] = ()
    kind: Callable[[str], Any] | None = None  # makes a value of a text; the default's type if there is none
    syntax: str = ""
    group: str = ""  # the heading under which the console and the documents show it
    optional: bool = False  # None may be given
    zero_or_from: float | None = None  # 0 has a meaning of its own; any other value is at least this

    @property
    def reader(self) -> Callable[[str], Any]:
        return self.kind or (str if self.default is None else type(self.default))

    def check(self, value: Any) -> Any:
        """Return the value in the setting's kind. Raises ValueError that says what is wrong with it."""
        if value is None and self.optional:
            return None
        if self.choices:
            if value not in self.choices:
                raise ValueError(f"{_cut(value)} is not one of {', '.join(self.choices)}")
            return value
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or (isinstance(value, float) and not math.isfinite(value)):
            raise ValueError(f"{_cut(value)} is not a finite number")
        if self.bounds and not self.bounds[0] <= value <= self.bounds[1]:
            low, high = self.bounds
            raise ValueError(f"{_cut(value)} is outside {low:g} to {high:g} {self.unit}".rstrip())
        if self.zero_or_from is not None and 0 < value < self.zero_or_from:
            raise ValueError(f"{value!r} is neither 0 nor at least {self.zero_or_from:g} {self.unit}")
        if self.reader is not int:
            return float(value)
        if value != int(value):
            raise ValueError(f"{value!r} is not a whole number")
        return int(value)

    def read(self, text: str) -> Any:
        """Return the value that a flag or a variable gives. Raises ValueError that says what is wrong with it."""
        if self.reader is bool:
            return text.strip().lower() in _TRUE
        if self.choices:
            return self.check(text)
        try:
            value = self.reader(text)
        except ValueError as error:
            numbers: dict[Any, str] = {int: "a whole number", float: "a number"}
            raise ValueError(f"{_cut(text)} is not {numbers.get(self.reader, self.range_words)}") from error
        return self.check(value) if isinstance(value, int | float) else value

    @property
    def default_words(self) -> str:
        return value_words(self.default)

    @property
    def range_words(self) -> str:
        """The values that may be given, in words."""
        if self.choices:
            return ", ".join(self.choices)
        if self.syntax:
            return self.syntax
        if self.bounds:
            low, high = (value_words(float(end)) for end in self.bounds)
            zero = f"0, or {value_words(self.zero_or_from)}" if self.zero_or_from is not None else low
            return f"{zero} to {high}{', or empty' if self.optional else ''}"
        return "0, 1" if self.reader is bool else "text"


def _cut(value: Any) -> str:
    """A value that somebody gave, short enough for a sentence."""
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[: SHOWN_CHARS // 2]}...{text[-SHOWN_CHARS // 2 :]}"


def value_words(value: Any) -> str:
    """A value as people write it: 30, not 30.0; nothing is "empty"."""
    if value is None or value == "":
        return "empty"
    if isinstance(value, bool):
        return "1" if value else "0"
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def declare(default: Any, meaning: str, turn_when: str, unit: str = "", bounds: Any = None, **more: Any) -> Any:
    """A field of a dataclass that is a setting; `more`: further fields of `Setting`. `settings_of` lists them."""
    own = {"meaning": meaning, "turn_when": turn_when, "unit": unit, "bounds": bounds, **more}
    return field(default=default, metadata=own)


def settings_of(values: type) -> tuple[Setting, ...]:
    """All settings of a dataclass, in order. A name that Python reserves ends in an underscore there: `lambda_`."""
    return tuple(
        Setting(each.name.rstrip("_"), each.default, **each.metadata) for each in fields(values) if each.metadata
    )
