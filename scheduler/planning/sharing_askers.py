"""Waiting jobs that share GPUs as the sharing policies see them: an asker a kind of job, and the GPUs with their jobs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from scheduler.estimator.tables import signature
from scheduler.model.parts import WHOLE
from scheduler.sharing.board import Board
from scheduler.sharing.measured import NOTHING
from scheduler.sharing.model import Asker, Resident, SharedGpu, profiles_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from scheduler.model import Job, PartedGpu, Ranked
    from scheduler.sharing.measured import Measured

    Uses = Mapping[str, Mapping[str, Sequence[float]]]

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
