"""Tells pages over the live socket that a simulation changed: one stream for each, two topics, no figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from portal.foundation.events.services import live_event, page_event

if TYPE_CHECKING:
    from collections.abc import Iterable

STATE, PROGRESS = "simulation", "simulation-progress"
"""Topics: it began, ended, or moved up in the queue; it came further."""
MOST_FOLLOWED = 19
"""A socket follows twenty streams, and the shell may want one."""


def stream_of(number: int) -> str:
    return f"simulation:{number}"


def simulations_moved(numbers: Iterable[int]) -> None:
    """Tell that their state or place in the queue changed. This goes through the outbox, so that it is not lost."""
    for number in numbers:
        page_event(stream=stream_of(number), topic=STATE)


def simulation_advanced(number: int) -> None:
    """Tell that a simulation made progress. A lost message does no harm: the next one follows."""
    live_event(stream=stream_of(number), topic=PROGRESS)
