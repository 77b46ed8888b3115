"""Material of `./berth train-sharing`: a generator, a table of measured pairs, or this cluster's own jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from portal.pages.laboratory.errors import SimulationError
from portal.planning.estimation.models import SignatureUse
from scheduler.sharing.learned.runs import phases_of
from scheduler.simulator.generators.dqngpu import GROUPS, PHASE_S
from scheduler.simulator.sharing.pairs import PairWorld, half_of, pairs_read
from scheduler.simulator.sharing.training_runs import LAW, LONGEST, OBSERVATIONS, Groups, Pairs, Seen
from scheduler.simulator.sharing.world import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from scheduler.sharing.series import Floats

GENERATORS = ("dqngpu", *(f"dqngpu-{group}" for group in GROUPS))
LEAST_SIGNATURES = 2
STEPS_OF_LONG = 30
"""The 90th percentile of the seconds that signatures ran is this number of steps."""


def generator_data(name: str) -> Groups:
    """Return a generator's workloads. Raises SimulationError for a name that is none."""
    if name not in GENERATORS:
        raise SimulationError("generator", f"there is no generator {name!r}; there are {', '.join(GENERATORS)}")
    group = name.removeprefix("dqngpu").removeprefix("-")
    return Groups(OBSERVATIONS["dqn"], (group,) if group else tuple(GROUPS))


def pair_data(path: Path, gpu_type: str, *, half: int | None) -> Pairs:
    """Return workloads of a table of pairs. `half`: by which seed half is left out. Raises SimulationError."""
    try:
        with path.open(newline="", encoding="utf-8") as lines:
            speeds = pairs_read(lines, gpu_type)
    except (OSError, ValueError) as error:
        raise SimulationError("pairs", f"{path} cannot be read: {error}") from error
    known = speeds if half is None else half_of(speeds, np.random.default_rng(half))
    return Pairs(PairWorld.of(speeds, known, LAW))


def telemetry_data(memory_mib: int, most: int | None = None) -> Seen:
    """Return workloads of the GPU use of each signature's last run, with a limit: those that ran last.

    Raises SimulationError where too few ran.
    """
    last = SignatureUse.objects.exclude(gpu_type=None).select_related("signature").order_by("-at", "pk")[:most]
    rows = sorted(last, key=lambda row: (row.signature.name, row.gpu_type_id))
    rows = [row for row in rows if row.seconds > 0 and _series(row.series) is not None]
    if len(rows) < LEAST_SIGNATURES:
        raise SimulationError(
            "telemetry",
            f"{len(rows)} kinds of jobs were seen to use a GPU, and it takes {LEAST_SIGNATURES} to learn who suits whom; "
            "let jobs run to their ends first, or give --generator or --pairs",
        )
    step_s = max(1.0, float(np.percentile([row.seconds for row in rows], 90)) / STEPS_OF_LONG)
    uses = [_usage(row, step_s, memory_mib) for row in rows]
    return Seen(tuple(uses), memory_mib, step_s)


def _series(series: Mapping[str, Sequence[float | None]]) -> Floats | None:
    """Return GPU time (0 to 1), memory (MiB), PCIe (MB/s) by sample; None where one of the first two was not measured."""
    names = ("gpu_utilisation", "gpu_memory_mib")
    if any(not series.get(name) for name in names):
        return None
    points = len(series["gpu_memory_mib"])
    pcie = [series.get(name) or [0.0] * points for name in ("gpu_pcie_tx_mb_s", "gpu_pcie_rx_mb_s")]
    columns = [*(series[name] for name in names), *pcie]
    if any(len(column) != points for column in columns):
        return None
    gpu, memory, sent, received = (np.array([each or 0.0 for each in column]) for column in columns)
    return np.stack([gpu / 100.0, memory, sent + received], axis=1)


def _usage(row: SignatureUse, step_s: float, memory_mib: int) -> Usage:
    found = _series(row.series)
    assert found is not None
    found[:, 1] /= memory_mib
    return Usage(row.signature.name, phases_of(found, row.seconds, step_s, LONGEST // 2), PHASE_S)
