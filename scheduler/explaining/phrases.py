"""Small pieces of the sentences: counts, lists, minutes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence


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


def instant(at_s: float) -> str:
    """A time of the snapshot's clock as ISO 8601 in UTC, to the next full minute: 2026-11-22T07:14Z."""
    return f"{np.datetime64(math.ceil(at_s / 60.0), 'm')}Z"


def gib(mib: float) -> str:
    """For example: 4 GiB, 8.79 GiB."""
    return f"{round(mib / 1024, 2):g} GiB"
