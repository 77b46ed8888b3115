"""The sharing step's view: open shared GPUs in columns, waiting jobs as the policies see them, and memory to take back.

Running batch jobs give back GPU memory that they do not use, where a job joins that needs it (Kube-Knots IV-C). *Ours*: no more
is taken than the new job needs, the largest surplus first: each of them may grow again into the rest.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from scheduler.estimator.measured import signature
from scheduler.model.placements import WHOLE, Regrant
from scheduler.placement.feasibility import ties_allowed
from scheduler.sharing.board import Board
from scheduler.sharing.measured import NOTHING, Measured
from scheduler.sharing.model import Asker, Resident, SharedGpu, profiles_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from scheduler.model import Job, PartedGpu, Ranked
    from scheduler.placement.free_capacity import FreeCapacity
    from scheduler.placement.ledger import Ledger
    from scheduler.sharing.series import Flags

    Uses = Mapping[str, Mapping[str, Sequence[float]]]


class Places:
    """Shared GPUs on nodes that are up, but for those whose holders have more than the GPU."""

    def __init__(self, ledger: Ledger) -> None:
        self.capacities: list[FreeCapacity] = []
        self.gpus: list[PartedGpu] = []
        self._of_node: dict[int, slice] = {}
        for number in sorted(ledger.free):
            free, first = ledger.free[number], len(self.gpus)
            for gpu in free.node.shared:
                if gpu.open and gpu.compute_left >= 0 and gpu.memory_left_mib >= 0:
                    self.capacities.append(free)
                    self.gpus.append(gpu)
            self._of_node[free.node.id] = slice(first, len(self.gpus))
        self.cores = np.array([len(free.cores) for free in self.capacities], dtype=np.int64)
        self.memory_mib = np.array([free.memory_mib for free in self.capacities], dtype=np.int64)
        self._allowed: dict[tuple[object, ...], tuple[Flags, bool]] = {}
        self._exclusive = any(free.node.exclusive_tenant for free in self.capacities)

    def allowed(self, job: Job) -> Flags:
        """Where nothing but room could keep the job away."""
        kind, _ = self._of_kind(job)
        if not self._exclusive:
            return kind
        admits: Flags = np.array([free.admits(job.tenant) for free in self.capacities], dtype=bool)
        return kind & admits

    def everywhere(self, job: Job) -> bool:
        """Whether nothing but room could keep the job away from any GPU."""
        return not self._exclusive and self._of_kind(job)[1]

    def _of_kind(self, job: Job) -> tuple[Flags, bool]:
        """Return where a job with such wishes may be, and whether that is everywhere."""
        kind = (job.gpu_types, job.bound)
        if kind not in self._allowed:
            found: Flags = np.array([_allowed(job, free) for free in self.capacities], dtype=bool)
            self._allowed[kind] = found, bool(found.all())
        return self._allowed[kind]

    def beside(self, job: Job) -> Flags:
        """Where the node has the cores and the memory that the job needs at least."""
        found: Flags = (self.cores >= job.min_cores) & (self.memory_mib >= job.memory_mib)
        return found

    def taken(self, free: FreeCapacity) -> None:
        here = self._of_node[free.node.id]
        self.cores[here], self.memory_mib[here] = len(free.cores), free.memory_mib


def _allowed(job: Job, free: FreeCapacity) -> bool:
    return job.may_use(free.node.gpu_type) and ties_allowed(job, free.node)


KINDS, LEAST_KINDS = 2000, 50
"""The most kinds of sharing jobs that are looked at in one planning, in equal parts by tenant, and the fewest of a tenant."""
STEP = 50
"""Parts of GPUs are expected in steps of these thousandths, so that many sizes do not slow the prices down."""


class Askers:
    """The kinds of the waiting jobs, numbered, and the board of all of them beside the GPUs.

    Jobs of a kind ask for the same and were seen to use the same.
    """

    def __init__(
        self,
        sharers: Sequence[Ranked],
        gpus: Sequence[PartedGpu],
        uses: Uses,
        types: Sequence[str] = (),
        measured: Measured = NOTHING,
    ) -> None:
        """`types`: of the GPUs, in their order; only measured pairs need them."""
        self._profiles = profiles_of(uses)
        waiting = [each.job.part.apart_from for each in sharers if each.job.part is not None]
        running = [each.apart_from for gpu in gpus for each in gpu.holders]
        self._told_apart = {*uses, *measured.names}.union(*waiting, *running)
        self._rows: dict[tuple[object, str], int] = {}
        self._of_job: dict[int, int] = {}
        askers = [self._asker(job, name) for job, name in self._kinds(sharers)]
        named = zip(gpus, types or [""] * len(gpus), strict=True)
        shared = [self._shared(key, gpu, gpu_type) for key, (gpu, gpu_type) in enumerate(named)]
        self.board = Board(askers, shared, measured=measured)

    def row(self, job: Job) -> int | None:
        """The number of the job's kind; None for kinds of its tenant beyond the limit."""
        return self._of_job.get(job.id)

    def _kinds(self, sharers: Sequence[Ranked]) -> Iterator[tuple[Job, str]]:
        """Yield the first job of each kind, and its signature: the first kinds of each tenant, so that none crowds others out."""
        most = max(LEAST_KINDS, KINDS // len({each.job.tenant for each in sharers}))
        counts = Counter[int]()
        for job in (each.job for each in sharers):
            name = signature(job)
            kind = job.alike, self._name_of(name)
            if kind not in self._rows and counts[job.tenant] < most:
                counts[job.tenant] += 1
                self._rows[kind] = len(self._rows)
                yield job, name
            if (row := self._rows.get(kind)) is not None:
                self._of_job[job.id] = row

    def _name_of(self, name: str) -> str:
        """A signature, where it matters: nothing is known of most."""
        return name if name in self._told_apart else ""

    def _asker(self, job: Job, name: str) -> Asker:
        part = job.part
        assert part is not None
        return Asker(
            job.id,
            part.memory_mib,
            self._name_of(name),
            compute=part.compute,
            critical=part.critical,
            whole_request=not part.harvest,
            apart_from=part.apart_from,
            profile=self._profiles.get(name),
        )

    def _shared(self, key: int, gpu: PartedGpu, gpu_type: str) -> SharedGpu:
        """A GPU with its jobs and their grants."""
        residents = tuple(
            Resident(
                Asker(
                    each.job,
                    max(1, each.memory_mib),
                    each.signature,
                    compute=each.compute,
                    whole_request=not each.harvest,
                    apart_from=each.apart_from,
                    profile=self._profiles.get(each.signature),
                ),
                each.memory_mib,
                each.used_mib,
                each.ran_s,
            )
            for each in gpu.holders
        )
        return SharedGpu(key, gpu.memory_mib, residents, np.asarray(gpu.memory_used, dtype=np.float64), gpu_type)


def expected_parts(sharers: Iterable[Ranked], gpus: Iterable[PartedGpu]) -> tuple[tuple[int, int], ...]:
    """The expected parts (thousandths, in steps), and how many: those of waiting and of running jobs."""
    asked = [each.job.part.compute for each in sharers if each.job.part is not None]
    held = [each.compute for gpu in gpus for each in gpu.holders]
    counts = Counter(max(STEP, round(compute / STEP) * STEP) for compute in (*asked, *held))
    return tuple(sorted((size, count) for size, count in counts.items() if size < WHOLE))


class Harvests:
    """Memory of each shared GPU that running jobs hold beyond their least. The board counts it as free from now on.

    `orders`: by job, the memory taken from it in this planning.
    """

    def __init__(self, board: Board, *, wanted: bool) -> None:
        self._board = board
        self._grants: dict[int, int] = {}
        self._spare: list[dict[int, int]] = [{} for _ in board.gpus]
        self.orders: dict[int, Regrant] = {}
        for column, gpu in enumerate(board.gpus) if wanted else ():
            self._grants |= {each.asker.key: each.grant_mib for each in gpu.residents}
            spare = {each.asker.key: each.grant_mib - each.kept_mib for each in gpu.residents}
            self._spare[column] = {job: mib for job, mib in spare.items() if mib > 0}
            if self._spare[column]:
                board.regrant(column, -sum(spare.values()))

    def take(self, column: int) -> int:
        """Take the grants beyond a GPU's memory, now that a job joined. Returns from how many jobs."""
        spare = self._spare[column]
        need = sum(spare.values()) - int(self._board.left_mib[column])
        taken = 0
        for job in sorted(spare, key=lambda job: (-spare[job], job)):
            if need <= 0:
                break
            mib = min(need, spare[job])
            need, taken = need - mib, taken + 1
            spare[job] -= mib
            self._grants[job] -= mib
            self.orders[job] = Regrant(job, self._grants[job])
        return taken
