"""The pass of core tuning: attempts that may be tuned get a search, and searches that are due go a step on.

It costs a fixed number of queries, and a transaction for each step that tells something: an attempt has some five in its
life. One without a result is measured again, and one that waits for cores waits on, in one query for all of them.
The meaning of a step's end is in `portal.planning.rounds.tuning.ending`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

from django.db.models import Exists, OuterRef
from django.utils import timezone

from portal.foundation.bulk import among
from portal.planning.rounds.planning.lease import errand
from portal.planning.rounds.settings.knobs import knobs_current, scheduler_parameters
from portal.planning.rounds.tuning.beginning import AT_ONCE, searches_again, searches_begin
from portal.planning.rounds.tuning.ending import Figures, Outcome, search_stop, step_end, value_of
from portal.planning.rounds.tuning.measures import (
    LEAST_SHARE,
    Use,
    Window,
    idle_cores_beside,
    speeds_read,
    upset_read,
    uses_read,
)
from portal.work.jobs.models import Allocation, Attempt, CoreSearch
from scheduler.estimator.tuner import Way
from scheduler.parameters import Parameters

log = logging.getLogger(__name__)

LAG_S = 6.0
"""Figures of the last seconds are on their way: nodes send every five."""
SETTLE_SHARE, SETTLE_MOST_S = 0.2, 5.0
"""Seconds of a step after cores changed, before it is measured."""
ANSWER_S = 600.0
"""Seconds without an acknowledgement after which a node's search ends."""
LEASE_S = 60.0
"""Seconds after which a pass counts as killed, and another worker may make one."""


def tuning_pass(*, now: datetime | None = None) -> int:
    """Begin, measure and end what is due; return how many steps were over. Nothing while another worker does it.

    Where nothing runs and nothing is searched, it takes no lease: an idle portal writes nothing.
    """
    if not (Attempt.objects.runs().live().exists() or CoreSearch.objects.filter(done_at=None).exists()):
        return 0
    with errand("tune", limit_s=LEASE_S) as mine:
        return _pass(now or timezone.now()) if mine else 0


def _pass(now: datetime) -> int:
    parameters = scheduler_parameters(knobs_current())
    _close(now, on=parameters.tune_cores == "on")
    if parameters.tune_cores != "on":
        return 0
    searches_begin(now=now, parameters=parameters)
    searches_again(now=now, parameters=parameters)
    open_ones = CoreSearch.objects.filter(done_at=None, due_at__lte=now)
    due = list(open_ones.select_related("attempt").order_by("due_at")[:AT_ONCE])
    if not due:
        return 0
    begun, new = [each for each in due if _is_noted(each)], [each for each in due if not _is_noted(each)]
    speeds = speeds_read(search.attempt_id for search in due)
    figures = _figures([search for search in begun if not _is_short(search)], speeds)
    over = _over(begun, figures, parameters=parameters, now=now)
    _mark(new, speeds, now=now)
    for search in over:
        with _apart(search, now):
            step_end(search, figures.get(search.pk, Figures(None, None)), parameters=parameters, now=now)
    return len(over)


def _over(
    searches: Sequence[CoreSearch], figures: Mapping[int, Figures], *, parameters: Parameters, now: datetime
) -> list[CoreSearch]:
    """Return those whose step has a result, or that may get the cores they wait for; the others' is made again."""
    band = parameters.noise_band
    measured = [search for search in searches if search.pk in figures]
    short = [search for search in searches if search.pk not in figures]
    told = [search for search in measured if value_of(search, figures[search.pk], band=band) is not None]
    room = idle_cores_beside(search.attempt_id for search in short)
    able = [search for search in short if search.attempt_id in room]
    upset = upset_read(told)
    told = [search for search in told if search.attempt_id not in upset]
    _again(set(measured) - set(told), now=now)
    _again(set(short) - set(able), now=now, pause_s=parameters.tune_step_s)
    return [*told, *able]


