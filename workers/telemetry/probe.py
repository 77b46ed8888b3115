"""Memory traffic where no processor counts it: a thread copies a little now and then, and feels how long that takes.

Only time on the core counts. A copy at the best speed of the last hour is a share of 0, one at half of that speed 100 per
cent: it is not calibrated, because it cannot measure the others' traffic. A job's share of the CPU time stands for its own
traffic, and the rule's next period shows whether that was wrong.
Four copies a second of two MiB take some two thousandths of a core.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from workers.telemetry.traffic import Traffic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from workers.telemetry.sampler import PartUse

CHUNK, HALF = 2 * 2**20, 16 * 2**20
"""Each copy moves the next chunk from one half to the other: earlier chunks have left the cache, if others want it."""
PAUSE_S, TAKEN, BEST = 0.25, 8, 3600 * 4
SATURATED = 0.5


class ProbeMeter:
    """See `workers.telemetry.traffic.TrafficMeter`."""

    def __init__(self) -> None:
        self._last: deque[float] = deque(maxlen=TAKEN)
        self._best: deque[float] = deque(maxlen=BEST)
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.cost_s = 0.0

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="memory probe", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()

    def look(self, uses: Mapping[str, PartUse]) -> Traffic:
        if self._thread is None:
            self.start()
        share = self.share()
        took = sum(use.cpu_cores for use in uses.values())
        parts = {
            attempt: None if share is None or not took else share * use.cpu_cores / took
            for attempt, use in uses.items()
        }
        return Traffic(share, parts)

    def share(self) -> float | None:
        """Return how far copies are from their best speed; None before there are enough."""
        if len(self._last) < TAKEN:
            return None
        now = sorted(self._last)[TAKEN // 2]
        best = sorted(self._best)[len(self._best) * 9 // 10]
        return min(100.0, max(0.0, 100 * (1 - now / best) / SATURATED))

    def note(self, speed: float) -> None:
        self._last.append(speed)
        self._best.append(speed)

    def _run(self) -> None:
        block = ctypes.create_string_buffer(2 * HALF)
        start, place = ctypes.addressof(block), 0
        while not self._ended.wait(PAUSE_S):
            begun = time.thread_time()
            ctypes.memmove(start + HALF + place, start + place, CHUNK)
            took = time.thread_time() - begun
            self.cost_s += took
            place = (place + CHUNK) % HALF
            if took > 0:
                self.note(CHUNK / took)
