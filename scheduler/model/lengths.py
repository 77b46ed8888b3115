"""Run times of earlier jobs, or these over the declared ones, with their median and their variance."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

Kin = tuple[object, ...]
"""A group of jobs: of one owner and size, say. See `scheduler.estimator.lengths.kin_of`."""


class Sample:
    """Values above 0 that come and go. Others tell nothing of a length, and are left out."""

    __slots__ = ("_logs", "_squares", "_values")

    def __init__(self, values: Iterable[float] = ()) -> None:
        self._values = sorted(each for each in values if _tells(each))
        logs = [math.log(each) for each in self._values]
        self._logs, self._squares = math.fsum(logs), math.fsum(each * each for each in logs)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sample) and self._values == other._values

    def __hash__(self) -> int:
        return hash(tuple(self._values))

    def add(self, value: float) -> None:
        if _tells(value):
            insort(self._values, value)
            self._count(value, 1)

    def remove(self, value: float) -> None:
        if _tells(value):
            del self._values[bisect_left(self._values, value)]
            self._count(value, -1)

    def _count(self, value: float, sign: int) -> None:
        log = math.log(value)
        self._logs += sign * log
        self._squares += sign * log * log

    @property
    def median(self) -> float:
        """Raises IndexError for a sample of nothing."""
        half = len(self._values) // 2
        return self._values[half] if len(self._values) % 2 else (self._values[half - 1] + self._values[half]) / 2

    def quantile(self, part: float) -> float:
        """The value that this part of all does not exceed. Raises IndexError for a sample of nothing."""
        return self._values[min(len(self._values) - 1, int(part * (len(self._values) + 1)))]

    @property
    def variance(self) -> float:
        """The variance of the logarithms."""
        count = len(self._values) or 1
        return max(0.0, self._squares / count - (self._logs / count) ** 2)


def _tells(value: float) -> bool:
    return 0 < value < math.inf