@contextmanager
def _apart(search: CoreSearch, now: datetime) -> Iterator[None]:
    """Let what fails in one search stop no other: it is logged, and tried again after `ANSWER_S`."""
    try:
        yield
    except Exception:
        log.exception("core tuning of attempt %d failed", search.attempt_id)
        CoreSearch.objects.filter(pk=search.pk, done_at=None).update(due_at=now + timedelta(seconds=ANSWER_S))


def _close(now: datetime, *, on: bool) -> None:
    """End the searches of attempts that are over, of nodes that do not answer, and where tuning is switched off."""
    open_ones = CoreSearch.objects.filter(done_at=None)
    closed = {"done_at": now, "due_at": None}
    open_ones.filter(attempt__ended_at__isnull=False).update(outcome=Outcome.ENDED, **closed)
    silent = now - timedelta(seconds=ANSWER_S)
    open_ones.filter(due_at=None, ordered_at__lt=silent).update(outcome=Outcome.UNANSWERED, **closed)
    off = Allocation.objects.filter(attempt=OuterRef("attempt"), node__tunes_cores=False)
    stopped = open_ones.filter(Exists(off)) if on else open_ones
    # One with an open order is stopped when its node has answered.
    for search in stopped.filter(due_at__isnull=False).order_by("due_at")[:AT_ONCE]:
        with _apart(search, now):
            search_stop(search, now=now)


def _again(searches: Collection[CoreSearch], *, now: datetime, pause_s: float = 0.0) -> None:
    """Measure steps without a result again, in one query: nothing changes, so nobody is locked."""
    if not searches:
        return
    rows = CoreSearch.objects.filter(pk__in=among(search.pk for search in searches), done_at=None)
    rows.filter(marked_at__isnull=False, due_at__lte=now).update(
        since=now, marked_at=None, marked_samples=None, due_at=now + timedelta(seconds=pause_s)
    )


def _is_noted(search: CoreSearch) -> bool:
    return search.marked_at is not None and search.marked_samples is not None


def _mark(searches: Sequence[CoreSearch], speeds: Mapping[int, tuple[float, float]], *, now: datetime) -> None:
    """Begin to measure those whose cores have held for a moment; the others have theirs soon.

    A job's report counts only `LAG_S` after the mark: before, it may be of other cores still.
    """
    for search in searches:
        settle_s = min(SETTLE_MOST_S, SETTLE_SHARE * search.step_s)
        short, settled_at = _is_short(search), (search.since or now) + timedelta(seconds=settle_s)
        if search.marked_at is None and settled_at > now and not short:
            search.due_at = settled_at
        elif search.marked_at is None and not short:
            search.marked_at, search.due_at = now, now + timedelta(seconds=LAG_S)
        else:
            search.marked_at = search.marked_at or now
            search.marked_samples, search.marked_seconds = speeds.get(search.attempt_id, (0.0, 0.0))
            search.due_at = now if short else search.marked_at + timedelta(seconds=search.step_s + LAG_S)
    CoreSearch.objects.bulk_update(searches, ["due_at", "marked_at", "marked_samples", "marked_seconds"])


def _is_short(search: CoreSearch) -> bool:
    return search.state["way"] == Way.SHORT


def _figures(measured: Sequence[CoreSearch], speeds: Mapping[int, tuple[float, float]]) -> dict[int, Figures]:
    """Return the measurements, by search."""
    windows = [
        Window(search.attempt_id, search.marked_at, search.marked_at + timedelta(seconds=search.step_s))
        for search in measured
        if search.marked_at is not None
    ]
    uses = uses_read(windows)
    return {
        search.pk: Figures(
            use.utilisation,
            _rate(search, speeds),
            reports=search.attempt_id in speeds,
            cpu_cores=use.cpu_cores,
        )
        for search in measured
        for use in [uses.get(search.attempt_id, Use())]
    }


def _rate(search: CoreSearch, speeds: Mapping[int, tuple[float, float]]) -> float | None:
    """Return the samples a second that the job reported since the mark; None when it reported too little."""
    samples, seconds = speeds.get(search.attempt_id, (0.0, 0.0))
    seconds -= search.marked_seconds or 0.0
    if seconds < LEAST_SHARE * search.step_s:
        return None
    return max(0.0, samples - (search.marked_samples or 0.0)) / seconds
