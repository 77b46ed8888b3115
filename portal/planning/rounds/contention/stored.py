"""The scheduler's `Watch` of a node as JSON, and back. Jobs go by their attempt's primary key."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from scheduler.contention import Throttle, Training, Watch


def watch_dump(watch: Watch) -> dict[str, Any]:
    return {
        "before": {str(job): asdict(each) for job, each in watch.before.items()},
        "throttles": {str(job): asdict(each) for job, each in watch.throttles.items()},
        "harmless": sorted(map(list, watch.harmless)),
    }


def watch_load(state: dict[str, Any]) -> Watch:
    return Watch(
        {int(job): Training(**each) for job, each in state["before"].items()},
        {int(job): Throttle(**each) for job, each in state["throttles"].items()},
        frozenset((training, job) for training, job in state["harmless"]),
    )
