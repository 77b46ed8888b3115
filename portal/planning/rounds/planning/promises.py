"""A plan's work besides starting jobs: stops that are ordered, promises given, given up, and read back for the next."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime

from django.utils import timezone

from portal.planning.rounds.models import Planning
from portal.work.jobs.models import Promise
from portal.work.jobs.services.preempting import Stop, attempt_preempt
from portal.work.jobs.services.waiting import ShareRow, promise_give, promises_withdraw
from portal.work.jobs.states import StopCause
from scheduler import model

log = logging.getLogger(__name__)


def promises_load() -> dict[int, model.Promise]:
    """Return the promise of each job, by job id. One query."""
    return {
        row.job_id: model.Promise(
            shares=tuple(_share(*share) for share in row.shares),
            given_s=row.given_at.timestamp(),
            cause=row.cause,
            cores_wanted=row.cores_wanted,
        )
        for row in Promise.objects.all()
    }


ALL = 1_000_000
"""All GPUs of a reserved node are kept."""


def gpus_kept() -> dict[int, int]:
    """Return by node how many GPUs are promised to waiting jobs, and all of those that are reserved now. Two queries."""
    kept: dict[int, int] = defaultdict(int)
    for shares in Promise.objects.values_list("shares", flat=True):
        for node, gpus, *_ in shares:
            kept[node] += gpus
    applied = Planning.objects.filter(status=Planning.Status.APPLIED).order_by("-number")
    for each in applied.values_list("reservations", flat=True).first() or ():
        if datetime.fromisoformat(each["until"]) > timezone.now():
            kept |= dict.fromkeys(each["nodes"], ALL)
    return kept


def _share(node: int, gpus: int, cores: int, memory_mib: int, number: int = 0) -> model.Share:
    return model.Share(model.bay_id(node, number), gpus, cores, memory_mib)


def _row(share: model.Share) -> ShareRow:
    node, number = model.node_of(share.node), model.number_of(share.node)
    return (node, share.gpus, share.cores, share.memory_mib, *([number] if number else []))


def plan_stops_apply(*, made: model.Plan, record: Planning) -> None:
    """Order a plan's stops; the record says of each whether there was still somebody to stop."""
    for order in made.stops:
        stop = Stop(job_id=order.job, cause=StopCause(order.cause), for_job=order.for_job, to_gpus=order.to_gpus)
        ordered = attempt_preempt(stop=stop, planning_number=record.number)
        if not ordered:
            log.info("planning %s: job %s ended or was stopped before it could be", record.number, order.job)
        entry = {"job": order.job, "cause": order.cause, "for_job": order.for_job}
        sizes = {"from_gpus": order.from_gpus, "to_gpus": order.to_gpus}
        record.stops.append({**entry, **sizes, "ordered": ordered})


def plan_promises_apply(*, made: model.Plan, record: Planning, cores_wanted: Mapping[int, int]) -> None:
    """Store what a plan keeps for jobs, after its stops; forget what it gives up; note the nodes that it reserves.

    `cores_wanted`: by job, the plan's own.
    """
    promises_withdraw(job_ids=made.lapsed)
    record.lapsed = list(made.lapsed)
    for each in made.promises:
        shares = [_row(share) for share in each.shares]
        kept = promise_give(
            job_id=each.job,
            shares=shares,
            cause=each.cause,
            planning_number=record.number,
            cores_wanted=cores_wanted.get(each.job),
        )
        if kept:
            record.promises.append({"job": each.job, "shares": [list(share) for share in shares], "cause": each.cause})
    record.reservations = [
        {"job": kept.job, "nodes": list(kept.nodes), "until": datetime.fromtimestamp(kept.until_s, UTC).isoformat()}
        for kept in made.reservations
    ]
