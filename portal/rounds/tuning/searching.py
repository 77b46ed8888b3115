"""The pass of core tuning: attempts that may be tuned get a search, and searches that are due go a step on.

It costs a fixed number of queries, and a transaction for each step that is over: an attempt has some five in its life. What
the end of a step means is `portal.rounds.tuning.ending`.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING

from django.db.models import Exists, OuterRef
from django.utils import timezone

from portal.jobs.models import Allocation, Attempt, CoreSearch
from portal.jobs.states import AttemptState
from portal.rounds.settings.knobs import knobs_current, scheduler_parameters
from portal.rounds.tuning.ending import Figures, step_end
from portal.rounds.tuning.measures import LEAST_SHARE, Window, speeds_read, utilisations_read
from scheduler.estimator.tuner import Way, gather

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from scheduler.parameters import Parameters

EVERY_S = 5
LAG_S = 6.0
"""Figures of the last seconds are on their way: nodes send every five."""
SETTLE_SHARE, SETTLE_MOST_S = 0.2, 5.0
"""After cores changed, so much of a step passes before it is measured."""
ANSWER_S = 600.0
"""A node that has not acknowledged an order for so long ends the search."""
AT_ONCE = 500
Outcome = CoreSearch.Outcome


def tuning_pass(*, now: datetime | None = None) -> int:
    """Begin, measure and end what is due; return how many steps were over."""
    now = now or timezone.now()
    parameters = scheduler_parameters(knobs_current())
    _close(now, on=parameters.tune_cores == "on")
    if parameters.tune_cores != "on":
        return 0
    searches_begin(now=now, parameters=parameters)
    open_ones = CoreSearch.objects.filter(done_at=None, due_at__lte=now)
    due = list(open_ones.select_related("attempt").order_by("due_at")[:AT_ONCE])
    if not due:
        return 0
    speeds = speeds_read(search.attempt_id for search in due)
    over = [search for search in due if search.marked_at is not None]
    _mark([search for search in due if search.marked_at is None], speeds, now=now)
    figures = _figures(over, speeds)
    for pk, measured in figures.items():
        step_end(pk, measured, parameters=parameters, now=now)
    return len(figures)


def _close(now: datetime, *, on: bool) -> None:
    """End the searches of attempts that are over, of nodes that do not answer, and all where tuning is switched off."""
    open_ones = CoreSearch.objects.filter(done_at=None)
    closed = {"done_at": now, "due_at": None}
    open_ones.filter(attempt__ended_at__isnull=False).update(outcome=Outcome.ENDED, **closed)
    silent = now - timedelta(seconds=ANSWER_S)
    open_ones.filter(due_at=None, ordered_at__lt=silent).update(outcome=Outcome.UNANSWERED, **closed)
    if not on:
        open_ones.update(outcome=Outcome.SWITCHED_OFF, **closed)


def searches_begin(*, now: datetime, parameters: Parameters) -> int:
    """Give a search to each attempt that may be tuned and has run for a step: on one node that allows it, with GPUs, of a job
    that was not tuned before and whose tenant did not fix its cores. Two queries.
    """
    parts = Allocation.objects.filter(attempt=OuterRef("pk"))
    attempts = (
        Attempt.objects.runs()
        .live()
        .filter(
            Exists(parts.filter(rank=0, cores_acknowledged__isnull=False, node__tunes_cores=True)),
            ~Exists(parts.filter(rank__gt=0)),
            state=AttemptState.RUNNING,
            gpus__gt=0,
            stop_reason="",
            core_search=None,
            job__core_tuning=None,
            job__cores_exactly=False,
            started_at__lte=now - timedelta(seconds=parameters.tune_step_s),
        )
        .annotate(node_cores=parts.filter(rank=0).values("node__cores")[:1])
        .order_by("pk")[:AT_ONCE]
    )
    fast = parameters.tune_faster == "on"
    rows = []
    for attempt in attempts:
        asked = attempt.cores_wanted or max(1, attempt.cores // attempt.gpus)
        state = gather(asked, attempt.node_cores, attempt.gpus, fast=fast)
        rows.append(
            CoreSearch(
                attempt=attempt, state=asdict(state), step_s=parameters.tune_step_s, since=now, due_at=now, begun_at=now
            )
        )
    return len(CoreSearch.objects.bulk_create(rows, ignore_conflicts=True))


def _settle_s(search: CoreSearch) -> float:
    return min(SETTLE_MOST_S, SETTLE_SHARE * search.step_s)


def _mark(searches: Sequence[CoreSearch], speeds: Mapping[int, tuple[float, float]], *, now: datetime) -> None:
    """Begin to measure those whose cores have held for a moment; the others have theirs soon."""
    for search in searches:
        settled_at = (search.since or now) + timedelta(seconds=_settle_s(search))
        if settled_at > now and not _gathers(search):
            search.due_at = settled_at
            continue
        search.marked_at = now
        search.marked_samples, search.marked_seconds = speeds.get(search.attempt_id, (0.0, 0.0))
        search.due_at = now if _gathers(search) else now + timedelta(seconds=search.step_s + LAG_S)
    CoreSearch.objects.bulk_update(searches, ["due_at", "marked_at", "marked_samples", "marked_seconds"])


def _gathers(search: CoreSearch) -> bool:
    return search.state["way"] == Way.GATHER and search.state["cores"] * search.attempt.gpus > search.attempt.cores


def _figures(searches: Sequence[CoreSearch], speeds: Mapping[int, tuple[float, float]]) -> dict[int, Figures]:
    """Return what was measured, by search."""
    measured = [search for search in searches if not _gathers(search)]
    windows = [
        Window(search.attempt_id, search.marked_at, search.marked_at + timedelta(seconds=search.step_s))
        for search in measured
        if search.marked_at is not None
    ]
    used = utilisations_read(windows)
    found = {search.pk: Figures(None, None) for search in searches}
    for search in measured:
        found[search.pk] = Figures(used.get(search.attempt_id), _rate(search, speeds))
    return found


def _rate(search: CoreSearch, speeds: Mapping[int, tuple[float, float]]) -> float | None:
    """Return the samples a second that the job reported since the mark; None when it reported too little."""
    samples, seconds = speeds.get(search.attempt_id, (0.0, 0.0))
    seconds -= search.marked_seconds or 0.0
    if seconds < LEAST_SHARE * search.step_s:
        return None
    return max(0.0, samples - (search.marked_samples or 0.0)) / seconds
