"""Small pieces of the sentences: counts, lists, minutes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.model import Figures


def count(number: Any, word: str) -> str:
    return f"{number} {word}" if number != 1 else f"{number} {word.removesuffix('s')}"


def are(number: Any) -> str:
    return f"{number or 'none'} {'is' if number in (0, 1) else 'are'}"


def listed(names: Sequence[Any], most: int = 3) -> str:
    shown = [str(name) for name in names[:most]]
    rest = len(names) - len(shown)
    if rest:
        return f"{', '.join(shown)} and {rest} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def minutes(figures: Figures) -> int:
    return max(1, round(float(figures["in_s"]) / 60))
