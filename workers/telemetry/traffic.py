"""Traffic of a node's memory: of the machine and of each job, in per cent of the memory's bandwidth.

A processor may count it (Intel's and AMD's MBM, in the kernel's resctrl). A part's processes are born in
`mon_groups/berth-PART.OWNER` (`workers.controls.throttles`); one that was held back by MBA is in `berth-PART.OWNER`. The
machine's traffic is that of the root and of all directories that limit something, each with its own.

Where none counts it, a thread copies a little now and then, and feels how long that takes. Only time on the core counts. A copy
at the best speed of the last hour is a share of 0, one at half of that speed 100 per cent: it is not calibrated, because it
cannot measure the others' traffic. A job's share of the CPU time stands for its own traffic, and the rule's next period shows
whether that was wrong. Four copies a second of two MiB take some two thousandths of a core.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from workers.controls.cgroups import PREFIX
from workers.controls.throttles import RESCTRL
from workers.telemetry.sampler import PartUse, Rates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Traffic:
    """One reading, in per cent of the memory's bandwidth; None: not known. `parts`: by attempt."""

    memory_share: float | None = None
    parts: Mapping[str, float | None] = field(default_factory=dict)


class TrafficMeter(Protocol):
    def read_traffic(self, uses: Mapping[str, PartUse]) -> Traffic:
        """Return the traffic since the last call. `uses`: the parts that run, by attempt."""


BURST_S, BLOCK = 0.3, 16 * 2**20


class ResctrlMeter:
    """See `workers.telemetry.traffic.TrafficMeter`. `gb_s`: the memory's bandwidth; `owner`: the mark of this node's parts."""

    def __init__(
        self, *, gb_s: float, owner: str, root: Path = RESCTRL, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._gb_s, self._owner, self._root, self._clock = gb_s, owner, root, clock
        self._rates = Rates()

    def read_traffic(self, uses: Mapping[str, PartUse]) -> Traffic:
        now, limited = self._clock(), _find_limited(self._root)
        mine = f"{PREFIX}*.{self._owner}"
        parts = {*self._root.glob(f"mon_groups/{mine}"), *self._root.glob(mine)}
        groups = {self._root, *limited, *parts}
        self._rates.keep(set(groups))
        rates = {group: self._rates.rate(group, group_bytes(group), now) for group in groups}
        whole = None if rates[self._root] is None else [rates[group] for group in (self._root, *limited)]
        own = {
            attempt: [rates[group] for group in parts if group.name.startswith(f"{PREFIX}{attempt}-")]
            for attempt in uses
        }
        return Traffic(self._share(whole or []), {attempt: self._share(each) for attempt, each in own.items()})

    def _share(self, rates: Iterable[float | None]) -> float | None:
        """Return bytes a second in per cent of the memory's bandwidth; None where none of them is known."""
        known = [rate for rate in rates if rate is not None]
        return min(100.0, 100 * sum(known) / 1e9 / self._gb_s) if known else None


def group_bytes(group: Path) -> float | None:
    """Return the bytes that a directory's processes moved to and from memory; None where the processor does not count."""
    total, found = 0, False
    for path in group.glob("mon_data/mon_L3_*/mbm_total_bytes"):
        try:
            total += int(path.read_text())
        except (OSError, ValueError):  # "Unavailable": the kernel could not read it this time
            return None
        found = True
    return float(total) if found else None


def machine_bytes(root: Path) -> float | None:
    groups = [group_bytes(group) for group in (root, *_find_limited(root))]
    return None if groups[0] is None else sum(each or 0.0 for each in groups)


def _find_limited(root: Path) -> list[Path]:
    return [path.parent for path in root.glob("*/mon_data") if path.parent.name != "mon_groups"]


def capacity_measure(*, root: Path = RESCTRL, threads: int | None = None) -> float | None:
    """Let every core copy memory for a moment; return the processor's count meanwhile, in 10^9 bytes a second."""
    before, begun = machine_bytes(root), time.monotonic()
    count = threads or len(os.sched_getaffinity(0))
    workers = [threading.Thread(target=_copy, args=(begun + BURST_S,)) for _ in range(count)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    after, taken_s = machine_bytes(root), time.monotonic() - begun
    return None if before is None or after is None or after <= before else (after - before) / taken_s / 1e9


def _copy(until: float) -> None:
    with contextlib.suppress(MemoryError):
        block = ctypes.create_string_buffer(2 * BLOCK)
        at = ctypes.addressof(block)
        while time.monotonic() < until:
            ctypes.memmove(at + BLOCK, at, BLOCK)  # ctypes lets other threads run meanwhile


CHUNK, HALF = 2 * 2**20, 16 * 2**20
"""Each copy moves the next chunk from one half to the other: earlier chunks have left the cache, if others want it."""
PAUSE_S, TAKEN, BEST = 0.25, 8, 3600 * 4
HALF_SPEED = 0.5


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

    def read_traffic(self, uses: Mapping[str, PartUse]) -> Traffic:
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
        return min(100.0, max(0.0, 100 * (1 - now / best) / HALF_SPEED))

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
