"""Borrowing between the arrays (CODA V-C; algorithms.md section 4): which jobs may use another array's idle resources.

A GPU job may borrow nodes of the other GPU array and idle cores of the CPU array; a CPU job may borrow idle reserved cores.
Movable jobs (checkpointable or restartable) may always borrow. Other GPU jobs may borrow only while no eligible job of the owner
array waits, and then keep it until they end. Other CPU jobs never borrow. A configuration on borrowed nodes weighs 0.95. Where
the specification is silent: a job that its own array could not hold even when empty is at home in the other one. Else a cluster
of one node would never run a large job that cannot be stopped.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from scheduler.copies import replace
from scheduler.estimator.lengths import is_sure
from scheduler.fairness.arrays import Array, Division
from scheduler.model import Alike, Configuration, Job, Ranked, Reservation, Running
from scheduler.placement.access import Access, Zone
from scheduler.placement.feasibility import first_failing, whole_offers
from scheduler.placement.objective import LINEAR, Gain

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from scheduler.placement.free_capacity import Offer
    from scheduler.placement.ledger import Ledger

BORROWED_WEIGHT = 0.95


def may_borrow(job_array: Array, *, movable: bool, owner_waits: bool) -> bool:
    """Whether a job may borrow from another array, by the rule above. `owner_waits`: an eligible job of that array waits."""
    return movable or (job_array is not Array.CPU and not owner_waits)


class HomeArrays:
    """Tells in which array a job is at home: its own, or the other GPU array if its own could never hold it."""

    def __init__(self, division: Division, ledger: Ledger) -> None:
        self._division, self._largest = division, ledger.largest
        every = whole_offers(free.node for free in ledger.free.values())
        self._whole = {
            array: [offer for offer in every if division.array_of_node(offer.node.id) is array]
            for array in (Array.GPU_SMALL, Array.GPU_LARGE)
        }
        self._memory_mib = sorted({offer.memory_mib for offer in every})
        self._smallest = min(self._largest.values(), default=0)  # of the largest nodes, one of each type
        self._known: dict[tuple[object, ...], Array] = {}
        self._by_kind: dict[Alike, Array] = {}  # as jobs ask it; `_known` has what of it matters

    def of(self, job: Job) -> Array:
        home = self._by_kind.get(job.alike)
        if home is None:
            home = self._by_kind[job.alike] = self._of_shape(job)
        return home

    def _of_shape(self, job: Job) -> Array:
        # On one node all that matters is whether the memory is enough; a spread job needs it in parts.
        alone = job.requirement[0] <= self._smallest
        memory = bisect_left(self._memory_mib, job.memory_mib) if alone else -job.memory_mib
        shape = (job.requirement[0], job.gpu_types, memory, job.bound, job.least_cores)
        home = self._known.get(shape)
        if home is None:
            home = self._known[shape] = self._find(job)
        return home

    def of_running(self, live: Running) -> Array:
        """Where a running job is at home, as far as its attempt tells it."""
        memory_mib = sum(piece.memory_mib for piece in live.pieces)
        sizes = live.requirement or (live.gpus,)
        return self.of(live.description or Job(live.job, live.tenant, sizes, memory_mib=memory_mib))

    def _find(self, job: Job) -> Array:
        own = self._division.array_of_job(job.requirement)
        if own is Array.CPU:
            return own
        other = Array.GPU_LARGE if own is Array.GPU_SMALL else Array.GPU_SMALL
        if first_failing(job, self._whole[own], self._largest) is None:
            return own
        return other if first_failing(job, self._whole[other], self._largest) is None else own


class AccessRules:
    """The places where each GPU job of a planning may go, as the ledger is now."""

    def __init__(
        self,
        division: Division,
        homes: HomeArrays,
        ledger: Ledger,
        running: Iterable[Running],
        waiting: Collection[Array],
        *,
        borrow: bool = True,
        gain: Gain = LINEAR,
    ) -> None:
        self._division, self.homes, self._ledger, self.gain = division, homes, ledger, gain
        self._waiting, self._borrow = frozenset(waiting), borrow
        self._idle_cores_at_start = {number: len(free.cores) for number, free in ledger.free.items()}
        self._held_cores: dict[int, int] = {}  # by GPU jobs, on each node
        for live in running:
            if live.gpus:
                for piece in live.pieces:
                    self._held_cores[piece.node] = self._held_cores.get(piece.node, 0) + len(piece.cores)
        self.reservations: list[tuple[Reservation, float]] = []  # with the snapshot's time
        self._offers: dict[Access, list[Offer]] = {}

    def on(self, ledger: Ledger, running: Iterable[Running]) -> AccessRules:
        """The same rules on another ledger, beside which these run."""
        twin = AccessRules(
            self._division, self.homes, ledger, running, self._waiting, borrow=self._borrow, gain=self.gain
        )
        twin.reservations = list(self.reservations)
        return twin

    @property
    def lends(self) -> bool:
        return self._borrow

    def home(self, job: Job) -> Array:
        return self.homes.of(job)

    def zone(self, node: int) -> Zone:
        kept = tuple(number for number, (each, _) in enumerate(self.reservations) if node in each.nodes)
        return Zone(self._division.array_of_node(node), kept)

    def access(self, ranked: Ranked, *, home_only: bool = False) -> Access:
        """The resources that the job may use: its own array, and those that the rule above lets it borrow."""
        home = self.home(ranked.job)
        arrays, limited = self._may_use(home, movable=ranked.job.movable, home_only=home_only)
        return Access(home, arrays, limited, self.barred(ranked), BORROWED_WEIGHT)

    def barred(self, ranked: Ranked) -> frozenset[int]:
        """The numbers of the reservations whose nodes the job may not use: it is expected to end too late, or nobody knows."""
        return frozenset(
            number
            for number, (kept, now_s) in enumerate(self.reservations)
            if kept.job != ranked.job.id and (now_s + ranked.age_s > kept.until_s or not is_sure(ranked.spread))
        )

    def opened(self, access: Access) -> Access:
        """The same on the nodes of both arrays: for resources that no waiting job of the owner array could use now."""
        return access._replace(arrays=(Array.GPU_SMALL, Array.GPU_LARGE))

    def _may_use(self, home: Array, *, movable: bool, home_only: bool) -> tuple[tuple[Array, ...], bool]:
        """The arrays whose nodes the job may use, its own first, and whether its cores are limited to reserved ones."""
        other = Array.GPU_LARGE if home is Array.GPU_SMALL else Array.GPU_SMALL
        borrows = (
            self._borrow and not home_only and may_borrow(home, movable=movable, owner_waits=other in self._waiting)
        )
        cores_too = self._borrow and may_borrow(home, movable=movable, owner_waits=Array.CPU in self._waiting)
        return (home, other) if borrows else (home,), self._division.divided and not cores_too

    def limit(self, jobs: Iterable[Job]) -> None:
        """Tell the ledger which of these GPU jobs may use reserved cores only, and how many of these each node has."""
        gpu_arrays = (Array.GPU_SMALL, Array.GPU_LARGE)
        kinds = {
            (home, movable): self._may_use(home, movable=movable, home_only=True)[1]
            for home in gpu_arrays
            for movable in (False, True)
        }
        if not any(kinds.values()):
            return
        find = self.home
        by_movable = [frozenset(home for home in gpu_arrays if kinds[home, movable]) for movable in (False, True)]
        limited = [job.id for job in jobs if find(job) in by_movable[job.movable]]
        if limited:
            self._ledger.limit(limited, {node: self.reserved_left(node) for node in self._ledger.free})

    def is_borrowed(self, job: Job, configuration: Configuration) -> bool:
        home = self.home(job)
        return any(self._division.array_of_node(share.node) is not home for share in configuration.shares)

    def factor(self, job: Job, configuration: Configuration) -> float:
        """The factor on the configuration's objective value."""
        return BORROWED_WEIGHT if self.is_borrowed(job, configuration) else 1.0

    def refresh(self) -> None:
        """Read the ledger again, because a step took from it."""
        self._offers.clear()

    def offers(self, ranked: Ranked, *, home_only: bool = False) -> Sequence[Offer]:
        """The idle offers that the job may use, in node order, without nodes kept for another job."""
        access = self.access(ranked, home_only=home_only)
        if access not in self._offers:
            self._offers[access] = [
                replace(offer, cores=self._ledger.cores_for(offer.node.id, limited=access.limited))
                for offer in self._ledger.idle_offers()
                if access.admits(self.zone(offer.node.id))
            ]
        return self._offers[access]

    def reserved_left(self, node: int) -> int:
        """Reserved cores of the node that no GPU job holds; a movable CPU job may hold them. No limit if not divided."""
        if not self._division.divided:
            return len(self._ledger.free[node].cores)
        taken = self._idle_cores_at_start[node] - len(self._ledger.free[node].cores)
        return max(0, self._division.reserved(node) - self._held_cores.get(node, 0) - taken)

    def cpu_cores(self, node: int) -> int:
        """Idle cores of the node that belong to the CPU array: those idle, without the reserved ones that are free.

        Valid once the GPU jobs are placed. The caller has to count the cores that CPU jobs take after that.
        """
        idle = len(self._ledger.free[node].cores)
        return max(0, idle - self.reserved_left(node)) if self._division.divided else idle
