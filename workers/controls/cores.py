"""The cores of a running part: the shim follows the agent's order for its whole tree, and writes down what holds.

`cores.json` is the order, `{"sequence", "cores", "share"}`: declared cores, and the kept share of its present use;
`cores-held.json` says which order holds. Every thread of every process of the job is set, again and again until a whole look
changes nothing; children inherit. A thread that the job itself bound to fewer of its cores stays bound. The work is done in
slices, so that neither 10 000 threads nor a job that forks or moves itself back without end keeps the shim from its lease.
Such a job is followed for `GIVE_UP_S`; then the order counts as held: without a cpuset it can use any core anyway. A slice
is measured in processor time: on a busy machine a look of milliseconds may last for seconds. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workers.controls.cgroups import Group, Home, part_name
from workers.controls.limits import cpuset_hold, cpuset_of
from workers.controls.throttles import Throttle
from workers.system.files import BrokenFileError, read_record, write_atomic, write_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from workers.controls.usage import UsageMeter
    from workers.system.procs import Tree

ORDER, HELD = "cores.json", "cores-held.json"
SLICE_S, REST = 0.1, 4.0
"""Processor time of a look at most; then the shim does other things for this multiple of it."""
GIVE_UP_S = 10.0
THREADS_A_LOOK_AT_THE_CLOCK = 128
Cores = frozenset[int]


def cores_map(cores: list[int], real: list[int]) -> set[int]:
    """Return real cores for the declared ones. A virtual node declares more cores than there are, so numbers wrap around."""
    return {real[core % len(real)] for core in cores} or set(real)


class CoreOrders:
    """Follows the orders for one part. `count_file`: in it the job reads its number of cores."""

    cpuset: Home | None = None
    share = 1.0
    sequence = 0
    next_at = 0.0
    _wanted: list[int] | None = None
    _since = 0.0
    _most = 2**16

    def __init__(
        self,
        directory: Path,
        tree: Tree,
        cores: list[int],
        *,
        throttle: Throttle | None = None,
        used: Callable[[], float] = lambda: 1.0,
        count_file: Path | None = None,
    ) -> None:
        self.directory, self.tree, self.cores = directory, tree, cores
        self.throttle, self.used, self.count_file = throttle, used, count_file
        self._real = sorted(os.sched_getaffinity(0))
        self._before: set[Cores] = set()

    @property
    def is_busy(self) -> bool:
        return self._wanted is not None

    def end(self) -> None:
        """Take away what held it back: the job is over."""
        if self.throttle is not None:
            self.throttle.end()

    def follow(self, now: float) -> None:
        """Follow the newest order, one slice of work at most. Raises BrokenFileError or OSError of the order's file."""
        order = read_record(self.directory / ORDER, sequence=int, cores=list)  # `share`: absent from an older agent
        if order is not None and (order["sequence"], order["cores"]) != (self.sequence, self._wanted or self.cores):
            self._take(order, now)
        if self._wanted is not None and now >= self.next_at:
            self._work(self._wanted, now)

    def _take(self, order: dict[str, Any], now: float) -> None:
        """Begin an order. The sets that held before are remembered: a thread with one of them was bound by us."""
        cores = order["cores"]
        if not cores or not all(type(core) is int and 0 <= core < 2**16 for core in cores):
            raise BrokenFileError(self.directory / ORDER, "names no proper cores")
        share = order.get("share", 1.0)
        if type(share) not in (int, float) or not 0 < share <= 1:
            raise BrokenFileError(self.directory / ORDER, "names no proper share")
        self._before.add(self._mask((self._wanted or self.cores)[: self._most]))
        self.sequence, self._wanted, self._since, self.next_at = order["sequence"], cores, now, now
        self.share = float(share)
        able = self.throttle is not None and self.throttle.hold(self.share, used=self.used())
        self._most = len(cores) if able else max(1, int(self.share * len(cores)))

    def _mask(self, cores: list[int]) -> Cores:
        return frozenset(cores_map(cores, self._real))

    def _work(self, wanted: list[int], now: float) -> None:
        begun, mask = time.thread_time(), self._mask(wanted[: self._most])
        if self.cpuset is not None:
            with contextlib.suppress(OSError):  # offline cores: the affinity below is refused, too
                cpuset_hold(self.cpuset, mask)
        whole, moved = self._settle(mask, begun + SLICE_S)
        self.next_at = now + REST * (time.thread_time() - begun)
        if whole or now - self._since >= GIVE_UP_S:
            self.cores, self._wanted = wanted, None
            self._before.clear()
            self.write_count()
            self._write(now, settled=whole or not moved)

    def _settle(self, mask: Cores, until: float) -> tuple[bool, bool]:
        """Bind every thread until a whole look finds none to bind, or this thread's processor time is `until`.

        Return whether there was such a look, and whether any thread was bound in this slice.
        """
        moved = False
        while True:
            changed = False
            for process in self.tree.scan(full=True):
                for count, thread in enumerate(_threads(process.pid)):
                    changed |= _bind(thread, mask, self._before)
                    changed |= self.throttle is not None and self.throttle.take(thread)
                    if count % THREADS_A_LOOK_AT_THE_CLOCK == 0 and time.thread_time() > until:
                        return False, moved or changed
            if not changed:
                return True, moved
            moved = True

    def _write(self, now: float, *, settled: bool) -> None:
        by = f"cpuset{self.cpuset.version}" if self.cpuset is not None else "affinity"
        held = {"sequence": self.sequence, "cores": self.cores, "settled": settled, "by": by}
        held |= {"share": self.share, "throttle": self.throttle.by if self.throttle is not None else ""}
        try:
            write_json(self.directory / HELD, held, durable=False)
        except OSError:  # a full disk: the order is followed anew until it can be written down
            self._wanted, self.next_at = self.cores, now + 1.0

    def write_count(self) -> None:
        """Tell the job its number of cores."""
        if self.count_file is not None:
            with contextlib.suppress(
                OSError, BrokenFileError
            ):  # its directory is the job's, and so may be gone or full
                write_atomic(self.count_file, f"{len(self.cores)}\n".encode(), mode=0o644, durable=False)


def _threads(pid: int) -> list[int]:
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]  # noqa: PTH208 - names only, and thousands
    except OSError:  # it has ended
        return []


def _bind(thread: int, mask: Cores, before: set[Cores]) -> bool:
    """Bind one thread unless it is within the mask by its own choice; whether it was changed."""
    try:
        has = frozenset(os.sched_getaffinity(thread))
        if has == mask or (has <= mask and has not in before):
            return False
        os.sched_setaffinity(thread, mask)
        return frozenset(os.sched_getaffinity(thread)) != has
    except OSError:  # it has ended, or belongs to another account (a set-uid program), or the cores are offline
        return False


def core_orders(launch: dict[str, Any], directory: Path, meter: UsageMeter, group: Group) -> CoreOrders:
    throttle = Throttle(part_name(directory), group)
    orders = CoreOrders(directory, meter.tree, launch["cores"], throttle=throttle, used=meter.cores_lately)
    if launch.get("cores_file"):
        orders.count_file = Path(launch["cores_file"])
    if not launch["virtual"]:
        real = sorted(os.sched_getaffinity(0))
        orders.cpuset = cpuset_of(group, cores_map(launch["cores"], real))
        throttle.watch()
    return orders
