"""The present state from a batch of measurements: its last sample, and since when GPUs have not computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.cluster.models import SAMPLE_FRESH_S
from portal.foundation.environment import env

if TYPE_CHECKING:
    from collections.abc import Mapping


def memory_share(batch: Mapping[str, Any]) -> float | None:
    """Return the mean part of the memory's bandwidth (0 to 1) that was in use; None where it was not measured."""
    series = (batch.get("host") or {}).get("memory_share") or ()
    known = [value for value in series if value is not None]
    return sum(known) / len(known) / 100 if known else None


def live_sample(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return the last sample of a batch: `{"at", "gpus": {index: {measure: value}}, "host": {measure: value}}`."""

    def last(series: Mapping[str, Any]) -> dict[str, float]:
        return {
            name: values[-1]
            for name, values in series.items()
            if isinstance(values, list) and values and values[-1] is not None
        }

    return {
        "at": batch["start"] + (batch["count"] - 1) * batch["period_s"],
        "gpus": {index: last(series) for index, series in (batch.get("gpus") or {}).items()},
        "host": last(batch.get("host") or {}),
        "attempts": {key: last(series) for key, series in (batch.get("attempts") or {}).items()},
    }


def unused_gpus(batch: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, float]:
    """Return since when (Unix seconds) GPUs have not computed, by index, as far back as that was measured without a gap.

    `before`: the node's last sample.
    """
    is_next = 0 <= batch["start"] - before.get("at", 0) < SAMPLE_FRESH_S
    known, limit = before.get("unused", {}) if is_next else {}, env("BERTH_IDLE_GPU_PERCENT")
    found = {}
    for index, series in (batch.get("gpus") or {}).items():
        told = series.get("utilisation")
        uses = [use for use in told if isinstance(use, int | float)] if isinstance(told, list) else []
        if uses and max(uses) < limit:
            found[index] = known.get(index, batch["start"])
    return found
