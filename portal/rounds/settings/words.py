"""A setting's value and range as people write them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


def shown(value: Any) -> str:
    """A value as people write it: 30, not 30.0; nothing is "empty"."""
    if value is None or value == "":
        return "empty"
    if isinstance(value, bool):
        return "1" if value else "0"
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def range_shown(low: float | None, high: float | None, choices: Sequence[str] = (), *, optional: bool = False) -> str:
    if choices:
        return ", ".join(choices)
    text = f"{shown(float(low or 0))} to {shown(float(high))}" if high is not None else f"from {shown(float(low or 0))}"
    return text + (", or empty" if optional else "")
