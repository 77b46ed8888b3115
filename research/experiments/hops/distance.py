"""How far two rivals' figures are from their rows in Hops' paper: what the calibration of a workload makes small.

The distance is the weighed sum of the squared logarithms of ours over the paper's, over the rows of `gavel-hops` and
`sia-hops`: the first takes each job's median size, the second chooses, so that only both together tell what sizes cost. The
time that jobs run, mean JCT less mean wait, counts beside the two that it is made of.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from research.experiments.hops import setting

ROWS = ("gavel-hops", "sia-hops")
PLAIN = ("makespan_h", "mean_jct_h", "mean_wait_h", "max_lr", "fragments_per_round")
RUN = "mean_run_h"
SHOWN = (*PLAIN[:3], RUN, *PLAIN[3:])
COLUMNS = {**setting.COLUMNS, RUN: "mean run, h"}
WEIGHTS = {
    "makespan_h": 4.0,
    "mean_jct_h": 1.0,
    "mean_wait_h": 1.0,
    RUN: 1.0,
    "fragments_per_round": 0.25,
    "max_lr": 0.125,
}
"""The makespan must be met; the largest ratio is that of a single job, and differs much between seeds."""

OF_A_PART = {key: weight for key, weight in WEIGHTS.items() if key != "max_lr"}
"""On a few dozen jobs a single job's ratio says nothing: it was 3 with one choice and 170 with the next."""

CLEARLY = 0.75
"""Of the frozen workload's distance: what a better one must stay below to be worth a new workload, since seeds scatter."""

Row = Mapping[str, float | None]


def row_of(of_seeds: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """Return a rival's figures: medians over the seeds."""
    return with_run(setting.medians(of_seeds, PLAIN))


def with_run(row: Row) -> dict[str, float | None]:
    """Return the figures with the mean time that jobs ran: mean JCT less mean wait."""
    jct_h, wait_h = row.get("mean_jct_h"), row.get("mean_wait_h")
    return {**row, RUN: None if jct_h is None or wait_h is None else jct_h - wait_h}


def distance(
    found: Mapping[str, Row], paper: Mapping[str, Row], weights: Mapping[str, float] = MappingProxyType(WEIGHTS)
) -> float:
    """Return the distance between the rivals' rows and the paper's; infinite when a figure is missing."""
    return sum(_of_row(found[rival], with_run(paper[rival]), weights) for rival in ROWS)


def _of_row(found: Row, paper: Row, weights: Mapping[str, float]) -> float:
    total = 0.0
    for key, weight in weights.items():
        ours, theirs = found.get(key), paper.get(key)
        if not ours or not theirs or ours < 0:
            return math.inf
        total += weight * math.log(ours / theirs) ** 2
    return total
