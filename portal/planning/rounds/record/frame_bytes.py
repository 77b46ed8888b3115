"""Columns of numbers as bytes, each as the difference from its forecast; and back.

Numbers that differ stand byte by byte, all first bytes, then all second ones, which packs well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

NEVER = np.iinfo(np.int64).min
MOMENT_ERROR_US, RATIO_ERROR = 2, 5e-4
"""A figure this close to its forecast is not stored: a clock's last digits, and more than three digits of a ratio."""

MOMENT = "moment"
"""Microseconds: since when an eligible job waits (Unix time, less what it waited before); how long another has waited."""


class Writer:
    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.sizes: dict[str, list[int]] = {}  # name -> [values, places beside them]

    def put(self, name: str, values: np.ndarray, *, delta: bool = False) -> None:
        self.sizes[name] = [len(values), 0]
        self.parts.append(_packed(values, delta=delta))

    def differing(self, name: str, values: np.ndarray, foretold: np.ndarray, *, delta: bool = False) -> np.ndarray:
        """Write the values that are not as foretold; return those that reading gives."""
        differs = _differs(name, values, foretold)
        places = np.flatnonzero(differs)
        made = np.where(differs, values, foretold)
        every = 2 * len(places) > len(values)
        told = made if every else values[places]
        self.sizes[name] = [len(told), 0 if every else len(places)]
        self.parts.append(_packed(told, delta=delta))
        if not every:
            self.parts.append(_packed(places, delta=True))
        return made


class Reader:
    def __init__(self, blob: bytes, sizes: Mapping[str, list[int]]) -> None:
        self._blob, self._sizes, self._at = blob, sizes, 0

    def take(self, name: str, dtype: Any, *, delta: bool = False) -> np.ndarray:
        return self._next(self._sizes[name][0], dtype, delta=delta)

    def differing(self, name: str, foretold: np.ndarray, *, delta: bool = False) -> np.ndarray:
        count, placed = self._sizes[name]
        values = self._next(count, foretold.dtype, delta=delta)
        if count == len(foretold) and not placed:
            return values
        made = foretold.copy()
        made[self._next(placed, np.int64, delta=True)] = values
        return made

    def _next(self, count: int, dtype: Any, *, delta: bool) -> np.ndarray:
        dtype = np.dtype(dtype)
        size = count * dtype.itemsize
        raw = np.frombuffer(self._blob, np.uint8, size, self._at).reshape(dtype.itemsize, count)
        self._at += size
        values = np.ascontiguousarray(raw.T).view(dtype).reshape(count)
        return np.cumsum(values, dtype=dtype) if delta else values


def _packed(values: np.ndarray, *, delta: bool) -> bytes:
    if delta:
        values = np.diff(values, prepend=values.dtype.type(0))
    return np.ascontiguousarray(values).view(np.uint8).reshape(len(values), values.dtype.itemsize).T.tobytes()


def _differs(name: str, values: np.ndarray, foretold: np.ndarray) -> np.ndarray:
    if name == MOMENT:
        told = (values != NEVER) & (foretold != NEVER)
        return (values != foretold) & ~(told & (np.abs(values - foretold) <= MOMENT_ERROR_US))
    if name == "latency_ratio":
        near = np.abs(values - foretold) <= RATIO_ERROR * np.abs(values)
        return ~(near | (np.isnan(values) & np.isnan(foretold)))
    if values.dtype.kind == "f":
        return (values != foretold) & ~(np.isnan(values) & np.isnan(foretold))
    return values != foretold
