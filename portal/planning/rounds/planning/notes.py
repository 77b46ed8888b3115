"""Which of a plan's words about waiting jobs are news: found in columns, for most of 100 000 jobs nothing is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from operator import attrgetter
from typing import Any

import numpy as np

from portal.planning.rounds.planning.queued import QueuedJob, cell
from portal.planning.rounds.record.packing import REASONS, RESULTS, Columns
from portal.work.jobs.services.waiting import AGE_STEP, HELD, WaitingNote
from portal.work.jobs.states import JobState
from scheduler.explaining.places import PLACE_FIGURES
from scheduler.model import Decision, Result

PLACED = RESULTS.index(str(Result.PLACED))
WINDOWS = {None: -1, False: 0, True: 1}
UNKNOWN = len(REASONS)
"""The number of a reason that this version does not know."""


def notes_of(decisions: Sequence[Decision], columns: Columns, queued: Sequence[QueuedJob]) -> list[WaitingNote]:
    """Return the notes of jobs that were not placed; `waiting_note` looks again under locks.

    `columns`: those of the decisions; `queued`: the queue as the snapshot read it, by ascending job.
    """
    if not len(decisions) or not queued:
        return []
    known = columns.values
    count = len(queued)
    jobs = np.fromiter(map(cell("pk"), queued), np.int64, count)
    place = np.minimum(np.searchsorted(jobs, known["job"]), count - 1)
    placed = known["result"] == PLACED
    news = _differs(known, decisions, queued, place) & (jobs[place] == known["job"]) & ~placed
    told: dict[int, dict[str, Any]] = {}
    return [note_of(decisions[each], told) for each in np.flatnonzero(news).tolist()]


def _differs(
    known: dict[str, np.ndarray], decisions: Sequence[Decision], queued: Sequence[QueuedJob], place: np.ndarray
) -> np.ndarray:
    """Return, for each decision, whether it would change its job's row: the rules of `waiting_note`, as columns."""
    count, codes = len(queued), {reason: code for code, reason in enumerate(REASONS)}

    def column(values: Iterable[Any], dtype: Any) -> np.ndarray:
        return np.fromiter(values, dtype, count)[place]

    held = column(map(str(JobState.HELD).__eq__, map(cell("state"), queued)), bool)
    reasons = column(map(codes.get, map(cell("reason"), queued), repeat(UNKNOWN)), np.int64)
    windows = column(map(WINDOWS.__getitem__, map(cell("in_window"), queued)), np.int8)
    counted = ~np.isnan(column(list(map(cell("waiting_since_s"), queued)), np.float64))
    started = column(map(cell("started"), queued), bool)
    ages = column(list(map(cell("age_s"), queued)), np.float64)
    inside = np.fromiter(map(attrgetter("inside_window"), decisions), np.int8, len(decisions))
    told = (reasons != known["reason"]) | (windows != inside)
    counts = (known["eligible"] > 0) & ~held
    age = known["age_s"]
    with np.errstate(invalid="ignore"):
        moved = (np.isnan(ages) | (np.abs(age - ages) > AGE_STEP * ages)) & ~np.isnan(age) & (age != 0)
    concerns = held == (known["reason"] == codes[HELD])
    return concerns & (told | (counts != counted) | (moved & ~started))


def note_of(decision: Decision, told: dict[int, dict[str, Any]]) -> WaitingNote:
    """Return a decision's note. `told`: by identity, the notes of figures met before; many jobs share theirs."""
    figures = told.get(id(decision.figures))
    if figures is None:
        figures = {name: value for name, value in decision.figures.items() if name not in PLACE_FIGURES}
        told[id(decision.figures)] = figures
    return WaitingNote(
        job_id=decision.job,
        reason=str(decision.reason or ""),
        figures=figures,
        inside_window=decision.inside_window,
        counts=decision.eligible,
        age_s=decision.age_s,
        age_source=decision.age_source,
    )
