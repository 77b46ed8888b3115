"""The end of a step of core tuning: it is written down, and the cores of the next one are ordered.

The rules are the core's (`scheduler.estimator.tuner.step`, which the simulator calls too); here is what they are fed with.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.db import transaction

from portal.work.jobs.models import Attempt, CoreSearch, CoreStep
from portal.work.jobs.services.cores import CorePlace, core_place, core_tuning_record, cores_order
from portal.work.jobs.services.events import event_record
from scheduler.estimator.tuner import Room, Tuning, Way, advance, by_throughput, step
from scheduler.explaining.phrases import count

if TYPE_CHECKING:
    from scheduler.parameters import Parameters

Signal, Outcome = CoreSearch.Signal, CoreSearch.Outcome


@dataclass(frozen=True, slots=True)
class Figures:
    """The measurement of a step; None: nothing that could be used."""

    utilisation: float | None
    samples_per_s: float | None
    reports: bool = False  # it has reported iterations, if too few in this step
    cpu_cores: float | None = None  # kept busy by all its processes, in the mean


@transaction.atomic
def step_end(read: CoreSearch, figures: Figures, *, parameters: Parameters, now: datetime) -> None:
    """End one step of a search as it was `read`, under lock: write it down, decide, and order what comes next."""
    place = core_place(attempt_id=read.attempt_id)
    search = _locked(read)
    if search is None:  # another was here
        return
    if place is None:
        _save(search, done_at=now, due_at=None, outcome=Outcome.ENDED)
        return
    _Ending(search, place, figures, parameters, now).go()


@transaction.atomic
def search_stop(read: CoreSearch, *, now: datetime) -> None:
    """End a search that is switched off: the attempt goes back to the best that was found, and not what was being tried."""
    place = core_place(attempt_id=read.attempt_id)
    search = _locked(read)
    if search is None:
        return
    if place is not None:
        best = max(1, search.state["best"]) * place.attempt.gpus
        cores_order(place=place, cores=min(best, len(place.part.core_ids) + len(place.idle)))
    _save(search, done_at=now, due_at=None, outcome=Outcome.SWITCHED_OFF)


def _locked(read: CoreSearch) -> CoreSearch | None:
    """Lock a search; None when it is no more where it was when it was read."""
    same = {"pk": read.pk, "done_at": None, "due_at": read.due_at, "marked_at": read.marked_at}
    return CoreSearch.objects.select_for_update(no_key=True).filter(**same).first()


def signal_of(search: CoreSearch, figures: Figures) -> str:
    """Return the measure of the search: throughput for ever if the job reports iterations in its first step."""
    if search.signal:
        return search.signal
    return Signal.THROUGHPUT if figures.samples_per_s is not None or figures.reports else Signal.UTILISATION


def value_of(search: CoreSearch, figures: Figures, *, band: float) -> float | None:
    """Return the value that judges a step; None when nothing was measured, or its GPUs idle (it loads, or evaluates): that
    says nothing about cores.
    """
    by_use = signal_of(search, figures) == Signal.UTILISATION
    value = figures.utilisation if by_use else figures.samples_per_s
    return None if value is None or value <= (band if by_use else 0.0) else value


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
        if tuning.way is Way.SHORT:
            tuning, cores = step(tuning, room, 0.0)
            self._go_on(tuning, cores, pause_s=self.search.step_s)
            return
        band = self.parameters.noise_band
        value = value_of(self.search, self.figures, band=band)
        if value is None:
            self._go_on(tuning, room.held, pause_s=0.0)
            return
        self.search.signal = signal_of(self.search, self.figures)
        if self.search.signal == Signal.THROUGHPUT:
            tuning, value = by_throughput(tuning, value)
        used = self.figures.cpu_cores
        after, cores = step(tuning, room, value, band=band, used=used)
        self._write_down(tuning)
        self._go_on(after, cores, pause_s=0.0)
        Attempt.objects.filter(pk=self.place.attempt.pk).update(cores_wanted=after.wish)
        if after.is_done:
            alone = advance(tuning, value, band=band, used=None if used is None else used / room.gpus)
            self._done(after, Outcome.FOUND if alone.is_done else Outcome.LIMITED)

    def _write_down(self, tuning: Tuning) -> None:
        marked_at = self.search.marked_at or self.now
        CoreStep.objects.create(
            search=self.search,
            number=self.search.steps.count() + 1,
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
            marked_samples=None,
            due_at=None if ordered else self.now + timedelta(seconds=pause_s),
            ordered_at=self.now if ordered else None,
        )

    def _done(self, tuning: Tuning, outcome: str) -> None:
        _save(self.search, done_at=self.now, due_at=None, outcome=outcome)
        job = self.place.attempt.job
        core_tuning_record(job=job, cores_per_gpu=tuning.best, steps=tuning.steps)
        word = "found best" if outcome == Outcome.FOUND else "the best of what could be had"
        steps = count(tuning.steps, "steps")
        text = f"{count(tuning.best, 'cores')} a GPU {word} after {steps}, by {self.search.get_signal_display()}."
        event_record(job_id=job.pk, kind="tuned", text=text, epoch=self.place.attempt.epoch)


def _save(search: CoreSearch, **values: object) -> None:
    for name, value in values.items():
        setattr(search, name, value)
    search.save()
