"""The heartbeat: a thread of its own reads the GPUs as often as the operator asked (1 ms to 10 s) into a ring.

The node sends little: each second's mean, and with a heartbeat below a second the 80th percentile and the highest reading
beside it, and the last LAST readings. NVML may hang when a GPU dies; then only this thread does, and the agent can say so.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from workers.system import log
from workers.telemetry.sampler import FAST, GpuDetails, GpuSample, GpuSampler, GpuTrouble, PartUse

if TYPE_CHECKING:
    from collections.abc import Sequence

DETAILS_S = 1.0
"""Shortest period of the slow figures."""
LAST = 20
FASTEST_S, SLOWEST_S = 0.001, 10.0
RING = 4096
"""Most readings between two calls of `take`: four seconds at 1 ms; older ones give way."""
HIGH_SHARE = 0.8
TROUBLES = 1024
FRESH_PERIODS = 2.5
"""How many periods a reading counts: the thread and its reader do not wake at the same moment."""


@dataclass(frozen=True, slots=True)
class Readings:
    """Readings since the last call: means by GPU, and of FAST measures the percentile, highest and last readings."""

    gpus: dict[int, GpuSample] = field(default_factory=dict)
    high: dict[tuple[int, str], float] = field(default_factory=dict)
    most: dict[tuple[int, str], float] = field(default_factory=dict)
    last: dict[tuple[int, str], list[float | None]] = field(default_factory=dict)
    details: GpuDetails | None = None
    troubles: tuple[GpuTrouble, ...] = ()
    count: int = 0


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least `share` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


class Beat:
    """Reads `gpus` until `stop`. Set `period_s` and `parts` at any time."""

    def __init__(self, gpus: GpuSampler, *, period_s: float = 1.0) -> None:
        self._gpus = gpus
        self.period_s = period_s
        self.parts: tuple[PartUse, ...] = ()
        self._ring: deque[dict[int, GpuSample]] = deque(maxlen=RING)
        self._tail: deque[dict[int, GpuSample]] = deque(maxlen=LAST)
        self._details: tuple[float, GpuDetails] | None = None
        self._troubles: deque[GpuTrouble] = deque(maxlen=TROUBLES)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self.answered_at = self._read_at = time.monotonic()

    def start(self) -> None:
        if self._thread.ident is None:
            self._thread.start()

    def stop(self) -> None:
        """End the thread; it is not waited for, since NVML may never answer it."""
        self._ended.set()

    @property
    def is_fine(self) -> bool:
        return self.period_s < 1.0

    def _run(self) -> None:
        due = details_due = time.monotonic()
        while not self._ended.is_set():
            try:
                now = time.monotonic()
                if now >= details_due:
                    details_due = now + max(DETAILS_S, self.period_s)
                    self.read_details()
                self.read()
            except Exception as error:  # noqa: BLE001 - whatever a driver does, the node goes on without these figures
                log.error("gpus cannot be read", reason=f"{type(error).__name__}: {error}")
                self._ended.wait(DETAILS_S)
            else:
                self.answered_at = time.monotonic()
            due = max(due + self.period_s, time.monotonic())  # a late reading is not made up for
            self._ended.wait(due - time.monotonic())

    def read(self) -> None:
        reading = self._gpus.sample(self.parts)
        self._ring.append(reading)
        self._tail.append(reading)
        self._read_at = time.monotonic()

    def read_details(self) -> None:
        found = self._gpus.read_details(self.parts)
        self._details = (time.monotonic(), found)
        self._troubles.extend(found.troubles)

    def take(self) -> Readings:
        """Return the readings since the last call, and begin again."""
        readings = [self._ring.popleft() for _ in range(len(self._ring))]
        if not readings and self._tail and self._fresh(self._read_at, self.period_s):
            readings = [self._tail[-1]]
        values: dict[tuple[int, str], list[float]] = {}
        for reading in readings:
            for index, sample in reading.items():
                for name in FAST:
                    if (value := getattr(sample, name)) is not None:
                        values.setdefault((index, name), []).append(value)
        fine = self.is_fine and bool(readings)
        read = self._details
        details = read[1] if read and self._fresh(read[0], max(DETAILS_S, self.period_s)) else None
        return Readings(
            gpus=_means(readings[-1] if readings else {}, values, details),
            high={key: percentile(own, HIGH_SHARE) for key, own in values.items()} if fine else {},
            most={key: max(own) for key, own in values.items()} if fine else {},
            last=self._last() if fine else {},
            details=details,
            troubles=tuple(self._troubles.popleft() for _ in range(len(self._troubles))),
            count=len(readings),
        )

    @staticmethod
    def _fresh(at: float, period_s: float) -> bool:
        return time.monotonic() - at <= FRESH_PERIODS * period_s

    def _last(self) -> dict[tuple[int, str], list[float | None]]:
        tail = list(self._tail)
        return {
            (index, name): [None if index not in each else getattr(each[index], name) for each in tail]
            for index in tail[-1]
            for name in FAST
        }


def _means(
    reading: dict[int, GpuSample], values: dict[tuple[int, str], list[float]], details: GpuDetails | None
) -> dict[int, GpuSample]:
    """Return the mean of each fast measure beside the last details."""
    found = {}
    for index in reading:
        slow = details.samples.get(index) if details else None
        read = {name: values.get((index, name), ()) for name in FAST}
        means = {name: round(sum(own) / len(own), 2) if own else None for name, own in read.items()}
        found[index] = replace(slow or GpuSample(None, None, None), **means)
    return found
