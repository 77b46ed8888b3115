"""Values that a planning hands over to be placed, and the rows that placed jobs get."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

from django.db.models import F, Max

from portal.cluster.models import Gpu, GpuType
from portal.cluster.services.contact import nodes_touch
from portal.foundation.bulk import among, rows_insert, rows_update
from portal.foundation.environment import env
from portal.foundation.events.services import jobs_tell, nodes_wake, page_event
from portal.work.jobs.models import Allocation, Attempt, GpuAllocation, Job
from portal.work.jobs.services.changes import array_refresh
from portal.work.jobs.services.events import events_record, neighbours_tell
from portal.work.jobs.services.placings import BY_SAMPLES, AgeRow, Part, Placing
from portal.work.jobs.states import JobState
from portal.work.jobs.use import WHOLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from portal.cluster.models import Node


Begun = tuple[Attempt, list[tuple[Part, Allocation]]]


FIRST_PORT, PORTS = 20000, 20000
"""Rendezvous ports of multi-node attempts: one an attempt, so that two on a node do not meet."""


def jobs_move(started: Sequence[tuple[Placing, Job]], now: datetime) -> None:
    if not started:
        return
    rows: list[tuple[Any, ...]] = []
    for placing, job in started:
        stretch_s = max(0.0, (now - job.waiting_since).total_seconds()) if job.waiting_since else 0.0
        age = _age(placing, job)
        waited_s, first = job.waited_s + stretch_s, job.started_at or now
        rows.append((job.pk, JobState.STARTING.value, job.epoch + 1, waited_s, None, *age, first, "", {}))
    fields = "state epoch waited_s waiting_since age_s age_source age_spread age_runs started_at reason reason_figures".split()
    rows_update(model=Job, fields=fields, rows=rows)


def _age(placing: Placing, job: Job) -> AgeRow:
    """Return the age that holds from now on: a guess gives way once the job's speed is known (algorithms, section 3)."""
    found, own = placing.age, (job.age_s, job.age_source, job.age_spread, job.age_runs)
    if found is None:
        return own
    known_now = job.samples is not None and found[1] == BY_SAMPLES != job.age_source
    return found if job.started_at is None or known_now else own


def attempts_create(started: Sequence[tuple[Placing, Job]], planning_number: int, now: datetime) -> list[Begun]:
    """Make an attempt of each placed job, and the parts of each attempt. Returns them in the order of `started`."""
    attempts = _attempts_make(started, planning_number, now)
    parts = [
        (attempt, rank, part)
        for attempt, (placing, _) in zip(attempts, started, strict=True)
        for rank, part in enumerate(placing.parts)
    ]
    held: dict[int, list[tuple[Part, Allocation]]] = defaultdict(list)
    for (attempt, _, part), allocation in zip(parts, _parts_make(parts, now), strict=True):
        held[attempt.pk].append((part, allocation))
    return [(attempt, held[attempt.pk]) for attempt in attempts]


def _attempts_make(started: Sequence[tuple[Placing, Job]], planning_number: int, now: datetime) -> list[Attempt]:
    lease_s = env("BERTH_LEASE_S")
    epochs = _profile_epochs(started)
    attempts: list[Attempt] = Attempt.objects.bulk_create(
        Attempt(
            job=job,
            epoch=job.epoch + 1 if placing.profile is None else next(epochs[job.pk]),
            **_profile_fields(placing),
            planning_number=planning_number,
            gpus=sum(len(p.gpu_indices) for p in placing.parts),
            gpu_compute=placing.parts[0].gpu_compute if placing.parts else None,
            cores=sum(len(p.core_ids) for p in placing.parts),
            cores_wanted=placing.cores_wanted,
            rendezvous_port=0,
            created_at=now,
            # A profile may be repeated, so it may be ended for silence.
            lease_s=lease_s if lease_s and (job.is_requeueable or placing.profile) else None,
        )
        for placing, job in started
    )
    own = Attempt.objects.filter(pk__in=among(attempt.pk for attempt in attempts))
    own.update(rendezvous_port=FIRST_PORT + F("pk") % PORTS)
    return attempts


