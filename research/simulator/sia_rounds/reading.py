"""Jobs of Sia's workloads as trainings by epochs, from the trace and the folder of profiles (`traces.sia_profiles`)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from research.simulator.sia_rounds.job import RoundJob
from research.simulator.sia_rounds.training import EpochTraining
from scheduler.simulator.traces.sia import APPLICATIONS, read_application
from scheduler.simulator.traces.source import TraceError, rows, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.simulator.traces.source import Source

COLUMNS = ("progress", "grad_sqr", "grad_var")
MOST_NOISE = 1e30


def read_jobs(source: Source) -> list[RoundJob]:
    """The trace's jobs, numbered from 1. TraceError says what is missing or wrong, in the trace or in the profiles."""
    trainings: dict[str, EpochTraining] = {}
    found: list[RoundJob] = []
    for number, row in enumerate(rows(source.name, source.lines, ("name", "time", "application")), start=1):
        name = row.text("application")
        if name not in APPLICATIONS:
            raise row.wrong("application", f"{shown(name)} is not one of {', '.join(APPLICATIONS)}")
        if name not in trainings:
            trainings[name] = read_training(name, source)
        found.append(RoundJob(number, row.text("name"), trainings[name], row.number("time")))
    return found


def read_training(name: str, source: Source) -> EpochTraining:
    """The application with what was measured in each epoch that all of its batch sizes have."""
    application = read_application(name, source)
    by_batch = [_epochs(f"{name}/validation-{batch:g}.csv", source) for batch in application.training.batches]
    epochs = min(map(len, by_batch))
    table = np.array([each[:epochs] for each in by_batch])  # (batch sizes, epochs, columns)
    ends = tuple(map(float, table[:, :, 0].min(axis=0)))
    return EpochTraining(application, APPLICATIONS[name].restart_s, ends, table[:, :, 1], table[:, :, 2])


def _epochs(file: str, source: Source) -> Sequence[tuple[float, ...]]:
    lines = source.companion(file)
    if lines is None:
        raise TraceError(source.name, None, "application", f"the folder of profiles holds no {file}")
    found = [
        (
            row.number("progress", above=True),
            row.number("grad_sqr", most=MOST_NOISE),
            row.number("grad_var", most=MOST_NOISE),
        )
        for row in rows(file, lines, COLUMNS)
    ]
    for line, (before, after) in enumerate(pairwise(found), start=3):
        if after[0] <= before[0]:
            raise TraceError(file, line, "progress", "an epoch ends before the one that it follows")
    return found
