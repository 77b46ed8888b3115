"""What the simulated service finds out about jobs' speeds: profiles after profiling, and measurements of running jobs.

The tables and functions are the estimator's own (Hops 3.2-3.5); only here does anything of the truth reach them, as a
measured rate. A job that does not report (`TracedJob.reports`) and has no profiles stays unknown.

- profiles: with `profiling_s` 0 known at the job's arrival; else at each planning, for as long as the job has not
  started, a type of which a GPU is idle is profiled, and known `profiling_s` later. No GPU is taken for it.
- what the trace knows (`TracedJob.known`): at the job's arrival, as one measurement each, where there is none yet.
- measurements: at plannings, at most one a minute of running, and one at an attempt's end: work a second and GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.estimator.tables import Cell, CellKey, Knowledge, cell_key, record, signature

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from scheduler.estimator.iteration import Profile
    from scheduler.simulator.load import Load
    from scheduler.simulator.truth import World

REPORT_S = 60.0
"""Running between two measurements of an attempt; one that ends sooner has measured itself once."""


class Knowing:
    """Grows with what runs. `knowledge` is what a planning may see."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._cells: dict[CellKey, Cell] = {}
        self._profiles: dict[tuple[str, str], Profile] = {}
        self._cells_of: dict[str, set[CellKey]] = {}  # of signatures that are one job's own
        self._wanted: dict[int, tuple[Load, dict[str, float | None]]] = {}  # job -> type -> known from then on
        self.knowledge = Knowledge(self._cells, self._profiles, world.links)

    def arrived(self, load: Load) -> None:
        """A job came: what its trace knows is known, and what profiling would find is known at once, or wanted."""
        self._be_told(load)
        self._tell(load)
        missing = {name for name in load.traced.profiles if (signature(load.traced.job), name) not in self._profiles}
        if self._world.profiling_s <= 0:
            self._learn(load, missing)
        elif missing:
            self._wanted[load.id] = (load, dict.fromkeys(sorted(missing)))

    def _tell(self, load: Load) -> None:
        """What is known of its speed beforehand counts as one measurement each, where there is none."""
        name = signature(load.traced.job)
        cells = {
            cell_key(name, gpu_type, gpus, nodes): speed for (gpu_type, gpus, nodes), speed in load.traced.known.items()
        }
        self._keep_cells(load, {key: Cell().add(speed) for key, speed in cells.items() if key not in self._cells})

    def _keep_cells(self, load: Load, cells: Mapping[CellKey, Cell]) -> None:
        self._cells.update(cells)
        if not load.traced.job.model_label:
            self._cells_of.setdefault(signature(load.traced.job), set()).update(cells)

    def _be_told(self, load: Load) -> None:
        job = load.traced.job
        told = {
            cell_key(signature(job), gpu_type, gpus, nodes): Cell().add(per_gpu)
            for (gpu_type, gpus, nodes), per_gpu in load.traced.known.items()
        }
        new = {key: cell for key, cell in told.items() if key not in self._cells}
        self._cells.update(new)
        if not job.model_label:
            self._cells_of.setdefault(signature(job), set()).update(new)

    def started(self, load: Load) -> None:
        """A job that runs is profiled no more; what a profile that is under way finds comes all the same."""
        if load.id in self._wanted:
            own, types = self._wanted[load.id]
            self._keep(load.id, own, {name: at_s for name, at_s in types.items() if at_s is not None})

    def profile(self, now_s: float, idle_types: Collection[str]) -> list[float]:
        """Begin what can be profiled now; when the results of what has begun will be there. Learn what has come."""
        begun: list[float] = []
        for number, (load, types) in list(self._wanted.items()):
            for name, at_s in types.items():
                if at_s is None and name in idle_types:
                    types[name] = now_s + self._world.profiling_s
                    begun.append(now_s + self._world.profiling_s)
            come = {name for name, at_s in types.items() if at_s is not None and at_s <= now_s}
            self._learn(load, come)
            self._keep(number, load, {name: at_s for name, at_s in types.items() if name not in come})
        return begun

    def _keep(self, number: int, load: Load, types: dict[str, float | None]) -> None:
        if types:
            self._wanted[number] = (load, types)
        else:
            self._wanted.pop(number, None)

    def _learn(self, load: Load, types: Collection[str]) -> None:
        for name in sorted(types):
            self._profiles[signature(load.traced.job), name] = load.traced.profiles[name]

    def measure(self, load: Load, now_s: float, *, last: bool = False) -> None:
        """Take what an attempt tells of its speed, if it has run long enough since it last did."""
        attempt = load.attempt
        if attempt is None or not load.traced.reports or not attempt.gpus:
            return
        since_s = max(attempt.measured_s, attempt.ready_s)
        ran_s = now_s - since_s
        if ran_s < REPORT_S and not (last and ran_s > 0 and attempt.measured_s <= attempt.ready_s):
            return
        attempt.measured_s = now_s
        job = load.traced.job
        where = [(spot.node, spot.gpu_type or "") for spot in attempt.spots]
        self._keep_cells(load, record(self._cells, signature(job), where, attempt.gpus, attempt.rate / attempt.gpus))

    def ended(self, load: Load) -> None:
        """Nobody asks any more about a job that is comparable to itself alone."""
        self._wanted.pop(load.id, None)
        job = load.traced.job
        if job.model_label:
            return
        for key in self._cells_of.pop(signature(job), ()):
            del self._cells[key]
        for name in load.traced.profiles:
            self._profiles.pop((signature(job), name), None)
