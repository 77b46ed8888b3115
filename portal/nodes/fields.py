"""Numbers and series of the agent protocol: a figure that no machine measures is refused, with the name of the field.

A node is no friend: its agent may be broken, its clock wrong, its token stolen. What is stored here is drawn on pages and
read by the planner.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from rest_framework import serializers

from portal.foundation.errors import BerthError

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_GPUS = 1024
COMMIT_PATTERN = r"^([0-9a-f]{40}|[0-9a-f]{64})$"
CLOCK_AHEAD_S = 120
"""The seconds that a node's clock may be ahead of the portal's."""
OLDEST_S = 2 * 86_400
"""Older telemetry is refused. An agent keeps ten minutes of it."""
_SHARE, _MEMORY, _RATE, _COUNT = 100.0, 2.0**40, 1e7, 1e18
_FAST = {"utilisation": _SHARE, "memory_mib": 2.0**24, "power_w": 1e5}
MEASURES: Mapping[str, Mapping[str, float]] = {
    "gpus": {
        **_FAST,
        **{f"{name}.{word}": most for name, most in _FAST.items() for word in ("p80", "max")},
        "pcie_tx_mb_s": _RATE,
        "pcie_rx_mb_s": _RATE,
        "energy_j": _COUNT,
        "temperature_c": 300.0,
        "clock_mhz": 1e5,
        "memory_clock_mhz": 1e5,
        "throttle": 2.0**53,
        "ecc_corrected": _COUNT,
        "ecc_uncorrected": _COUNT,
    },
    "host": {
        "cpu_cores": 1e6,
        "load": 1e6,
        "memory_mib": _MEMORY,
        "memory_gb_s": 1e6,
        "memory_share": _SHARE,
        **dict.fromkeys(("net_rx_mb_s", "net_tx_mb_s", "disk_read_mb_s", "disk_write_mb_s"), _RATE),
    },
    "attempts": {
        "cpu_cores": 1e6,
        "memory_mib": _MEMORY,
        "read_mb_s": _RATE,
        "write_mb_s": _RATE,
        "gpu_utilisation": _SHARE,
        "gpu_memory_mib": _MEMORY,
        "memory_share": _SHARE,
    },
}
"""The measured figures by group, and the largest value of each; nothing is below 0."""


class Number(serializers.FloatField):
    """A JSON number, finite: no text, no truth value, nothing beyond a double."""

    def to_internal_value(self, data: Any) -> float:
        if isinstance(data, bool) or not isinstance(data, (int, float)):
            self.fail("invalid")
        try:
            found = float(data)
        except OverflowError:
            self.fail("invalid")
        if not math.isfinite(found):
            self.fail("invalid")
        return found


def series_check(batch: Mapping[str, Any]) -> None:
    """Raise ValidationError for a measure that there is not, of another length than `count`, or out of its range."""
    count = batch["count"]
    groups: dict[tuple[str, ...], Any] = {("host",): batch.get("host") or {}}
    groups |= {("gpus", index): measures for index, measures in (batch.get("gpus") or {}).items()}
    groups |= {("attempts", key): measures for key, measures in (batch.get("attempts") or {}).items()}
    for path, measures in groups.items():
        if path[0] == "gpus":
            _index_check(path)
        for name, values in measures.items():
            _series_check((*path, name), values, count, MEASURES[path[0]])
    for index, measures in ((batch.get("last") or {}).get("gpus") or {}).items():
        _index_check(("last", index))
        for name, values in measures.items():
            _series_check(("last", index, name), values, len(values or ()), MEASURES["gpus"])


def _index_check(path: tuple[str, ...]) -> None:
    index = path[1]
    if not (index.isascii() and index.isdigit() and len(index) < 5 and int(index) < MOST_GPUS):
        raise _wrong(path, f"A GPU's index is a whole number below {MOST_GPUS}.")


def _series_check(
    path: tuple[str, ...], values: list[float | None] | None, count: int, known: Mapping[str, float]
) -> None:
    if path[-1] not in known:
        raise _wrong(path, f"There is no such measure; there are {', '.join(known)}.")
    if values is None:
        return
    if len(values) != count:
        raise _wrong(path, f"It has {len(values)} values, and `count` says {count}.")
    most = known[path[-1]]
    if any(value is not None and not 0 <= value <= most for value in values):
        raise _wrong(path, f"Its values must lie between 0 and {most:g}; null where nothing was measured.")


def _wrong(path: tuple[str, ...], detail: str) -> serializers.ValidationError:
    return serializers.ValidationError({".".join(part[:64] for part in path): detail})


def clock_check(*, start: float, end: float, now: float) -> None:
    """Raise BerthError where a batch's times cannot be: a node's clock that is ahead, or a batch from long ago."""
    if end > now + CLOCK_AHEAD_S:
        detail = f"The samples are {end - now:.0f} s ahead of the portal's clock; set this node's clock (NTP)."
        raise BerthError("clock_ahead", detail, field="start")
    if start < now - OLDEST_S:
        detail = f"The samples are {(now - start) / 3600:.0f} h old by the portal's clock; set this node's clock (NTP)."
        raise BerthError("clock_behind", detail, field="start")


def inventory_check(inventory: Mapping[str, Any]) -> None:
    """Raise ValidationError for an inventory that contradicts itself."""
    for name in ("index", "uuid"):
        values = sorted(gpu[name] for gpu in inventory["gpus"])
        twice = next((one for one, other in pairwise(values) if one == other), None)
        if twice is not None:
            raise serializers.ValidationError({"gpus": f"Two GPUs have the {name} {twice}; each has its own."})
    beside = {gpu.get("gpu_type") for gpu in inventory["gpus"]} - {None}
    if beside and inventory["gpu_type"] not in beside and all(gpu.get("gpu_type") for gpu in inventory["gpus"]):
        raise serializers.ValidationError({"gpu_type": "No GPU is of this type; name the one that most of them have."})
    if inventory["gpus"] and not inventory["gpu_type"]:
        raise serializers.ValidationError({"gpu_type": "The node has GPUs; name their type."})
    domain = inventory.get("storage_domain") or ""
    if domain.startswith("node:") and domain != f"node:{inventory['name']}":
        detail = "A domain that begins with node: is a node's own; name a shared one otherwise."
        raise serializers.ValidationError({"storage_domain": detail})
