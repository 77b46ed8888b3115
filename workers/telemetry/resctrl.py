"""Memory traffic as the processor counts it (Intel's and AMD's MBM, in the kernel's resctrl): of the machine and of each part.

A part's processes are born in `mon_groups/berth-PART.OWNER` (`workers.controls.throttles`); one that was held back by MBA is in
`berth-PART.OWNER`. The machine's traffic is that of the root and of all directories that limit something, each with its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
from typing import TYPE_CHECKING

from workers.controls.cgroups import PREFIX
from workers.controls.throttles import RESCTRL
from workers.telemetry.counters import Rates
from workers.telemetry.traffic import Traffic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from workers.telemetry.sampler import PartUse

BURST_S, BLOCK = 0.3, 16 * 2**20


class ResctrlMeter:
    """See `workers.telemetry.traffic.TrafficMeter`. `gb_s`: the memory's bandwidth; `owner`: the mark of this node's parts."""

    def __init__(
        self, *, gb_s: float, owner: str, root: Path = RESCTRL, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._gb_s, self._owner, self._root, self._clock = gb_s, owner, root, clock
        self._rates = Rates()

    def look(self, uses: Mapping[str, PartUse]) -> Traffic:
        now, limited = self._clock(), _limited(self._root)
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
    groups = [group_bytes(group) for group in (root, *_limited(root))]
    return None if groups[0] is None else sum(each or 0.0 for each in groups)


def _limited(root: Path) -> list[Path]:
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