def _parts_make(parts: Sequence[tuple[Attempt, int, Part]], now: datetime) -> list[Allocation]:
    """Make the rows of (attempt, rank, part), in the same order."""
    made: list[Allocation] = Allocation.objects.bulk_create(
        Allocation(
            attempt=attempt,
            node_id=part.node_id,
            rank=rank,
            core_ids=list(part.core_ids),
            memory_mib=part.memory_mib,
            lease_until=now + timedelta(seconds=attempt.lease_s) if attempt.lease_s else None,
            missed_at=now,  # until its node names it
        )
        for attempt, rank, part in parts
    )
    return made


def _profile_fields(placing: Placing) -> dict[str, Any]:
    if (profile := placing.profile) is None:
        return {}
    return {
        "kind": Attempt.Kind.PROFILE,
        "profile_of": profile.signature,
        "profile_type": GpuType.objects.get(name=profile.gpu_type),
        "time_limit_s": profile.limit_s,
    }


def _profile_epochs(started: Sequence[tuple[Placing, Job]]) -> dict[int, Iterator[int]]:
    """Return by job the numbers of its next profiles; they are counted apart from its runs."""
    ids = {job.pk for placing, job in started if placing.profile is not None}
    if not ids:
        return {}
    rows = Attempt.objects.profiles().filter(job__in=ids).order_by().values_list("job").annotate(last=Max("epoch"))
    last = dict(rows)
    return {pk: count(last.get(pk, 0) + 1) for pk in ids}


def gpus_take(attempts: Sequence[Begun], gpus: Mapping[tuple[int, int], Gpu]) -> None:
    rows = [
        (allocation.pk, gpus[part.node_id, index].pk, *_taken(part), attempt.created_at)
        for attempt, held in attempts
        for part, allocation in held
        for index in part.gpu_indices
    ]
    fields = ["allocation", "gpu", "mode", "compute", "memory_mib", "created_at"]
    rows_insert(model=GpuAllocation, fields=fields, rows=rows)


def _taken(part: Part) -> tuple[str, int, int | None]:
    """Return mode, thousandths and memory of a part's share of each of its GPUs."""
    if part.gpu_compute is None:
        return Gpu.Mode.EXCLUSIVE.value, WHOLE, None
    return Gpu.Mode.SHARED.value, part.gpu_compute, part.gpu_memory_mib


def placed_tell(
    started: Sequence[tuple[Placing, Job]],
    attempts: Sequence[Begun],
    nodes: Mapping[int, Node],
    planning_number: int,
) -> None:
    """Tell timelines, pages, the nodes' long polls and the arrays' counts."""
    for kind, word in ((Attempt.Kind.RUN, "placed"), (Attempt.Kind.PROFILE, "profiled")):
        begun = [(attempt, held) for attempt, held in attempts if attempt.kind == kind]
        texts = [
            (
                attempt.job_id,
                None if attempt.is_profile else attempt.epoch,
                f"{word.capitalize()} on {where}: {_what(attempt)}, planning {planning_number}.",
            )
            for attempt, held in begun
            for where in [", ".join(nodes[part.node_id].name for part, _ in held)]
        ]
        if texts:
            events_record(kind=word, texts=texts)
    page_event(stream="cluster", topic="job")
    jobs_tell(job_ids=[attempt.job_id for attempt, _ in attempts])
    neighbours_tell(attempts=[attempt for attempt, _ in attempts])
    touched = {part.node_id for _, held in attempts for part, _ in held}
    nodes_touch(node_ids=touched)
    nodes_wake(node_ids=touched)
    tasks = Counter(job.array_id for placing, job in started if job.array_id and placing.profile is None)
    for array_id, moved in sorted(tasks.items()):
        array_refresh(array_id=array_id, moved={JobState.PENDING.value: -moved, JobState.STARTING.value: moved})


def _what(attempt: Attempt) -> str:
    gpus = f"{attempt.gpus} GPU{'s' if attempt.gpus != 1 else ''} and " if attempt.gpus else ""
    if attempt.gpu_compute is not None:
        gpus = f"{attempt.gpu_compute / 10:g} % of a GPU and "
    limit = f", for {attempt.time_limit_s} s at most" if attempt.is_profile else ""
    cores = f"{attempt.cores} core{'s' if attempt.cores != 1 else ''}"
    return f"{gpus}{cores}{limit}"
