"""Database -> the estimator: the known speeds of the jobs in question, in a fixed number of queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from portal.planning.estimation.models import (
    JobProfile,
    JobProgress,
    Link,
    NodeSpeed,
    PairSpeed,
    Signature,
    ThroughputCell,
)
from portal.work.jobs.models import Job as JobRow
from portal.work.jobs.states import FINAL
from scheduler.estimator.measured import signature
from scheduler.fairness.lrf import TOLD
from scheduler.intake.validation import RATE_LEAST
from scheduler.model import Job, bay_id, speeds
from scheduler.model.speeds import Cell, CellKey, Knowledge
from scheduler.pattern import Pattern

MANY = 5000
"""Above this number of signatures all rows are read: a longer list of ids costs more than it spares."""


def knowledge_load(jobs: Sequence[Job]) -> Knowledge:
    """Knowledge about these jobs, and about no others: no other tenant's signature is among them."""
    known = _signatures(jobs)
    return Knowledge(cells=_cells(known), profiles=_profiles(known), links=links_load())


def _signatures(jobs: Sequence[Job]) -> dict[int, str]:
    """Return {id: name} of those that exist. Only a job that ran before has a signature of its own."""
    tenants = {job.tenant for job in jobs if job.model_label}
    shared, own = Q(tenant_id__in=tenants, job=None), Q(job__isnull=False) & ~Q(job__state__in=FINAL)
    rows = list(Signature.objects.filter(shared | own).values_list("pk", "name"))
    names = {signature(job) for job in jobs} if rows else ()
    return {pk: name for pk, name in rows if name in names}


def _of(known: Mapping[int, str]) -> Q:
    return Q(signature_id__in=list(known)) if len(known) <= MANY else Q()


def _cells(known: Mapping[int, str]) -> dict[CellKey, Cell]:
    sound = Q(mean__gte=RATE_LEAST)  # less was kept until records of it were refused
    rows = ThroughputCell.objects.filter(sound & _of(known)).values_list(
        "signature_id", "node_id", "bay", "gpu_type__name", "gpus", "nodes", "count", "mean", "squares"
    )
    return {
        CellKey(known[signature], bay_id(node, bay) if node else gpu_type, gpus, nodes): Cell(count, mean, squares)
        for signature, node, bay, gpu_type, gpus, nodes, count, mean, squares in rows
        if signature in known
    }


def _profiles(known: Mapping[int, str]) -> dict[tuple[str, str], speeds.Profile]:
    rows = JobProfile.objects.filter(_of(known), modules__gt=0).select_related("gpu_type")
    return {
        (known[row.signature_id], row.gpu_type.name): profile_of(row)
        for row in rows.defer("recent_data", "recent_iterations")
        if row.signature_id in known
    }


def profile_of(row: JobProfile) -> speeds.Profile:
    """The estimator's profile, with the mixture but without its latest observations."""
    return speeds.Profile(
        forward_s=row.forward_s,
        backward_s=row.backward_s,
        update_s=row.update_s,
        batch_size=row.batch,
        parameters=row.parameters,
        pattern=Pattern(row.pattern or Pattern.OVERLAPPED),
        loading=speeds.Loading(row.data_count, tuple(speeds.Part(*part) for part in row.data_parts)),
        rest_sigma_s=row.rest_sigma_s,
        wait_gpus=row.wait_gpus,
        exposed=row.exposed_s / row.exchange_s if row.exchange_s > 0 else None,
    )


@dataclass(frozen=True)
class Found:
    """Knowledge about a signature on a GPU type by now: mean times in s on one GPU, and the pattern; None = not known."""

    iterations: int
    data_s: float | None
    forward_s: float
    backward_s: float
    update_s: float
    pattern: Pattern | None


def profiles_found(pairs: Iterable[tuple[str, int | None]]) -> dict[tuple[str, int | None], Found]:
    """Return the knowledge about these (signature, GPU type id), as far as its time modules are. One query."""
    wanted = set(pairs)
    if not wanted:
        return {}
    names, types = {name for name, _ in wanted}, {gpu_type for _, gpu_type in wanted}
    rows = JobProfile.objects.filter(signature__name__in=names, gpu_type__in=types, modules__gt=0)
    found = {(row.signature.name, row.gpu_type_id): _found(row) for row in rows.select_related("signature")}
    return {pair: each for pair, each in found.items() if pair in wanted}


def _found(row: JobProfile) -> Found:
    loading = profile_of(row).loading
    means = [part.data_s for part in loading.parts]
    data_s = sum(p * mean for p, mean in zip(loading.probabilities, means, strict=True)) if means else None
    pattern = Pattern(row.pattern) if row.pattern else None
    return Found(row.modules, data_s, row.forward_s, row.backward_s, row.update_s, pattern)


def pairs_measured(names: Iterable[str] | None = None) -> dict[tuple[str, str, str], tuple[Cell, datetime]]:
    """Return by (signature, its neighbour, GPU type) the share of its own speed that a signature kept there, and when last.

    `names`: only pairs of these; None: all. One query. Only for the planner and operators: a pair may be of two tenants.
    """
    rows = PairSpeed.objects.all()
    if names is not None:
        wanted = set(names)
        rows = rows.filter(signature__name__in=wanted, beside__in=wanted) if len(wanted) <= MANY else rows
    told = rows.values_list("signature__name", "beside", "gpu_type__name", "at", "count", "mean", "squares")
    return {(own, beside, gpu_type): (Cell(*cell), at) for own, beside, gpu_type, at, *cell in told}


def links_load() -> dict[str, speeds.Link]:
    """Return the bandwidths by GPU type's name: refined, else measured, else assumed. One query."""
    return {
        row.gpu_type.name: speeds.Link(
            row.bandwidth("within"),
            row.bandwidth("between"),
            row.is_assumed("within"),
            row.is_assumed("between"),
        )
        for row in Link.objects.select_related("gpu_type")
    }


def progress_of(job: JobRow) -> JobProgress | None:
    """Return how far a job says it is; None when it says nothing. One query for each `job` that is read."""
    return getattr(job, "progress", None)


def length_is_told(source: str) -> bool:
    """Say whether an expected run time knows this very job, or its tenant's like it, by its `age_source`: else it is a guess."""
    return source in TOLD


def progress_fractions(jobs: Iterable[JobRow]) -> dict[int, float]:
    """Return how much of their work these jobs say is done, by job id, where they know their total."""
    rows = JobProgress.objects.filter(job__in=list(jobs), samples_total__isnull=False)
    return dict(rows.values_list("job_id", "fraction"))


def node_speed(*, node_id: int) -> NodeSpeed | None:
    """Return how fast a node is against its type; None while too few jobs have measured it."""
    return NodeSpeed.objects.filter(pk=node_id).first()
