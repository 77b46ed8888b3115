"""Searches for cores begin: of attempts that may be tuned, and anew where a slowing on the node has ended."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import Exists, OuterRef

from portal.work.jobs.models import Allocation, Attempt, CoreSearch, CoreTuning, Slowing
from portal.work.jobs.states import AttemptState
from scheduler.estimator.tuner import AGAIN_S, search_begin

if TYPE_CHECKING:
    from scheduler.parameters import Parameters

Outcome = CoreSearch.Outcome
AT_ONCE = 500


def searches_begin(*, now: datetime, parameters: Parameters) -> int:
    """Give a search to each attempt that may be tuned and has run for a step: on one node that allows it, with GPUs, of a job
    whose tenant did not fix its cores and for which nobody set them by hand. Two queries.

    A job is searched again after a resize and after a move: when it runs with another number of GPUs, or on another node.
    """
    parts = Allocation.objects.filter(attempt=OuterRef("pk"))
    ended = CoreSearch.objects.filter(attempt__job=OuterRef("job"), outcome__in=(Outcome.FOUND, Outcome.LIMITED))
    attempts = (
        Attempt.objects.runs()
        .live()
        .annotate(
            on_node=parts.filter(rank=0).values("node")[:1], node_cores=parts.filter(rank=0).values("node__cores")[:1]
        )
        .filter(
            Exists(parts.filter(rank=0, cores_acknowledged__isnull=False, node__tunes_cores=True)),
            ~Exists(parts.filter(rank__gt=0)),
            ~Exists(CoreSearch.objects.filter(attempt=OuterRef("pk"))),
            ~Exists(ended.filter(attempt__gpus=OuterRef("gpus"), attempt__allocations__node=OuterRef("on_node"))),
            ~Exists(CoreTuning.objects.filter(job=OuterRef("job"), steps=0)),
            state=AttemptState.RUNNING,
            gpus__gt=0,
            stop_reason="",
            job__cores_exactly=False,
            started_at__lte=now - timedelta(seconds=parameters.tune_step_s),
        )
        # Not only by key: Postgres would walk along all attempts that ever were to find the first live ones.
        .order_by("started_at", "pk")[:AT_ONCE]
    )
    rows = [
        CoreSearch(
            attempt=attempt,
            state=_begun(attempt, attempt.node_cores, parameters),
            step_s=parameters.tune_step_s,
            since=now,
            due_at=now,
            begun_at=now,
        )
        for attempt in attempts
    ]
    return len(CoreSearch.objects.bulk_create(rows, ignore_conflicts=True))


def searches_again(*, now: datetime, parameters: Parameters) -> int:
    """Begin searches again on whose node a slowing has ended since they were over, and none goes on. Two queries at most."""
    parts = Allocation.objects.filter(attempt=OuterRef("attempt"), released_at=None)
    slowings = Slowing.objects.filter(node=OuterRef("on_node"))
    searches = (
        CoreSearch.objects.filter(
            outcome__in=(Outcome.FOUND, Outcome.LIMITED),
            begun_at__lte=now - timedelta(seconds=AGAIN_S),
            attempt__ended_at=None,
            attempt__stop_reason="",
        )
        .annotate(on_node=parts.values("node")[:1], node_cores=parts.values("node__cores")[:1])
        .filter(Exists(slowings.filter(to_at__gt=OuterRef("done_at"))), ~Exists(slowings.filter(to_at=None)))
        .select_related("attempt")
        .order_by("done_at", "pk")[:AT_ONCE]
    )
    found = list(searches)
    for each in found:
        each.state, each.step_s = _begun(each.attempt, each.node_cores, parameters), parameters.tune_step_s
        each.since = each.due_at = each.begun_at = now
        each.marked_at = each.marked_samples = each.done_at = None
        each.outcome = ""
    fields = "state step_s since due_at begun_at marked_at marked_samples done_at outcome".split()
    return CoreSearch.objects.bulk_update(found, fields) if found else 0


def _begun(attempt: Attempt, node_cores: int, parameters: Parameters) -> dict[str, Any]:
    start = attempt.cores_wanted or max(1, attempt.cores // attempt.gpus)
    return asdict(search_begin(start, attempt.cores, node_cores, attempt.gpus, fast=parameters.tune_faster == "on"))
