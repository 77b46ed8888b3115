"""How well a GPU's memory and use are forecast a sample ahead, by how often they are sampled (Kube-Knots VI-D).

On the public record of 143 containers, a sample each 57 s for 23 hours: rarer heartbeats are that record thinned out. The
forecast, its window and the test that must be passed first (first autocorrelation above 0) are `scheduler.sharing`'s. The paper
samples from 1 000 ms down to 1 ms; there is no public record as dense.
"""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from portal.pages.laboratory.output.tables import Table
from portal.pages.laboratory.run.parallel import Task
from research.experiments.base import Experiment, ExperimentError, Result

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from portal.pages.laboratory.run.parallel import Tell
    from research.experiments.base import Options

FILES = {"memory": "pod_gpu_memory_used_bytes_anon.csv.gz", "duty cycle": "pod_gpu_duty_cycle_anon.csv.gz"}
HEARTBEATS = (1, 2, 5, 10)
"""In samples of the record."""
SAMPLE_S = 57
WINDOW = 5
NEAR = 0.05
"""A forecast within so much of the series' highest value came true."""
COLUMNS = (
    "measure",
    "heartbeat, s",
    "forecasts",
    "trend seen",
    "came true",
    "where it moved",
    "last value would have",
    "error / last value's",
)

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class _Entry:
    """One measure at one heartbeat."""

    path: Path
    every: int
    least: int

    def __call__(self, tell: Tell) -> Figures:
        import numpy as np

        from scheduler.sharing.series import autocorrelation, forecast

        ahead, last, true, wide, seen = [], [], [], [], 0
        for values in series_in(self.path):
            thinned = np.array(values[:: self.every])
            for first in range(0, len(thinned) - WINDOW, self.least):
                window = thinned[first : first + WINDOW]
                trend = autocorrelation(window) > 0.0
                seen += 1
                if trend:
                    ahead.append(min(max(forecast(window), 0.0), float(thinned.max())))
                    last.append(float(window[-1]))
                    true.append(float(thinned[first + WINDOW]))
                    wide.append(float(thinned.max()))
        if not ahead:
            raise ExperimentError(f"{self.path} holds no series of which one follows its own past.")
        top, truth = np.array(wide), np.array(true)
        errors = {name: np.abs(np.array(guess) - truth) / top for name, guess in (("ours", ahead), ("last", last))}
        moved = np.abs(np.array(last) - truth) / top > NEAR
        return {
            "forecasts": float(len(ahead)),
            "trend": len(ahead) / seen,
            "true": float((errors["ours"] <= NEAR).mean()),
            "moved": float((errors["ours"] <= NEAR)[moved].mean()) if moved.any() else 0.0,
            "last": float((errors["last"] <= NEAR).mean()),
            "error": float(errors["ours"].mean() / max(errors["last"].mean(), 1e-12)),
        }


def series_in(path: Path) -> Iterator[list[float]]:
    """Yield each container's values in the order of time. Raises ExperimentError for a file that is no such record."""
    try:
        with gzip.open(path, "rt", newline="") as lines:
            rows = [
                (row["container_ip"], float(row["timestamp_anon"]), float(row["value"]))
                for row in csv.DictReader(lines)
            ]
    except (OSError, KeyError, ValueError, EOFError) as error:
        raise ExperimentError(f"{path} cannot be read: {error!r}") from error
    for _, own in groupby(sorted(rows), key=lambda row: row[0]):
        yield [value for _, _, value in own]


def run(options: Options) -> Result:
    """Forecast each measure at each heartbeat."""
    folder = options.folder("knots")
    least = 50 if options.quick else WINDOW
    keys = [(name, every) for name in FILES for every in HEARTBEATS]
    tasks = [Task(f"{name}, every {every}", _Entry(folder / FILES[name], every, least)) for name, every in keys]
    found = dict(zip(keys, options.run_all(tasks), strict=True))
    rows = [_row(name, every, own) for (name, every), own in found.items()]
    note = (
        f"One sample ahead from {WINDOW}. Trend seen: windows whose first autocorrelation is above 0; only these are forecast. "
        f"Came true: within {NEAR:.0%} of the series' highest value. Where it moved: of those whose next value lay further off."
    )
    figures: dict[str, Any] = {f"{name} {every * SAMPLE_S}": own for (name, every), own in found.items()}
    return Result("forecast", (Table("The forecast by heartbeat", COLUMNS, rows, note),), {"heartbeats": figures})


def _row(name: str, every: int, own: Figures) -> tuple[Any, ...]:
    figures = (own["trend"], own["true"], own["moved"], own["last"], own["error"])
    return (name, every * SAMPLE_S, int(own["forecasts"]), *figures)


EXPERIMENT = Experiment(
    "forecast", "how well CBP+PP's forecast of memory comes true, by how often it is sampled (Kube-Knots VI-D)", run
)
