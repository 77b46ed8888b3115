"""The simulated service's knowledge of jobs' speeds: profiles, and measurements of running jobs.

The tables and functions are the estimator's own (Hops 3.2-3.5). The truth reaches them only here, as measured rates. A job that
does not report (`TracedJob.reports`) and has no profiles stays unknown. Profiles are known when the job arrives if the world's
`profiling_s` is 0, else after they have run (see `profiles`). An attempt is measured at plannings, at most once for each minute
of running, and once more when it ends or its speed changes: work per second and GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from scheduler.estimator.tables import cell_key, record, signature
from scheduler.model.speeds import Cell, CellKey, Knowledge, Profile

if TYPE_CHECKING:
    from scheduler.simulator.load import Load
    from scheduler.simulator.world.truth import World

REPORT_S = 60.0
"""The seconds that an attempt runs between two measurements. One that ends sooner is measured once."""


class Knowing:
    """The measurements so far. A planning may see `knowledge`; `version` changes with it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._cells: dict[CellKey, Cell] = {}
        self._profiles: dict[tuple[str, str], Profile] = {}
        self._own: dict[str, set[CellKey]] = {}  # cells of signatures that only one job has
        self.knowledge = Knowledge(self._cells, self._profiles, world.links)
        self.version = 0

    def arrived(self, load: Load) -> None:
        """A job arrived. Each speed that its trace knows beforehand counts as one measurement, if there is none yet."""
        name = signature(load.traced.job)
        cells = {
            cell_key(name, gpu_type, gpus, nodes): speed for (gpu_type, gpus, nodes), speed in load.traced.known.items()
        }
        self._keep(load, {key: Cell().add(speed) for key, speed in cells.items() if key not in self._cells})
        if self._world.profiling_s <= 0:
            for gpu_type in sorted(load.traced.profiles):
                self.learn(load, gpu_type)

    def learn(self, load: Load, gpu_type: str) -> bool:
        """Take the result of a profile on the type; False if it has none."""
        key, profile = (signature(load.traced.job), gpu_type), load.traced.profiles.get(gpu_type)
        if profile is not None and key not in self._profiles:
            self._profiles[key] = profile
            self.version += 1
        return profile is not None

    def measure(self, load: Load, now_s: float, *, last: bool = False) -> None:
        """Measure an attempt's speed, if it has run long enough since the last measurement."""
        attempt = load.attempt
        if attempt is None or not load.traced.reports or not attempt.gpus:
            return
        ran_s = now_s - max(attempt.measured_s, attempt.ready_s)
        if ran_s < REPORT_S and not (last and ran_s > 0 and attempt.measured_s <= attempt.ready_s):
            return
        attempt.measured_s = now_s
        where = [(spot.node, spot.gpu_type or "") for spot in attempt.spots]
        name = signature(load.traced.job)
        self._keep(load, record(self._cells, name, where, attempt.gpus, attempt.rate / attempt.gpus))

    def _keep(self, load: Load, cells: Mapping[CellKey, Cell]) -> None:
        if not cells:
            return
        self._cells.update(cells)
        self.version += 1
        if not load.traced.job.model_label:
            self._own.setdefault(signature(load.traced.job), set()).update(cells)

    def ended(self, load: Load) -> None:
        """Forget the measurements of an ended job that no other job can use."""
        job = load.traced.job
        if job.model_label:
            return
        gone = self._own.pop(signature(job), set())
        for key in gone:
            del self._cells[key]
        profiles = [(signature(job), name) for name in load.traced.profiles]
        found = [key for key in profiles if self._profiles.pop(key, None) is not None]
        self.version += bool(gone or found)
