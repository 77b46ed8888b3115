"""Policies judged on workloads that no policy was trained on, all on the same GPU and law."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from scheduler.sharing.learned.network import Network
from scheduler.simulator.generators.dqngpu import GPU_MIB, dqngpu_jobs
from scheduler.simulator.sharing.one_gpu import OneGpu
from scheduler.simulator.sharing.pickers import Sharing, placed, played, sjf, tetris
from scheduler.simulator.sharing.school import EYES, LAW

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduler.sharing.series import Floats
    from scheduler.simulator.sharing.pickers import Picker

PICKERS: dict[str, Callable[[], Picker]] = {
    "sjf": lambda: sjf,
    "tetris": lambda: tetris,
    **{name: partial(Sharing, name) for name in ("res-ag", "cbp", "cbp-pp")},
}


def judged_on_group(policy: str, group: str, seed: int, layers: Sequence[Floats] | None = None) -> dict[str, float]:
    """Return the figures of a policy on one workload. `layers`: of a learned policy's network. Raises KeyError for no policy."""
    jobs = dqngpu_jobs(group, np.random.default_rng(seed))
    if layers is None:
        return placed(OneGpu(jobs, GPU_MIB, LAW), PICKERS[policy]()).figures()
    eyes = EYES[policy]
    return played(OneGpu(jobs, GPU_MIB, LAW, eyes), Network(eyes.frame, layers)).figures()
