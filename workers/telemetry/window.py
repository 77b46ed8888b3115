"""A ring of seconds: samples wait here for the next batch. While the portal is away, new ones replace the oldest."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from workers.protocol.wire import Series, Telemetry

# A measure's name: ("gpus", "0", "utilisation"), ("host", "", "cpu_cores"), ("attempts", "17", "memory_mib").
Measure = tuple[str, str, str]
# The most seconds of one batch, so that a long absence does not end in one huge message.
BATCH_MAX = 120


@dataclass(frozen=True, slots=True)
class Second:
    at_unix: float
    values: dict[Measure, float | None]


@dataclass(slots=True)
class Window:
    """At most `capacity` seconds, oldest first."""

    capacity: int
    seconds: deque[Second] = field(init=False)

    def __post_init__(self) -> None:
        self.seconds = deque(maxlen=self.capacity)

    def add(self, second: Second) -> None:
        self.seconds.append(second)

    def batch(self, *, period_s: float) -> list[Second]:
        """Return the oldest seconds without a gap between them, at most BATCH_MAX. They stay until `drop`."""
        chosen: list[Second] = []
        for second in self.seconds:
            late = chosen and second.at_unix - chosen[-1].at_unix > 2 * period_s
            if late or len(chosen) == BATCH_MAX:
                break
            chosen.append(second)
        return chosen

    def drop(self, batch: list[Second]) -> None:
        """Forget what was sent. Some of it may have been replaced already."""
        sent = set(map(id, batch))
        while self.seconds and id(self.seconds[0]) in sent:
            self.seconds.popleft()


def telemetry_body(
    batch: list[Second], *, boot_id: str, period_s: float, known: Mapping[str, Collection[str]]
) -> Telemetry:
    """Return the batch as a message. A measure without any value is left out, and one that the portal does not know.

    `known`: its measures by group.
    """
    body: Telemetry = {
        "boot_id": boot_id,
        "start": batch[0].at_unix,
        "period_s": period_s,
        "count": len(batch),
        "gpus": {},
        "host": {},
        "attempts": {},
    }
    for group, key, name in dict.fromkeys(measure for second in batch for measure in second.values):
        if name not in known.get(group, ()):
            continue
        series: Series = [second.values.get((group, key, name)) for second in batch]
        if all(value is None for value in series):
            continue
        if group == "host":
            body["host"][name] = series
        else:
            (body["gpus"] if group == "gpus" else body["attempts"]).setdefault(key, {})[name] = series
    return body
