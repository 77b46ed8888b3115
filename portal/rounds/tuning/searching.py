"""The pass of core tuning: attempts that may be tuned get a search, and searches that are due go a step on.

It costs a fixed number of queries, and a transaction for each step that is over: an attempt has some five in its life. The
rules are the core's (`scheduler.estimator.tuner.step`, which the simulator calls too); here is what they are fed with.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone

from portal.jobs.models import Allocation, Attempt, CoreSearch, CoreStep
from portal.jobs.services import core_tuning_record
from portal.jobs.services.cores import core_place, cores_order
from portal.jobs.services.events import event_record
from portal.jobs.states import AttemptState
from portal.rounds.settings.knobs import knobs_current, scheduler_parameters
from portal.rounds.tuning.measures import LEAST_SHARE, Window, speeds_read, utilisations_read
from scheduler.estimator.tuner import Room, Tuning, Way, advance, by_throughput, gather, step

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from portal.jobs.services.cores import CorePlace
    from scheduler.parameters import Parameters

EVERY_S = 5
LAG_S = 6.0
"""Figures of the last seconds are on their way: nodes send every five."""
SETTLE_SHARE, SETTLE_MOST_S = 0.2, 5.0
"""After cores changed, so much of a step passes before it is measured."""
ANSWER_S = 600.0
"""A node that has not acknowledged an order for so long ends the search."""
AT_ONCE = 500
Signal, Outcome = CoreSearch.Signal, CoreSearch.Outcome


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured in a step; None: nothing that could be used."""

    utilisation: float | None
    samples_per_s: float | None


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
        _step(pk, measured, parameters=parameters, now=now)
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


@transaction.atomic
def _step(pk: int, figures: Figures, *, parameters: Parameters, now: datetime) -> None:
    """End one step under lock: write it down, decide, and order what comes next."""
    attempt_id = CoreSearch.objects.values_list("attempt_id", flat=True).get(pk=pk)
    place = core_place(attempt_id=attempt_id)
    search = CoreSearch.objects.select_for_update(no_key=True).filter(pk=pk, done_at=None, due_at__lte=now).first()
    if search is None:  # another worker was here
        return
    if place is None or not place.node.tunes_cores:
        outcome = Outcome.ENDED if place is None else Outcome.SWITCHED_OFF
        _save(search, done_at=now, due_at=None, outcome=outcome)
        return
    _Ending(search, place, figures, parameters, now).go()


@dataclass(frozen=True, slots=True)
class _Ending:
    """One step that is over, of an attempt that is locked."""

    search: CoreSearch
    place: CorePlace
    figures: Figures
    parameters: Parameters
    now: datetime

    def go(self) -> None:
        tuning = Tuning(**(self.search.state | {"way": Way(self.search.state["way"])}))
        room = Room(self.place.attempt.gpus, len(self.place.part.core_ids), len(self.place.idle))
        if tuning.way is Way.GATHER and room.held < tuning.cores * room.gpus:
            _, cores = step(tuning, room, 0.0)
            self._go_on(tuning, cores, pause_s=self.search.step_s)
            return
        signal = self._signal()
        value = self.figures.samples_per_s if signal == str(Signal.THROUGHPUT) else self.figures.utilisation
        if value is None or value <= (self.parameters.tune_band if signal == str(Signal.UTILISATION) else 0.0):
            # Nothing was measured, or its GPUs idle (it loads, or evaluates): that says nothing about cores.
            self._go_on(tuning, room.held, pause_s=0.0)
            return
        if signal == str(Signal.THROUGHPUT):
            tuning, value = by_throughput(tuning, value)
        self.search.signal = signal
        band = self.parameters.tune_band
        after, cores = step(tuning, room, value, band=band)
        self._write_down(tuning)
        self._go_on(after, cores, pause_s=0.0)
        Attempt.objects.filter(pk=self.place.attempt.pk).update(cores_wanted=after.best)
        if after.is_done:
            started = Way.START if tuning.way is Way.GATHER else tuning.way
            asked = advance(Tuning(**(asdict(tuning) | {"way": started})), value, band=band)
            self._done(after, str(Outcome.FOUND if asked.is_done else Outcome.LIMITED))

    def _signal(self) -> str:
        """Return what the search goes by: the job's own throughput if it reports one in the first step, and then always."""
        if self.search.signal:
            return self.search.signal
        return str(Signal.THROUGHPUT if self.figures.samples_per_s is not None else Signal.UTILISATION)

    def _write_down(self, tuning: Tuning) -> None:
        marked_at = self.search.marked_at or self.now
        CoreStep.objects.create(
            search=self.search,
            number=tuning.steps + 1,
            cores_per_gpu=tuning.cores,
            from_at=marked_at,
            to_at=min(self.now, marked_at + timedelta(seconds=self.search.step_s)),
            utilisation=self.figures.utilisation,
            samples_per_s=self.figures.samples_per_s,
        )

    def _go_on(self, tuning: Tuning, cores: int, *, pause_s: float) -> None:
        """Order the cores of the next step; where it has them already, the next step begins, after a pause."""
        ordered = cores_order(place=self.place, cores=cores)
        _save(
            self.search,
            state=asdict(tuning),
            since=None if ordered else self.now,
            marked_at=None,
            due_at=None if ordered else self.now + timedelta(seconds=pause_s),
            ordered_at=self.now if ordered else None,
        )

    def _done(self, tuning: Tuning, outcome: str) -> None:
        _save(self.search, done_at=self.now, due_at=None, outcome=outcome)
        job = self.place.attempt.job
        core_tuning_record(job=job, cores_per_gpu=tuning.best, steps=tuning.steps)
        word = "found best" if outcome == str(Outcome.FOUND) else "the best of what could be had"
        text = f"{tuning.best} cores a GPU {word} after {tuning.steps} steps, by {self.search.get_signal_display()}."
        event_record(job_id=job.pk, kind="tuned", text=text, epoch=self.place.attempt.epoch)


def _save(search: CoreSearch, **values: object) -> None:
    for name, value in values.items():
        setattr(search, name, value)
    search.save()
