"""One plain sentence for each answer to "what would make it start" (`scheduler.asking.what_if`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.explaining.phrases import gib

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scheduler.asking.what_if import Remedy

MOST_NODES = 3


def remedy_sentence(remedy: Remedy) -> str:
    """As: With 2 GPUs it would start now on n1. That is about 53% of the speed of what it asks for now."""
    condition = CONDITIONS[remedy.change](remedy)
    if remedy.starts is None:
        return f"{condition.rstrip(',')}: not tried, the time for this question was up."
    when = "then" if remedy.change == "wait" else "now"
    if not remedy.starts:
        return f"{condition} it would still not start {when} ({remedy.reason})."
    no_gain = "" if remedy.no_gain is None else f" {NO_GAIN[remedy.no_gain]}"
    return f"{condition} it would start {when} on {_nodes(remedy)}.{_cost(remedy)}{no_gain}"


def _nodes(remedy: Remedy) -> str:
    names = list(remedy.nodes)
    shown = ", ".join(names[:MOST_NODES])
    return shown if len(names) <= MOST_NODES else f"{shown} and {len(names) - MOST_NODES} more"


def _cost(remedy: Remedy) -> str:
    if remedy.of_asked is None or remedy.source is None:
        return ""
    known = " (assumed, not measured)" if remedy.source == "assumed" else ""
    return f" That is about {remedy.of_asked:.0%} of the speed of what it asks for now{known}."


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _minutes(seconds: float) -> str:
    minutes = max(1, round(seconds / 60))
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.0f} h"


NO_GAIN: Mapping[str, str] = {
    "same": "But it would be over at about the same time as it stands.",
    "later": "But it would be over later than as it stands.",
    "limit": "But its time limit would end it before it is done.",
    "length": "But it would run longer, and nobody knows for how long it runs: "
    "say expected_duration_s to learn whether it would be over sooner.",
    "start": "But it would run longer, and when it starts as it stands is not known: "
    "so nobody can tell whether it would be over sooner.",
}
"""Why a change gains nothing that can be told (`scheduler.asking.over.NoGain`)."""

CONDITIONS: Mapping[str, Callable[[Remedy], str]] = {
    "none": lambda _: "As it is,",
    "release": lambda _: "If it is released,",
    "dependency": lambda _: "Without what it waits for",
    "size": lambda remedy: f"With {_counted(remedy.value, 'GPU')}",
    "cores": lambda remedy: f"With {_counted(remedy.value, 'core')}",
    "cores-per-gpu": lambda remedy: f"With {_counted(remedy.value, 'core')} a GPU",
    "gpu-type": lambda remedy: f"With GPUs of type {' or '.join(remedy.value)} allowed too",
    "memory": lambda remedy: f"With {gib(remedy.value)} of memory",
    "checkpoint": lambda _: "Without its checkpoint, so from the beginning,",
    "software": lambda _: "With the software of the node itself",
    "wait": lambda remedy: f"In about {_minutes(remedy.value)}, when running jobs are expected to end,",
}
