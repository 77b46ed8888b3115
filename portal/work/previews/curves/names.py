"""Which files hold curves, by their names."""

from __future__ import annotations

import re

EVENTS = "events.out.tfevents."
LINES = re.compile(r"metrics(?:[-._]?\d{1,9})?\.(?:jsonl|ndjson)\Z", re.ASCII)


def holds_curves(name: str) -> bool:
    """True for `metrics.jsonl`, `metrics-3.jsonl` and TensorBoard's event files, in whatever folder."""
    last = name.rpartition("/")[2]
    return LINES.match(last) is not None or last.startswith(EVENTS)
