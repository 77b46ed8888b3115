"""What the estimator predicts of jobs that really run, beside what they then measure of themselves.

Real processes of `examples/loading/train.py`, with the recorder and, where a Python here has PyTorch, its hooks. Their
loading and their GPUs wait instead of computing, so that a machine of few cores does not slow several of them. Records
are taken in by the very functions of the portal. A row of the first table is predicted by the model (the theory layer)
before any run of that size. The second's loading is unstable: what is known grows with each run.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from portal.foundation.layout import SOURCE
from portal.pages.laboratory.output.tables import Table
from portal.planning.estimation.absorbing import rows_take
from portal.planning.estimation.models import JobProfile
from portal.planning.estimation.selectors import profile_of
from research.experiments.base import Experiment, ExperimentError, Result
from scheduler.estimator import iteration
from scheduler.model.speeds import Cell, Link

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from research.experiments.base import Options

SCRIPT = SOURCE / "examples/loading/train.py"
INSTRUMENT = SOURCE / "workers/instrument"
SIZES = (2, 4)
LIMIT_S = 600
LINK = Link(within_node=1e8, between_nodes=None)
"""Of the virtual GPUs: the script takes this long for its exchange. PyTorch's is real, and small."""
STABLE = ("--hit", "0.1")
UNSTABLE = ("--hit", "0.03", "--miss", "0.25", "--misses", "0.3")


@dataclass(slots=True)
class Known:
    """What is known of a job: its profile, and the throughputs that were measured with so many GPUs, a GPU."""

    profile: JobProfile = field(default_factory=JobProfile)
    cells: dict[int, Cell] = field(default_factory=dict)

    def take(self, records: Sequence[Mapping[str, Any]], gpus: int) -> float:
        """Take a run in; return its samples a second a GPU."""
        rows = [row for record in records for row in record["rows"]]
        self.profile.parameters = records[-1]["parameters"] or 0
        rows_take(self.profile, rows, batch=records[-1]["batch"], gpus=gpus)
        rate = sum(each["samples"] for each in records) / sum(each["seconds"] for each in records) / gpus
        self.cells[gpus] = self.cells.get(gpus, Cell()).add(rate)
        return rate

    def theory(self, gpus: int) -> float:
        found = iteration.throughput(profile_of(self.profile), LINK, gpus, nodes=1)
        if found is None:
            raise ExperimentError("The runs recorded nothing to predict from.")
        return found

    def predicted(self, gpus: int) -> tuple[float, str]:
        """The layers, in their order: what was measured with so many GPUs, else the model."""
        cell = self.cells.get(gpus)
        return (cell.mean, "measured") if cell is not None else (self.theory(gpus), "theory")


def torch_python() -> str | None:
    """A Python here that has PyTorch: TORCH_PYTHON, else Berth's own, else the system's."""
    told = os.environ.get("TORCH_PYTHON")
    for python in [told] if told else [sys.executable, "/usr/bin/python3"]:
        asked = [python, "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"]
        if Path(python).exists() and subprocess.run(asked, check=False, capture_output=True).returncode == 0:  # noqa: S603
            return python
    return None


def run_live(flags: Sequence[str], *, gpus: int, python: str = sys.executable) -> list[dict[str, Any]]:
    """Run the example on so many virtual GPUs of one node and return its records. Raises ExperimentError when it fails."""
    with tempfile.TemporaryDirectory(prefix="berth-e-") as records, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        base = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ} | {
            "BERTH_RECORDS_DIR": records,
            "BERTH_GPUS_TOTAL": str(gpus),
            "PYTHONPATH": str(INSTRUMENT),
            "OMP_NUM_THREADS": "1",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free.getsockname()[1]),
            "WORLD_SIZE": str(gpus),
        }
        free.close()
        ranks = range(gpus) if "--torch" in flags else range(1)
        command = [python, str(SCRIPT), *flags]
        started = [
            subprocess.Popen(command, env=base | {"RANK": str(rank), "LOCAL_RANK": str(rank)})  # noqa: S603
            for rank in ranks
        ]
        try:
            codes = [process.wait(LIMIT_S) for process in started]
        finally:
            for process in started:
                process.kill()
        if any(codes):
            raise ExperimentError(f"{' '.join(command)} ended with {max(codes)}.")
        paths = sorted(Path(records).iterdir(), key=lambda path: int(path.name))
        return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def held_out(name: str, flags: Sequence[str], *, python: str, sizes: Sequence[int]) -> list[tuple[object, ...]]:
    """Rows of one job: learnt on one GPU, then predicted for each size by the model before it runs there."""
    known, learnt = Known(), [1]
    rows: list[tuple[object, ...]] = [(name, 1, "", None, known.take(run_live(flags, gpus=1, python=python), 1), None)]
    for gpus in sizes:
        predicted = known.theory(gpus) * gpus
        measured = known.take(run_live(flags, gpus=gpus, python=python), gpus) * gpus
        before = ", ".join(map(str, learnt))
        rows.append((name, gpus, before, predicted, measured, _accuracy(predicted, measured)))
        learnt.append(gpus)
    return rows


def executions(flags: Sequence[str], *, times: int, gpus: int) -> list[tuple[object, ...]]:
    """Rows of a job that runs again and again: how far each prediction is from the mean of all its runs."""
    known = Known()
    known.take(run_live([*flags, "--seed", "1000"], gpus=1), 1)
    told = []
    for number in range(times):
        predicted, layer = known.predicted(gpus)
        told.append((number + 1, layer, predicted * gpus))
        known.take(run_live([*flags, "--seed", str(number)], gpus=gpus), gpus)
    truth = known.cells[gpus].mean * gpus
    return [(number, layer, value, truth, 1 - _accuracy(value, truth)) for number, layer, value in told]


def _accuracy(predicted: float, measured: float) -> float:
    return 1 - abs(predicted - measured) / measured


def run(options: Options) -> Result:
    """Stable loading on held-out sizes, then unstable loading run by run. `quick`: few steps, two processes at most."""
    steps, sizes, times = ("16", (2,), 2) if options.quick else ("60", SIZES, 8)
    rows = held_out("python", (*STABLE, "--steps", steps), python=sys.executable, sizes=sizes)
    note = "A size is predicted by the model from runs of other sizes alone. Asked: at least 0.95."
    python = torch_python()
    if python is None:
        note += " PyTorch was not run: no Python here has it; set TORCH_PYTHON to one that has."
    elif not options.quick:
        rows += held_out("PyTorch", (*STABLE, "--steps", steps, "--torch"), python=python, sizes=sizes)
    unstable = executions((*UNSTABLE, "--steps", steps), times=times, gpus=2)
    columns = ("job", "GPUs", "learnt on", "predicted, samples/s", "measured, samples/s", "accuracy")
    columns_again = ("execution", "predicted by", "predicted, samples/s", "mean of all, samples/s", "error")
    tables = (
        Table("Stable loading: sizes that never ran", columns, rows, note),
        Table("Unstable loading: three of ten batches miss the cache; 2 GPUs", columns_again, unstable),
    )
    accuracies = [float(str(row[5])) for row in rows if row[5] is not None]
    figures = {"least_accuracy": min(accuracies), "errors": [row[4] for row in unstable]}
    return Result("estimator-live", tables, figures)


EXPERIMENT = Experiment("estimator-live", "the estimator beside instrumented jobs that really run", run)
